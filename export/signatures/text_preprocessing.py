"""Turn raw text into the words or characters of a text model, or into pieces of words, in the graph.

Axes: B (texts), T (tokens or pieces).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.models import TextEncoder
from keras_selfattn.models.text.explanation import explained_tokens
from keras_selfattn.models.text.text_model import TextModel
from keras_selfattn.models.text.tokenizer import Tokenizer
from keras_selfattn.models.vocabulary import PADDING_ID, lowercased
from keras_selfattn.rows.text_groups import texts_of_row

from ..portable.tokenizer_export import text_files
from .model_signatures import Graphs, Signature
from .pair_preprocessing import PairFront
from .raw_front import RawFront, front_of
from .text_model_front import TextModelFront
from .trial_requests import TEXTS, Request, in_batches, strings

Tensor = Any

# Most tokens, or words, of the warmup texts: one of each length.
_MOST_TOKENS = 64


class TextFront(TextModelFront):
    """Preprocess raw text for a text model's core: token ids, and logits of the wide path if there is one."""

    explained_requests = None

    def __init__(self, model: TextModel) -> None:
        super().__init__(model)
        self._tokenizer = model.tokenizer
        self.specs = {"text": tf.TensorSpec([None], tf.string, name="text")}
        self.tracked = [self._tokenizer.table]
        self._between = " " if self._tokenizer.config.tokens == "words" else ""

    def __call__(self, *raw: Tensor) -> Any:
        return self._model.beside_wide(self._tokenizer(raw[0]), raw[0])  # the ids ragged [B, T]

    def of_tokens(self, tokens: Tensor) -> Any:
        """Return the same for tokens, string `[B, T]`, "" as padding; the ids are padded."""
        ids = self.ids(tokens)
        return self._model.beside_wide(ids, tf.strings.reduce_join(tokens, axis=1, separator=self._between))

    def explained(self, *raw: Tensor) -> tuple[Tensor, Tensor]:
        """Return the tokens of texts `[B]`, string `[B, T]`, padded with "", and their int32 ids."""
        return explained_tokens(self._tokenizer, *raw)

    def ids(self, tokens: Tensor) -> Tensor:
        """Return the ids of tokens, string `[B, T]`, cut like texts, int32 `[B, T]`; "" is padding."""
        config = self._tokenizer.config
        tokens = tf.strings.unicode_transcode(
            tokens[:, : config.max_tokens], "UTF-8", "UTF-8", errors="replace"
        )
        if config.lowercase:
            tokens = lowercased(tokens)
        return tf.where(tokens == "", PADDING_ID, self._tokenizer.table.lookup(tokens))

    def requests(self) -> list[Request]:
        words = [*self._tokenizer.vocabulary[:64], "unknown-token"]
        texts = [" ".join(words[:count]) for count in (3, 1, 2, 5, 7, 11, 17, 31, len(words))]
        return in_batches({"text": strings([*texts, *TEXTS, "\t\n ", *texts[::-1]])})

    def more_requests(self) -> list[Request]:
        """Return the request for texts of 1 to 64 tokens, one of each length."""
        tokens = [token for token in self._tokenizer.vocabulary if token.strip()][:3] or ["a"]
        texts = [self._between.join((tokens * count)[:count]) for count in range(1, _MOST_TOKENS + 1)]
        return [{"text": strings(texts)}]

    def more_signatures(
        self, graphs: Graphs, requests: Sequence[Request], *, real: bool
    ) -> dict[str, Signature]:
        """Return `tokens`, `explain` and, with a wide path, `contributions`."""
        tokens = self.token_requests()
        if real:
            tokens[0] = self.token_request(requests[0])
        return {
            "tokens": Signature(graphs.on_tokens(self.of_tokens), tokens, padding={"tokens": ""}),
            **super().more_signatures(graphs, requests, real=real),
        }

    def id_files(self) -> dict[str, Any]:
        return text_files(self._tokenizer)

    def asked(self, row: str) -> Request:
        """Return the request for a text."""
        return {"text": strings([row])}

    def token_request(self, request: Request) -> Request:
        """Return the request for the tokens of another request's texts."""
        tokens, _ = self.explained(tf.constant(request["text"], tf.string))
        return {"tokens": tokens.numpy()}

    def token_requests(self) -> list[Request]:
        """Return requests to try a signature that takes tokens."""
        words = self._tokenizer.vocabulary[:6]
        rows = [words, [words[0]], ["", ""], [*words, "unknown-token"]]
        length = max(map(len, rows))
        return in_batches({"tokens": np.stack([strings(row + [""] * (length - len(row))) for row in rows])})


class _PieceFront(RawFront):
    """Preprocess raw text for an encoder of pieces, pretrained or learned: their ids.

    Args:
        model: it has a tokenizer of pieces.
    """

    def __init__(self, model: TextEncoder | TextModel) -> None:
        super().__init__(model)
        self._tokenizer = tokenizer = model.tokenizer
        self.specs = {"text": tf.TensorSpec([None], tf.string, name="text")}
        self.tracked = list(tokenizer.tables)

    def explained(self, *raw: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pieces of texts `[B]`, string `[B, T]`, padded with "", and their int32 ids."""
        return explained_tokens(self._tokenizer, *raw)

    def requests(self) -> list[Request]:
        words = ["film", "good", "a", "the", "what", "was", "it", "and"]
        texts = [" ".join((words * count)[:count]) for count in range(1, _MOST_TOKENS + 1)]
        rows = [*texts[2:12], *TEXTS, "\t\n ", *texts[::-1]]
        return [*in_batches({"text": strings(rows)}), {"text": strings(texts)}]

    def asked(self, row: str) -> Request:
        """Return the request for a text."""
        return {"text": strings([row])}

    def id_files(self) -> dict[str, Any]:
        return text_files(self._tokenizer)


class PieceFront(_PieceFront, TextModelFront):
    """Preprocess raw text for an encoder of pieces: ids, and logits of the wide path if there is one."""

    def __call__(self, *raw: Tensor) -> Any:
        return self._model.beside_wide(self._tokenizer(raw[0]), raw[0])  # the ids ragged [B, T]


@front_of(TextEncoder)
class VectorFront(_PieceFront):
    """Preprocess raw text for an encoder whose answers are vectors."""

    def __call__(self, *raw: Tensor) -> Any:
        return self._tokenizer(raw[0])  # ragged [B, T]

    def asked(self, row: Any) -> Request:
        """Return the request for a text, or for the texts of a group."""
        return {"text": strings([text for text in texts_of_row(row) if text is not None])}

    def alone(self, ids: Tensor) -> Any:
        """Return the model's inputs for ids, int32 `[B, T]`."""
        return ids

    def more_signatures(
        self, graphs: Graphs, requests: Sequence[Request], *, real: bool
    ) -> dict[str, Signature]:
        """Return `embed` and `explain`."""
        return {
            # The same graph; what `serving_default` warms up is warm for it, too.
            "embed": Signature(graphs.most_asked, requests[:2]),
            "explain": Signature(graphs.explain_tokens(self.explained, self.alone), requests[:3]),
        }


@front_of(TextModel)
def _text_front(model: TextModel) -> RawFront:
    if model.text_pairs:
        return PairFront(model)
    return (TextFront if isinstance(model.tokenizer, Tokenizer) else PieceFront)(model)

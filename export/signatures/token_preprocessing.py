"""Turn rows of tokens into the features of a token model, inside the graph.

Axes: B (batch), T (tokens).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.models import TokenClassifier
from keras_selfattn.models.long_rows import EXPLAINED_TOKENS, pieces_within
from keras_selfattn.models.tokens.raw_texts import text_tokens
from keras_selfattn.models.tokens.text_spans import SpanMarks, splitting_in_words
from keras_selfattn.models.vocabulary import PADDING_ID
from keras_selfattn.rows.text_tokens import split_text
from keras_selfattn.serving.wire.signature_names import LABEL, SCORE, SPANS, TEXT

from ..portable.tokenizer_export import token_files
from .answers import Labelling, raw_answers
from .model_signatures import Graphs, Signature
from .raw_front import RawFront, front_of
from .trial_requests import TEXTS, Request, in_batches, strings

Tensor = Any

# Kinds of tokens that training did not see.
_STRANGE = ("Ünknown", "☃", "日本語", "x" * 300, "\x00", "3.14", " ")
# Words of the vocabulary that are asked for spans, and those of them that trials have.
_ASKED, _MARKED = 500, 4
# Raw texts with characters of several places, bytes and units of UTF-16.
_RAW = ("", " \r\n\t ", "\r\nAda\r\nL. 😀x👩\u200d🚒!", "東京都です。ภาษา e\u0301", "\ufeffa\u200bb\x00")


_NO_SPANS = (
    "The model finds no span in the texts that the check of this export asked, so their places were not "
    "compared with the model's: export a run, whose example of the training is asked, too."
)


class TokenFront(RawFront):
    """Turn tokens into features, as in training. "" is padding at any position.

    Args:
        model: has a vocabulary.
    """

    padding = ""

    def __init__(self, model: TokenClassifier) -> None:
        super().__init__(model)
        self._features = model.tokenizer
        self._model, self._answers = model, raw_answers(model.head)
        self._splitting = splitting_in_words(model.split_otherwise)
        self.specs = {"tokens": tf.TensorSpec([None, None], tf.string, name="tokens")}
        self.tracked = list(self._features.tables)

    def __call__(self, *raw: Tensor) -> Tensor:
        return self._features(raw[0])  # [B, T, features]

    def beginning(self, tokens: Tensor) -> Tensor:
        """Return the features of the first tokens, up to the limit of `explain`."""
        return self(tokens[:, :EXPLAINED_TOKENS])

    def more_signatures(
        self, graphs: Graphs, requests: Sequence[Request], *, real: bool
    ) -> dict[str, Signature]:
        """Return `spans` of raw texts, and `explain`, of the first tokens of each row."""
        explain = Signature(graphs.explain(together=True, read=self.beginning), requests)
        return {"explain": explain, **self._spans(graphs, requests, real=real)}

    def _spans(self, graphs: Graphs, requests: Sequence[Request], *, real: bool) -> dict[str, Signature]:
        if not isinstance(self._answers, Labelling):  # of a head of somebody else's
            return {}
        texts = self.text_requests()
        if real:
            texts[0] = {
                TEXT: strings([b" ".join(requests[0]["tokens"][0].tolist()).decode(errors="replace")])
            }
        function = graphs.on_texts(text_tokens, self._answers.spans)
        note = self._splitting if self._finds_spans(texts) else f"{self._splitting} {_NO_SPANS}"
        return {SPANS: Signature(function, texts, margins=graphs.margins(text_tokens), note=note)}

    def _finds_spans(self, requests: Sequence[Request]) -> bool:
        """Return True if the model finds a span in a text of some requests."""
        texts = [text for request in requests for text in request[TEXT].tolist()]
        return any(self._model.found_spans(texts))

    def id_files(self) -> dict[str, Any]:
        return token_files(self._features)

    def asked(self, row: Sequence[str]) -> Request:
        """Return the request for a row of tokens."""
        return {"tokens": np.array([[token.encode() for token in row]], dtype=object)}

    def requests(self) -> list[Request]:
        words = [*self._features.vocabulary[:16], *_STRANGE]
        rows = [words[:4], words[4:5], [], *(words[start:] for start in range(len(words))), words[::-1]]
        longest = max(map(len, rows))
        tokens = np.full((len(rows), longest), b"", dtype=object)
        for row, given in zip(tokens, rows, strict=True):
            row[: len(given)] = [token.encode() for token in given]
        return [*in_batches({"tokens": tokens}), {"tokens": tokens[:3, :0]}]

    def text_requests(self) -> list[Request]:
        """Return requests to try `spans`: texts of known words, spans, strange words, bytes of no UTF-8."""
        words, marked = [*self._features.vocabulary[:16], *_STRANGE], self._marked_words()
        rows = [" ".join(words[:4]), words[0], *TEXTS, *_RAW, *(" \r\n".join(words[n::4]) for n in range(4))]
        rows += [" ".join(marked), *(f"\u3000\r\n{word}" for word in marked)] if marked else []
        texts = strings(rows)
        texts[3] = b"\xff" + texts[3] + b"\xe6\x9d"  # no UTF-8
        return in_batches({TEXT: texts})

    def _marked_words(self) -> list[str]:
        """Return words of the vocabulary that the model takes for a span each, the surest first.

        Many models find no span in the other texts, so that a trial of these alone would show no places.
        """
        vocabulary = self._features.vocabulary
        asked = vocabulary[:: len(vocabulary) // _ASKED + 1]
        # A vocabulary may be in lower case, and names are in capitals.
        forms = dict.fromkeys(form for word in asked for form in (word, word.title()))
        words = [word for word in forms if split_text(word) == [word]]
        if not words:
            return []
        answer = self._answers.named(self._model.core(self(tf.constant(words)[:, None]), training=False))
        label, score = (answer[name].numpy()[:, 0] for name in (LABEL, SCORE))  # of one token each
        labels = self._model.labels
        inside = {name.encode() for name, kind in zip(labels, SpanMarks(labels).kinds, strict=True) if kind}
        surest = np.argsort(-score, kind="stable").tolist()
        return [words[place] for place in surest if label[place] in inside][:_MARKED]


class PieceTokenFront(TokenFront):
    """Turn tokens into the ids of their pieces for a pretrained encoder, whose attention is between pieces.

    Args:
        model: was fine-tuned.
    """

    def __init__(self, model: TokenClassifier) -> None:
        super().__init__(model)
        self._parts = model.core.get_layer("parts")
        self._limit = pieces_within(min(EXPLAINED_TOKENS, model.config.max_tokens))
        self._names = model.tokenizer.tokenizer.names

    def more_signatures(
        self, graphs: Graphs, requests: Sequence[Request], *, real: bool
    ) -> dict[str, Signature]:
        """Return `spans` of raw texts, and `explain`, between the first pieces of each row."""
        explain = Signature(graphs.explain_tokens(self.explained, self.alone), requests[:3])
        return {"explain": explain, **self._spans(graphs, requests, real=real)}

    def explained(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first pieces of rows of tokens `[B, T]`, those of whole tokens that are read together.

        Returns:
            string `[B, P]`, the pieces with [CLS] and [SEP], padded with ""; and their int32 ids.
        """
        pieces = self(tokens)[..., : self._limit]  # [B, T, K]
        sizes = tf.math.count_nonzero(pieces, axis=-1, dtype=tf.int32)
        within = tf.cumsum(sizes, axis=1) <= self._limit  # [B, T]
        ids, _ = self._parts(tf.where(within[..., None], pieces, PADDING_ID))
        return tf.where(ids == PADDING_ID, "", tf.gather(tf.constant(self._names, tf.string), ids)), ids

    def alone(self, ids: Tensor) -> Tensor:
        """Return the model's inputs for ids of pieces `[B, P]`: each is a token, int32 `[B, P - 1, 1]`."""
        lengths = tf.math.count_nonzero(ids, axis=1, dtype=tf.int32)
        inner = tf.sequence_mask(lengths - 1, tf.shape(ids)[1])  # without [SEP]
        return tf.where(inner, ids, PADDING_ID)[:, 1:, None]


@front_of(TokenClassifier)
def _token_front(model: TokenClassifier) -> RawFront:
    return (PieceTokenFront if model.fine_tuned else TokenFront)(model)

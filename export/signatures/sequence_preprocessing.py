"""Turn raw text into the symbols of a model that writes texts, and bound its search, in the graph.

Axes: B (rows), S (symbols of a source), N (candidates).
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.errors import ExportError
from keras_selfattn.models import SequenceToSequence
from keras_selfattn.models.sequences.decoding import decoded
from keras_selfattn.models.sequences.search import Found, SearchSettings
from keras_selfattn.models.sequences.symbols import PADDING
from keras_selfattn.serving.wire.signature_names import GENERATE

from . import sequence_settings
from .answers import Written
from .model_signatures import Graphs, Signature
from .raw_front import RawFront, front_of
from .sequence_graphs import TARGET, SequenceGraphs
from .sequence_margins import WatchedSearch
from .sequence_settings import GroupSettings, RowSettings, row_settings, trial_requests
from .trial_requests import TEXTS, Request, strings

Tensor = Any

# Bytes that the caches and logits of rows that are decoded together may take, and tensors of their size.
_BYTES, _LOGITS = 2**29, 4
# The blanks of Python's `str.strip`.
_BLANK = r"[\p{Z}\s\x0b\x1c-\x1f\x{85}]*"
# Blank texts, bytes that are no UTF-8, and more symbols than most warmup texts have.
_ODD = (b"", b"\t\n ", b"\xff a \xc3", b"one two three " * 40)
_WORDS = ("a", "two", "the", "film", "of", "good", "what", "and")


@front_of(SequenceToSequence)
class SequenceFront(RawFront):
    """Preprocess raw text for a model that writes texts: the symbols of sources.

    Args:
        model: the trained model.

    Attributes:
        core: the model's.
        symbols: of both sides.
        settings: of the search.
    """

    graphs = SequenceGraphs

    def __init__(self, model: SequenceToSequence) -> None:
        super().__init__(model)
        self.core, self.symbols, self._config = model.core, model.symbols, model.config
        config = model.config
        self.settings = SearchSettings(config.max_new_tokens, config.beams, config.length_penalty)
        self.specs = {"text": tf.TensorSpec([None], tf.string, name="text")}
        self.tracked = list(self.symbols.tables)
        self._live: dict[Any, WatchedSearch] = {}
        bounds = ("max_tokens", "max_new_tokens", "beams", "length_penalty")
        self.described = {
            "decoding": {
                "symbols": config.tokens,
                **{name: getattr(config, name) for name in bounds},
                "normalization": None,
                "row_bytes": self._row_bytes(config.max_tokens),
                "beam_bytes": self._beam_bytes(),
            }
        }

    def __call__(self, *raw: Tensor) -> Any:
        """Return ids, int32 ragged `[B, S]`; of a blank text the end symbol alone."""
        return self.symbols(tf.where(tf.strings.regex_full_match(raw[0], _BLANK), "", raw[0]))

    def found(self, source: Tensor, asked: GroupSettings | None = None) -> Found:
        """Return the candidates for padded ids of sources, int32 `[B, S]`; as asked for, or as exported."""
        if tf.executing_eagerly():
            return self._found_live(source, asked)
        if asked is None:
            return decoded(self.core, source, self.settings)
        # A greedy search has operations of its own, which a graph for any beams does without.
        beams = 1 if self.settings.beams == 1 else asked.beams
        settings = SearchSettings(asked.bounds, beams, asked.penalty)
        return self._with_all_beams(decoded(self.core, source, settings, asked.prefix))

    def _found_live(self, source: Tensor, asked: GroupSettings | None) -> Found:
        if asked is None:
            return self._live_search(self.settings.beams, self.settings.length_penalty)(source)
        live = self._live_search(int(asked.beams), float(asked.penalty))
        return self._with_all_beams(live(source, asked.bounds, asked.prefix))

    def _live_search(self, beams: int, penalty: float) -> WatchedSearch:
        """Return the search of the live model with other beams and length penalty."""
        kind = beams, np.float32(penalty).item()
        if kind not in self._live:
            settings = dataclasses.replace(self.settings, beams=beams, length_penalty=kind[1])
            self._live[kind] = WatchedSearch(self.core, settings)
        return self._live[kind]

    def _with_all_beams(self, found: Found) -> Found:
        """Return candidates with missing ones in place of those of beams that were not asked for."""
        more = [[0, 0], [0, self.settings.beams - tf.shape(found.scores)[1]]]
        scores = tf.pad(found.scores, more, constant_values=-math.inf)
        scores = tf.ensure_shape(scores, [None, self.settings.beams])
        return Found(tf.pad(found.ids, [*more, [0, 0]]), scores, tf.pad(found.ended, more))

    def margins(self, texts: Tensor, asked: RowSettings | None = None) -> np.ndarray:
        """Return how far the live model's answers to texts are from others, float32 `[B]`."""
        return np.array(
            [self._margin(row.numpy(), at, asked) for at, row in enumerate(self(texts))], np.float32
        )

    def _margin(self, ids: np.ndarray, place: int, asked: RowSettings | None) -> float:
        if len(ids) == 1:
            return 1.0
        if asked is None:
            return self._live_search(self.settings.beams, self.settings.length_penalty).margin(ids)
        live = self._live_search(int(asked.beams[place]), float(asked.penalties[place]))
        return live.margin(ids, int(asked.bounds[place]), asked.prefix[place].numpy())

    def written(self, source: Tensor, asked: GroupSettings | None = None) -> Written:
        """Return the same with the means of the best."""
        found = self.found(source, asked)
        lengths = tf.reduce_sum(tf.cast(found.ids[:, 0] != PADDING, tf.float32), axis=1)  # [B]
        penalty = tf.constant(self.settings.length_penalty, tf.float32) if asked is None else asked.penalty
        # The scores are sums, divided by a power of the length.
        return Written(found, found.scores[:, 0] * lengths ** (penalty - 1))

    def asked_settings(self, rows: Tensor, *inputs: Tensor) -> RowSettings:
        """Return what the inputs of `sequence_settings.SPECS` mean for so many rows."""
        return row_settings(rows, self.settings, self.symbols, *inputs)

    def nothing(self) -> Written:
        """Return the candidates for one blank source: the empty answer alone."""
        others = self.settings.beams - 1
        scores = tf.constant([[0.0] + [-math.inf] * others])
        found = Found(tf.zeros([1, others + 1, 1], tf.int32), scores, scores == 0)
        return Written(found, scores[:, 0])

    def rows_at_once(self, longest: Tensor) -> Tensor:
        """Return how many sources of at most so many symbols are decoded together, int32."""
        rows = _BYTES // self._row_bytes(tf.cast(longest, tf.int64))
        return tf.cast(tf.maximum(rows, 1), tf.int32)

    def _row_bytes(self, longest: Any) -> Any:
        """Return the most bytes that a row of so many symbols takes in a search."""
        return self._config.beams * self._beam_bytes() + longest * self._place_bytes()

    def _beam_bytes(self) -> int:
        """Return the most bytes that a candidate of a row takes."""
        return self._config.max_new_tokens * self._place_bytes() + self.symbols.size * _LOGITS * 4

    def _place_bytes(self) -> int:
        """Return the bytes of the keys and values of a symbol."""
        return self._config.decoder_layers * 2 * self._config.width * 4

    def requests(self) -> list[Request]:
        """Return requests of few rows, of 1 to 16 words: an untrained model writes up to its bound."""
        few = [" ".join((_WORDS * 2)[:count]).encode() for count in (3, 1, 2, 5, 8, 16)]
        rows = np.array([*few, *(text.encode() for text in TEXTS[1:4]), *_ODD], dtype=object)
        return [{"text": each} for each in (rows[:1], rows[:0], rows[1:4], rows[4:])]

    def asked(self, row: str) -> Request:
        """Return the request for a text."""
        return {"text": strings([row])}

    def more_signatures(
        self, graphs: Graphs, requests: Sequence[Request], *, real: bool
    ) -> dict[str, Signature]:
        """Return `generate`, `score_target` and `explain`."""
        assert isinstance(graphs, SequenceGraphs)
        texts = [request["text"] for request in requests]
        # Of the rows in another order; explained alone, as all values of a row may be another's at a tie.
        scored = [{"text": rows, TARGET: rows[::-1]} for rows in texts]
        alone = [{"text": rows[row : row + 1]} for rows in texts[:3] for row in range(len(rows))]
        explained = [alone[0], {"text": texts[1]}, *alone[1:3]]
        asked = trial_requests(self.settings, self.symbols, requests[0])
        return {
            GENERATE: Signature(
                graphs.generate(), asked, margins=graphs.margins_as_asked, defaults=sequence_settings.DEFAULTS
            ),
            "score_target": Signature(graphs.score_target(), scored),
            "explain": Signature(graphs.explain_answers(), explained, margins=graphs.margins_of),
        }

    def check_portable(self) -> None:
        raise ExportError(
            "A SequenceToSequence searches for its answers in a loop over raw texts, which is a graph of "
            "TensorFlow: no other runtime has it. Export it as a SavedModel (leave out `format`, `--format`)."
        )

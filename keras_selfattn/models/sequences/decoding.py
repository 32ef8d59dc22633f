"""Answers by search: the graph that finds them, how many rows it takes at once, and their texts.

Axes: B (rows), S (symbols of a source), N (candidates), L (symbols of an answer), V (vocabulary).
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_selfattn.models.config import SequenceConfig
from keras_selfattn.models.sequences.search import Found, SearchSettings, search
from keras_selfattn.models.sequences.sequence_core import SequenceCore
from keras_selfattn.models.sequences.symbols import END, PADDING, Symbols
from keras_selfattn.models.sequences.text_answer import Answer

Tensor = Any

# Memory that the caches and logits of a batch may take, in bytes, and tensors of the size of its logits.
_BYTES, _LOGITS = 2**29, 4


def decoded(core: SequenceCore, source: Tensor, settings: SearchSettings) -> Found:
    """Return the candidates for sources, as TensorFlow operations.

    Args:
        core: of the model.
        source: int32 ids `[B, S]`, 0 is padding; B is at least 1.
        settings: of the search.
    """
    cache = core.start(source, settings.max_new_tokens)
    return search(core.step, cache, tf.shape(source)[0], settings)


def rows_at_once(config: SequenceConfig, size: int, longest: int, settings: SearchSettings) -> int:
    """Return how many sources of at most so many symbols are decoded together, at least 1.

    Args:
        config: of the model.
        size: number of symbols V.
        longest: symbols of the longest source.
        settings: of the search, with `max_new_tokens` as an int.
    """
    places = settings.max_new_tokens + longest
    cache = places * config.decoder_layers * 2 * config.width * 4
    return max(1, _BYTES // (settings.beams * (cache + size * _LOGITS * 4)))


class Candidates(NamedTuple):
    """The candidates of a search, as arrays, best first.

    ids: int32 `[B, N, L]`.
    scores: float32 `[B, N]`.
    ended: bool `[B, N]`.
    """

    ids: np.ndarray
    scores: np.ndarray
    ended: np.ndarray


class CompiledDecoding:
    """The graphs of `decoded` for a core, one for each number of beams and length penalty.

    It is an object of its own, in which Keras does not look for layers.

    Args:
        core: of the model, whose weights may change.
    """

    def __init__(self, core: SequenceCore) -> None:
        self._core = core
        self._made: dict[tuple[int, float], Any] = {}

    def __call__(self, source: np.ndarray, settings: SearchSettings) -> Candidates:
        """Return the candidates for ids `[B, S]`."""
        kind = settings.beams, settings.length_penalty
        if kind not in self._made:
            self._made[kind] = self._compiled(*kind)
        return Candidates(*map(np.asarray, self._made[kind](source, np.int32(settings.max_new_tokens))))

    def _compiled(self, beams: int, length_penalty: float) -> Any:
        @tf.function(
            input_signature=[tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([], tf.int32)],
            autograph=False,
        )
        def run(source: Tensor, most: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            found = decoded(self._core, source, SearchSettings(most, beams, length_penalty))
            return found.ids, found.scores, found.ended

        return run


def answers_of(found: Candidates, symbols: Symbols, length_penalty: float) -> list[Answer]:
    """Return the answers that candidates are."""
    rows, count, longest = found.ids.shape
    texts = symbols.texts(found.ids.reshape(rows * count, longest))
    means = found.scores[:, 0] * _lengths(found.ids[:, 0]) ** (length_penalty - 1.0)
    answers = []
    for row, (scores, ended) in enumerate(zip(found.scores, found.ended, strict=True)):
        of_row = [score for score in scores.tolist() if score > -np.inf]  # fewer than beams may be left
        mine = texts[row * count : row * count + len(of_row)]
        answers.append(Answer(mine[0], float(means[row]), bool(ended[0]), tuple(mine), tuple(of_row)))
    return answers


def _lengths(ids: np.ndarray) -> np.ndarray:
    """Return the symbols of answers `[B, L]`, the end symbol included, int `[B]`; at least 1."""
    ends = ids == END
    written = (ids != PADDING).sum(axis=1)
    return np.maximum(1, np.where(ends.any(axis=1), ends.argmax(axis=1) + 1, written))

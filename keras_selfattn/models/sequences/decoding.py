"""Answers by search: the graph that finds them, how many rows it takes at once, and their texts.

Axes: B (rows), S (symbols of a source), N (candidates), L (symbols of an answer), V (vocabulary).
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_selfattn.errors import TrainingError
from keras_selfattn.layers.decoding.cache import GROWING, OF_MEMORY
from keras_selfattn.models.config import SequenceConfig
from keras_selfattn.models.sequences.search import PART, Found, SearchSettings, search
from keras_selfattn.models.sequences.sequence_core import NEVER, SequenceCore, SharedEmbedding
from keras_selfattn.models.sequences.symbols import END, PADDING, Symbols
from keras_selfattn.models.sequences.text_answer import Answer

Tensor = Any

# From so many rows on, products with columns save more than it takes to make these: 0.2 ms of a step for 4
# rows, 0.4 ms for 8, beside 2 ms once, for 8,000 symbols of width 256. Fewer rows are as fast either way.
_MANY_ROWS = 4
# Memory that the caches and logits of a batch may take, in bytes, and tensors of the size of its logits.
_BYTES, _LOGITS = 2**29, 4


def decoded(
    core: SequenceCore, source: Tensor, settings: SearchSettings, prefix: Tensor | None = None
) -> Found:
    """Return the candidates for sources, as TensorFlow operations.

    Args:
        core: of the model.
        source: int32 ids `[B, S]`, 0 is padding; B is at least 1.
        settings: of the search.
        prefix: int32 ids `[B, P]`, 0 is padding: what answers begin with; None for nothing.
    """
    # Keys of steps grow, since most answers are shorter than the bound; those of a source are there once.
    cache = core.start(source)
    batch = tf.shape(source)[0]
    settings = dataclasses.replace(settings, forbidden=())  # their logits are -infinity
    step = partial(core.step, logits=logits_of_many_steps(core.embedding, batch * settings.beams))
    return search(step, cache, batch, settings, prefix=prefix, memory=OF_MEMORY, growing=GROWING)


def logits_of_many_steps(embedding: SharedEmbedding, rows: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the function from features of steps `[R, D]` to logits, float32 `[R, V]`; V is of whole parts.

    Those of symbols that no answer has are -infinity: with many beams there may be too few others. A product
    with the vectors as columns is up to twice as fast, for a few rows. They are made once for all steps, and
    so are vectors of another dtype.

    Args:
        embedding: of the model.
        rows: R of the first steps, int32 scalar.
    """
    size = embedding.vocabulary_size
    more = -size % PART
    there = (np.arange(size + more) >= NEVER) & (np.arange(size + more) < size)
    never: Any = np.where(there, 0, -np.inf).astype(np.float32)

    def added(product: Tensor) -> Tensor:
        return tf.nn.bias_add(tf.cast(product, tf.float32), never)

    def by_rows(x: Tensor) -> Tensor:
        return added(tf.pad(tf.matmul(x, embedding.vectors, transpose_b=True), [[0, 0], [0, more]]))

    def columns() -> Tensor:
        return tf.pad(tf.transpose(embedding.vectors), [[0, 0], [0, more]])

    if not embedding.is_plain:
        made = columns()
        return lambda x: added(tf.matmul(x, made))
    many = rows >= _MANY_ROWS
    made = tf.cond(many, columns, lambda: tf.zeros([0, size + more], embedding.compute_dtype))
    return lambda x: tf.cond(many, lambda: added(tf.matmul(x, made)), lambda: by_rows(x))


def rows_at_once(config: SequenceConfig, size: int, longest: int, settings: SearchSettings) -> int:
    """Return how many sources of at most so many symbols are decoded together, at least 1.

    Args:
        config: of the model.
        size: number of symbols V.
        longest: symbols of the longest source.
        settings: of the search, with `max_new_tokens` as an int.
    """
    place = config.decoder_layers * 2 * config.width * 4
    of_beam = settings.max_new_tokens * place + size * _LOGITS * 4
    return max(1, _BYTES // (settings.beams * of_beam + longest * place))


class Candidates(NamedTuple):
    """The candidates of a search, as arrays, best first.

    ids: int32 `[B, N, L]`.
    scores: float32 `[B, N]`.
    ended: bool `[B, N]`.
    """

    ids: np.ndarray
    scores: np.ndarray
    ended: np.ndarray


def log_probabilities(core: SequenceCore, source: Tensor, target: Tensor, labels: Tensor) -> Tensor:
    """Return the log probability of each symbol of known answers, float32 `[B, T]`.

    That of an unknown symbol is -infinity.

    Args:
        core: of the model.
        source: int32 ids `[B, S]`, 0 is padding.
        target: int32 ids `[B, T]`, begin first.
        labels: int32 ids `[B, T]`, the symbol after each of the target's.
    """
    of_all: Any = ops.log_softmax(core([source, target], training=False))  # [B, T, V]
    found = ops.take_along_axis(of_all, ops.cast(labels, "int32")[..., None], axis=-1)[..., 0]
    return ops.where(ops.less(labels, NEVER), -np.inf, found)


class CompiledDecoding:
    """The graphs of a core: of `decoded`, for each number of beams and length penalty, and of known answers.

    It is an object of its own, in which Keras does not look for layers.

    Args:
        core: of the model, whose weights may change.
    """

    def __init__(self, core: SequenceCore) -> None:
        self._core = core
        self._made: dict[Any, Any] = {}

    def __call__(
        self, source: np.ndarray, settings: SearchSettings, prefix: np.ndarray | None = None
    ) -> Candidates:
        """Return the candidates for ids `[B, S]`, which begin with the prefix, ids `[B, P]`, if given."""
        kind = settings.beams, settings.length_penalty, prefix is not None
        if kind not in self._made:
            self._made[kind] = self._compiled(*kind)
        given = [] if prefix is None else [prefix]
        found = self._made[kind](source, np.int32(settings.max_new_tokens), *given)
        return Candidates(*map(np.asarray, found))

    def log_probabilities(self, source: np.ndarray, target: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return what the function of this name does for a batch."""
        found = self._on_arrays(log_probabilities)(source, target, labels)
        return np.asarray(ops.convert_to_numpy(found))

    def alignment(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return what `SequenceCore.alignment` does for a batch."""
        found = self._on_arrays(type(self._core).alignment)(source, target)
        return np.asarray(ops.convert_to_numpy(found))

    def _on_arrays(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """Return a function of the core and ids, compiled on TensorFlow."""
        if keras.backend.backend() != "tensorflow":
            return partial(function, self._core)
        if function not in self._made:
            self._made[function] = tf.function(
                partial(function, self._core), reduce_retracing=True, autograph=False
            )
        return self._made[function]

    def _compiled(self, beams: int, length_penalty: float, prefixed: bool) -> Any:
        rows = tf.TensorSpec([None, None], tf.int32)
        specs = [rows, tf.TensorSpec([], tf.int32)] + [rows] * prefixed

        @tf.function(input_signature=specs, autograph=False)
        def run(source: Tensor, most: Tensor, *prefix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            found = decoded(self._core, source, SearchSettings(most, beams, length_penalty), *prefix)
            return found.ids, found.scores, found.ended

        return run


def answers_of(found: Candidates, symbols: Symbols, length_penalty: float) -> list[Answer]:
    """Return the answers that candidates are.

    Raises:
        TrainingError: if a row has no candidate: the outputs of the model are NaN.
    """
    rows, count, longest = found.ids.shape
    if lost := int((~(found.scores[:, 0] > -np.inf)).sum()):
        raise TrainingError(
            f"The outputs of the model are NaN for {lost} of {rows} texts, so they have no answer. Train it "
            "again with a lower learning rate, or, in half precision, in float32."
        )
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

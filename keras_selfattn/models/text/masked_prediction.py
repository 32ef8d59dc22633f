"""Masked language modelling: rows with some hidden tokens, and the head that predicts them.

Axes: B (batch), T (tokens of a row), N (tokens of all rows, or hidden tokens), K (features of a token), D
(features of an encoded position), V (vocabulary).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.batches.length_sorted import LengthSortedBatches, padded
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.heads.many_logits import crossentropy, highest
from keras_selfattn.models.vocabulary import PADDING_ID, UNKNOWN_ID
from keras_selfattn.rows.targets import NO_TARGET

Tensor = Any

# The vocabulary's entry for a hidden token. No text has it as one token, because brackets are separate
# tokens.
MASK = "[mask]"
# Shares of the tokens of a row, and of the selected ones.
_CHOSEN, _MASKED, _SWAPPED = 0.15, 0.8, 0.1
# The most held-out rows.
_HELD_OUT = 2_000


def validation_share(rows: int) -> float:
    """Return the share of rows to hold out of a training without labels: a tenth, of many rows less."""
    return min(0.1, _HELD_OUT / max(1, rows))


@dataclass(frozen=True)
class Masking:
    """The ids that hiding needs.

    Args:
        mask_id: id of the mask.
        special: ids that are never hidden.
        others: ids, int32, of the tokens one of which replaces a hidden token; None for those of the rows.
    """

    mask_id: int
    special: Sequence[int] = (PADDING_ID, UNKNOWN_ID)
    others: np.ndarray | None = None

    def hidable(self, ids: np.ndarray) -> np.ndarray:
        """Return True for each of the ids `[N]` that may be hidden."""
        return np.isin(ids, self.special, invert=True)


class Hidden(NamedTuple):
    """Rows with hidden tokens.

    Args:
        rows: the model's input for each row, int32 `[T]` or `[T, K]`.
        places: indices of the tokens to predict, int64, ascending, for each row.
        ids: the ids of those tokens, int32, for each row.
    """

    rows: list[np.ndarray]
    places: list[np.ndarray]
    ids: list[np.ndarray]


def hide(rows: Sequence[np.ndarray], masking: Masking, random: np.random.Generator) -> Hidden:
    """Select the tokens to predict: 15 % of each row, at least one, and never an unknown or special one.

    80 % of them are masked, with all of their features; 10 % are replaced by a random token, of another place
    or of `masking.others`; 10 % stay unchanged, so that the model cannot trust its input.

    Args:
        rows: int32 `[T]`, or `[T, K]` with the token's id as the first feature; no padding.
        masking: the ids that hiding needs; `others` is for rows `[T]`.
        random: the random generator.

    Example:

        >>> found = hide([np.array([4, 5, 1, 7], "int32")], Masking(9), np.random.default_rng(0))
        >>> found.rows[0].tolist(), found.places[0].tolist(), found.ids[0].tolist()
        ([4, 5, 1, 9], [3], [7])

    Reference: Devlin et al. 2019, "BERT", section 3.1 and appendix A.1.
    """
    tokens = np.concatenate(rows)  # [N] or [N, K]
    ids = _ids(tokens)
    owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])  # [N]
    known = np.flatnonzero(masking.hidable(ids))
    chosen = _chosen(known, owner[known], len(rows), random)
    # A permutation instead of independent draws, so that the shares are exact.
    fate = random.permutation(len(chosen)) / max(1, len(chosen))
    masked, swapped = chosen[fate < _MASKED], chosen[fate >= 1 - _SWAPPED]
    seen = tokens.copy()
    seen[masked] = masked_token(masking.mask_id, tokens)
    others = tokens[known] if masking.others is None else masking.others
    seen[swapped] = others[random.integers(max(1, len(others)), size=len(swapped))]
    starts = np.searchsorted(owner, np.arange(len(rows)))
    ends = np.searchsorted(owner[chosen], np.arange(1, len(rows)))
    places = np.split(chosen - starts[owner[chosen]], ends)
    return Hidden(np.split(seen, starts[1:]), places, np.split(ids[chosen], ends))


def masked_token(mask_id: int, tokens: np.ndarray) -> np.ndarray:
    """Return the replacement of a hidden token: the mask's id, and 0 for each other feature."""
    found = np.zeros(tokens.shape[1:], tokens.dtype)
    found[(0,) * found.ndim] = mask_id
    return found


def masked_places(rows: Sequence[np.ndarray], masking: Masking) -> Hidden:
    """Return rows with masks to predict; the hidden tokens are unknown, so their ids are 0."""
    places = [np.flatnonzero(_ids(row) == masking.mask_id) for row in rows]
    return Hidden(list(rows), places, [np.zeros(len(each), np.int32) for each in places])


class MaskedBatches(LengthSortedBatches):
    """Yield batches of rows with hidden tokens: `((places, rows), ids)`.

    `places`, int32 `[chosen]`, are indices into the batch's concatenated padded rows. `ids`, int32
    `[chosen]`, are the ids of the tokens there.

    With `lengths`, the number of places depends only on the length and the number of rows: each batch then
    ends with places 0 whose id is that of padding, and yields weights, float32 `[chosen]`, 0 for those. With
    the weights, loss and accuracy are the means over the hidden tokens alone.

    Args:
        rows: int32 `[T]` or `[T, K]`.
        masking: the ids that hiding needs.
        hidden: the hidden tokens, the same each time; without it each iteration selects anew.
        batch_size: as in `LengthSortedBatches`.
        window: as in `LengthSortedBatches`.
        shuffle: as in `LengthSortedBatches`.
        seed: of the shuffling and of the draws.
        lengths: as in `LengthSortedBatches`.

    Attributes:
        ids: of the tokens that are hidden each time, int32 `[chosen]`; empty if each iteration selects anew.
        real: False for each place that only fills a batch, bool; of the tokens that are hidden each time.
    """

    def __init__(
        self,
        rows: Sequence[np.ndarray],
        masking: Masking,
        hidden: Hidden | None = None,
        *,
        batch_size: int,
        window: int | None = None,
        shuffle: bool = False,
        seed: int = 0,
        lengths: int | None = None,
    ) -> None:
        order: Any = {"window": window, "shuffle": shuffle, "seed": seed, "lengths": lengths}
        super().__init__(rows, batch_size=batch_size, **order)
        self._masking, self._hidden = masking, hidden
        self.ids = np.zeros(0, np.int32) if hidden is None else np.concatenate(hidden.ids)
        self._draws = np.random.default_rng([seed, 1])
        if hidden is None:
            self._counts = _asked(np.array([masking.hidable(_ids(row)).sum() for row in rows]))
        else:
            self._counts = np.array([len(each) for each in hidden.places])
        self.real = np.ones(len(self.ids), bool)
        if hidden is not None and self._few is not None:
            each = [np.arange(self._places(rows)) < self._counts[rows].sum() for rows in self._chosen()]
            self.real = np.concatenate(each)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for chosen in self._chosen():
            inputs, ids, real, weight = self._hiding(chosen)
            if self._hidden is not None:
                # Keras' loss of an epoch weights each batch by its places. Where the same tokens are hidden
                # each time, one weight for all batches corrects this.
                weight = len(self.real) / max(1, len(self.ids))
            yield self._weighted(inputs, ids, real, weight)

    def whole(self) -> tuple[Any, ...]:
        return self._weighted(*self._hiding(self.order))

    def _hiding(self, chosen: np.ndarray) -> tuple[Any, np.ndarray, int, float]:
        """Return inputs and ids of a batch, the number of its ids that are real, and the weight of each."""
        if self._hidden is None:
            rows, places, ids = hide([self._rows[row] for row in chosen], self._masking, self._draws)
        else:
            rows, places, ids = ([column[row] for row in chosen] for column in self._hidden)
        seen = padded(rows, self._least_shape(chosen))  # [B, T] or [B, T, K]
        starts = np.repeat(np.arange(len(rows)) * seen.shape[1], [len(each) for each in places])
        where, ids = (np.concatenate(places) + starts).astype(np.int32), np.concatenate(ids)
        real = len(ids)
        room = real if self._few is None else self._places(chosen)
        where, ids = (np.pad(each, (0, room - real)) for each in (where, ids))
        return (where, seen), ids, real, room / max(1, real)  # Keras divides by the places

    def _weighted(self, inputs: Any, ids: np.ndarray, real: int, weight: float) -> tuple[Any, ...]:
        """Return a batch in Keras' form, with weights if places fill it."""
        if self._few is None:
            return inputs, ids
        return inputs, ids, (np.arange(len(ids)) < real) * np.float32(weight)

    def _places(self, chosen: np.ndarray) -> int:
        """Return the number of places of a batch of few lengths."""
        fit = self.lengths <= self._least_shape(chosen)[0]
        return max(1, len(chosen) * int(self._counts[fit].max()))

    def dataset(self) -> tf.data.Dataset:
        """Return the batches in Keras' form: with a known number, and unknown sizes where they vary."""
        shape = [None, None, *self._rows[0].shape[1:]]
        flat = tf.TensorSpec([None], tf.int32)
        specs = ((flat, tf.TensorSpec(shape, tf.int32)), flat)
        if self._few is not None:
            specs = (*specs, tf.TensorSpec([None], tf.float32))
        dataset = tf.data.Dataset.from_generator(lambda: iter(self), output_signature=specs)
        return dataset.apply(tf.data.experimental.assert_cardinality(len(self))).prefetch(2)


def _ids(tokens: np.ndarray) -> np.ndarray:
    return tokens if tokens.ndim == 1 else tokens[:, 0]


def _asked(there: np.ndarray) -> np.ndarray:
    """Return how many of the tokens of each row are selected, from the number that may be."""
    return np.minimum(there, np.maximum(1, np.rint(_CHOSEN * there).astype(int)))


def _chosen(known: np.ndarray, owner: np.ndarray, rows: int, random: np.random.Generator) -> np.ndarray:
    """Return a random share of the known tokens of each row; `owner`, their row, is ascending."""
    there = np.bincount(owner, minlength=rows)
    asked = _asked(there)
    # Each row's tokens in random order; the first of them are selected.
    order = np.lexsort((random.random(len(known)), owner))
    rank = np.arange(len(known)) - (np.cumsum(there) - there)[owner]
    return np.sort(known[order[rank < asked[owner]]])


class MaskedTokenHead(Head):
    """Predict the hidden tokens; the texts themselves are the targets."""

    task = "masked tokens"
    target_kind = NO_TARGET
    per_position = True

    @property
    def state(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_targets(cls, targets: Sequence[Any]) -> "MaskedTokenHead":
        return cls()

    @staticmethod
    def read(y: Any) -> list[Any]:
        """Return no targets.

        Raises:
            DataError: if there are any.
        """
        if y is not None and any(target is not None for target in y):
            raise DataError("A model of masked tokens learns from texts alone. Leave the targets out.")
        return []

    def encoded(self, targets: Sequence[Any]) -> list[Any]:
        return []

    def outputs(self, x: Tensor, wide: Tensor | None = None) -> Tensor:
        """Return logits `[N, V]` as they are: the layers before them are of the model's text side."""
        return x

    def loss(self, label_smoothing: float = 0.0) -> Any:
        if label_smoothing:
            raise ConfigError(f"`label_smoothing` is for labels. The task is {self.task}.")
        return HiddenCrossentropy()

    def metrics(self) -> list[Any]:
        return [HiddenAccuracy(name="accuracy")]


@keras.saving.register_keras_serializable(package="keras_selfattn")
class HiddenCrossentropy(keras.losses.Loss):
    """Cross-entropy of the hidden tokens, mean over them: Keras' own from logits, in fewer passes over these.

    Args:
        name, reduction: as in `keras.losses.Loss`.
        dtype: of the computation. Keras casts the labels to it, too: half precision would round them.

    Call arguments:
        y_true: int `[places]`.
        y_pred: logits, float32 `[places, vocabulary]`.

    Example:

        >>> import numpy as np
        >>> round(float(HiddenCrossentropy()(np.array([1]), np.zeros((1, 4), "float32"))), 4)
        1.3863
    """

    def __init__(
        self, name: str | None = None, reduction: str = "sum_over_batch_size", dtype: Any = "float32"
    ) -> None:
        super().__init__(name, reduction, dtype)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return crossentropy(ops.reshape(ops.cast(y_true, "int32"), ops.shape(y_pred)[:-1]), y_pred)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class HiddenAccuracy(keras.metrics.Mean):
    """Share of the hidden tokens that are the most likely ones; places that only fill a batch do not count.

    Call arguments:
        y_true: int `[places]`, 0 for a place that fills the batch.
        y_pred: float `[places, vocabulary]`.

    Example:

        >>> import numpy as np
        >>> accuracy = HiddenAccuracy()
        >>> accuracy.update_state(np.array([1, 0]), np.array([[0.1, 0.9], [0.8, 0.2]]))
        >>> float(accuracy.result())
        1.0
    """

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        chosen: Any = highest(y_pred)
        known = ops.reshape(ops.cast(y_true, chosen.dtype), ops.shape(chosen))
        super().update_state(ops.equal(chosen, known), ops.cast(ops.not_equal(known, PADDING_ID), self.dtype))


class Gathered(keras.layers.Layer):
    """Gather positions of all rows: float `[B, T, D]` and int32 `[N]` to float `[N, D]`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: Any) -> Tensor:
        x, places = inputs
        return ops.take(ops.reshape(x, [-1, x.shape[-1]]), places, axis=0)  # [B T, D] to [N, D]

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        return None  # only real tokens are gathered

    def compute_output_shape(self, input_shape: Any) -> tuple:
        return (*input_shape[1], input_shape[0][-1])


class SharedLogits(keras.layers.Layer):
    """Compare features with the vectors of all tokens, `[N, D]` to `[N, V]`; its only weight is a bias.

    Args:
        table: returns the vectors, `[V, D]`.
    """

    def __init__(self, table: Callable[[], Tensor], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._table = table

    def build(self, input_shape: tuple) -> None:
        self.bias = self.add_weight(shape=(self._table().shape[0],), initializer="zeros", name="bias")

    def call(self, inputs: Tensor) -> Tensor:
        table = ops.cast(self._table(), self.compute_dtype)
        return ops.matmul(inputs, ops.transpose(table)) + self.bias

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], self._table().shape[0])

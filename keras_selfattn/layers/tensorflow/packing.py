"""Pack the real tokens of a padded batch one after the other, to compute only these; and unpack them.

TensorFlow only; other backends, and graphs that XLA compiles, need shapes that do not depend on values.

Axes: B (batch), T (positions), D (features), N (real tokens), P (positions of the longest sample, from its
first real token to its last), H (heads).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from keras_selfattn.layers.dropout import TokenNumbers
from keras_selfattn.layers.tensorflow import tf
from keras_selfattn.layers.tensorflow.custom_gradients import custom_gradient

Tensor = Any


class KeyTables(NamedTuple):
    """Where the keys of each sample are among packed tokens, the samples ordered as those of the queries.

    spans: int32 `[B]`, the number of positions of each sample.
    rows: int32 `[B, P]`, the packed token at each position; at an empty one N, the row after the last token.
    slots: bool `[B, P]`, True where a position holds a token; None if all do.
    """

    spans: Tensor
    rows: Tensor
    slots: Tensor | None


class PackedTokens:
    """The layout of the real tokens of a batch, packed: the longest sample comes first.

    Args:
        inputs: `[B, T, D]`.
        real: bool `[B, T]`, or None: all are real.
        gaps: if True, padding between a sample's real tokens takes up positions. If False, the sample's
            tokens stand side by side: no difference to attention that uses neither positions nor distances.
        from_zero: with gaps, True counts positions from 0, False from a sample's first real token.

    Attributes:
        places: int32 `[N]`, the index of each packed token in the flattened batch, of `B T` places.
        order: int32 `[B]`, the samples by falling number of positions.
        samples: int32 scalar, how many samples have a real token.
        spans: int32 `[B]`, the number of positions of each sample, in `order`.
        rows: int32 `[B, P]`, the packed token at each position of the ordered samples; at an empty position,
            another token of the same sample.
        slots: bool `[B, P]`, True where a position holds a token; None if all do.
        losses: as of `PaddedTokens`.
        attentions: functions of the layers that attend between these tokens, see `block_attention.py`.
    """

    def __init__(
        self, inputs: Tensor, real: Tensor | None, *, gaps: bool = True, from_zero: bool = False
    ) -> None:
        self.batch, self.length = tf.unstack(tf.shape(inputs)[:2])
        self._shape = inputs.shape
        self.losses: list[Tensor] = []
        self.attentions: dict[Any, Any] = {}
        if real is None:
            self._fill()
            return
        counts = tf.math.count_nonzero(real, axis=1, dtype=tf.int32)  # [B]
        firsts, spans = _extents(real, from_zero) if gaps else (None, counts)
        self.order = tf.argsort(spans, direction="DESCENDING", stable=True)
        self.spans = tf.gather(spans, self.order)
        self.samples = tf.math.count_nonzero(spans, dtype=tf.int32)
        real, counts = tf.gather(real, self.order), tf.gather(counts, self.order)[:, None]
        found = tf.cast(tf.where(real), tf.int32)  # [N, 2]
        self.places = tf.gather(self.order, found[:, 0]) * self.length + found[:, 1]
        before = tf.cumsum(counts, exclusive=True)
        numbers = before + tf.cumsum(tf.cast(real, tf.int32), axis=1) - 1  # [B, T], of the last token so far
        back = tf.math.invert_permutation(self.order)
        padding = tf.shape(self.places)[0]  # the index of a row of zeros
        self._inverse = tf.reshape(tf.gather(tf.where(real, numbers, padding), back), [-1])  # [B T]
        positions = tf.range(_largest(self.spans))
        if firsts is None:
            self.slots = positions < counts
            self.rows = before + tf.minimum(positions, tf.maximum(counts - 1, 0))
            return
        at = tf.minimum(tf.gather(firsts, self.order)[:, None] + positions, self.length - 1)  # [B, P]
        self.rows = tf.gather(tf.maximum(numbers, before), at, batch_dims=1)
        self.slots = tf.gather(real, at, batch_dims=1) & (positions < self.spans[:, None])

    def _fill(self) -> None:
        self.places = tf.range(self.batch * self.length)
        self.order = tf.range(self.batch)
        self.samples = tf.where(self.length > 0, self.batch, 0)
        self.spans = tf.fill([self.batch], self.length)
        self.rows = tf.reshape(self.places, [self.batch, self.length])
        self.slots = self._inverse = None

    def as_keys(self, order: Tensor) -> KeyTables:
        """Return the tables of these tokens for queries of another sequence, whose samples have an order."""
        own = tf.gather(tf.math.invert_permutation(self.order), order)  # [B]
        spans, rows = tf.gather(self.spans, own), tf.gather(self.rows, own)
        if self.slots is None:
            return KeyTables(spans, rows, None)
        slots = tf.gather(self.slots, own)
        return KeyTables(spans, tf.where(slots, rows, tf.shape(self.places)[0]), slots)

    @property
    def positions(self) -> Tensor:
        """The position of each packed token, int32 `[N]`."""
        return self.places % self.length

    @property
    def by_token(self) -> TokenNumbers:
        """A unique number for each token, the same as in the padded layout."""
        return TokenNumbers(self.places, self.batch * self.length)

    @property
    def by_sample(self) -> TokenNumbers:
        """The number of each token's sample."""
        return TokenNumbers(self.places // self.length, self.batch)

    def gather(self, x: Tensor) -> Tensor:
        """Return the real tokens of `[B, T, D]` as `[N, D]`."""
        flat = tf.reshape(x, [self.batch * self.length, x.shape[-1]])
        return flat if self._inverse is None else self._packed(flat)

    def scatter(self, x: Tensor) -> Tensor:
        """Return `[N, D]` as `[B, T, D]`, zeros where no token is real."""
        whole = x if self._inverse is None else self._unpacked(x)
        whole = tf.reshape(whole, [self.batch, self.length, x.shape[-1]])
        return tf.ensure_shape(whole, [*self._shape[:2], x.shape[-1]])

    def split_heads(self, x: Tensor, num_heads: int) -> Tensor:
        """Return `[N, H D]` as `[N, H, D]`."""
        return tf.reshape(x, [-1, num_heads, x.shape[-1] // num_heads])

    # `_packed` and `_unpacked` are each other's gradients. TensorFlow's own gradient of a gather is sparse,
    # and needs a sum over equal rows.

    def _packed(self, flat: Tensor) -> Tensor:
        @custom_gradient
        def pack(x: Tensor) -> tuple[Tensor, Callable]:
            return tf.gather(x, self.places), self._unpacked

        return pack(flat)

    def _unpacked(self, tokens: Tensor) -> Tensor:
        @custom_gradient
        def unpack(x: Tensor) -> tuple[Tensor, Callable]:
            with_zeros = tf.concat([x, tf.zeros([1, x.shape[1]], x.dtype)], axis=0)
            return tf.gather(with_zeros, self._inverse), self._packed

        return unpack(tokens)


def _extents(real: Tensor, from_zero: bool) -> tuple[Tensor, Tensor]:
    """Return each sample's first position (0 or its first real token's) and its span to the last, `[B]`."""
    length = tf.shape(real)[1]
    positions = tf.range(length)
    ends = tf.maximum(tf.reduce_max(tf.where(real, positions + 1, 0), axis=1), 0)  # also for length 0
    firsts = tf.reduce_min(tf.where(real, positions, length), axis=1)
    firsts = tf.zeros_like(ends) if from_zero else tf.minimum(firsts, ends)
    return firsts, ends - firsts


def _largest(numbers: Tensor) -> Tensor:
    """Return the largest of numbers that are not negative; 0 if there are none."""
    return tf.maximum(tf.reduce_max(numbers), 0)

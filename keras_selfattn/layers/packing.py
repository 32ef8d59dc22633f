"""The real tokens of a padded batch, one after the other, and back: work is done on these alone.

TensorFlow only; other backends, and graphs that XLA compiles, need shapes that do not depend on values.

Axes: B (batch), T (positions), D (features), N (real tokens), P (positions of the longest sample, from its
first real token to its last).
"""

from typing import Any

import keras

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util

Tensor = Any


def packs(inputs: Tensor) -> bool:
    """Returns whether `inputs` can be packed: a tensor of TensorFlow, outside what XLA compiles."""
    if keras.backend.backend() != "tensorflow" or not tf.is_tensor(inputs):
        return False
    # Public TensorFlow does not say whether a function is being traced for XLA.
    return not control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


class PackedTokens:
    """Where the real tokens of a batch stand. Packed, the longest sample comes first.

    Args:
        inputs: `[B, T, D]`.
        real: bool `[B, T]`, or None: all are real.
        from_zero: if False, a sample's positions may count from its first real token, wherever it stands.

    Attributes:
        places: int32 `[N]`, where in the flattened batch, `B T` places, each packed token stands.
        order: int32 `[B]`, the samples by falling number of real tokens.
        samples: int32 scalar, how many samples have a real token.
        spans: int32 `[B]`, positions of each sample from its first to behind its last real token, in `order`.
        rows: int32 `[B, P]`, the packed token at each position of the ordered samples; where there is none,
            an earlier one of the same sample.
        slots: bool `[B, P]`, whether there is one, or None: everywhere.
    """

    def __init__(self, inputs: Tensor, real: Tensor | None, *, from_zero: bool = False) -> None:
        batch, self.length = tf.unstack(tf.shape(inputs)[:2])
        self._shape = inputs.shape
        self.batch = batch
        self._places = None
        if real is None:
            self.places = tf.range(batch * self.length)
            self.order = tf.range(batch)
            self.samples = tf.where(self.length > 0, batch, 0)
            self.spans = tf.fill([batch], self.length)
            self.rows, self.slots = tf.reshape(self.places, [batch, self.length]), None
            return
        counts = tf.math.count_nonzero(real, axis=1, dtype=tf.int32)  # [B]
        self.order = tf.argsort(counts, direction="DESCENDING", stable=True)
        self.samples = tf.math.count_nonzero(counts, dtype=tf.int32)
        real = tf.gather(real, self.order)
        found = tf.cast(tf.where(real), tf.int32)  # [N, 2]
        self.places = tf.gather(self.order, found[:, 0]) * self.length + found[:, 1]
        self._places = self.places[:, None]
        positions = tf.range(self.length)
        ends = tf.reduce_max(tf.where(real, positions + 1, 0), axis=1)  # [B], 0 of none
        firsts = tf.reduce_min(tf.where(real, positions, self.length), axis=1)
        self.firsts = tf.zeros_like(ends) if from_zero else tf.minimum(firsts, ends)
        self.spans = ends - self.firsts
        # The packed tokens before each position and at it, of all samples.
        seen = tf.cumsum(tf.cast(real, tf.int32), axis=1)
        seen = tf.maximum(seen - 1, 0) + tf.cumsum(seen[:, -1:], exclusive=True)  # [B, T]
        at = self.firsts[:, None] + tf.range(tf.reduce_max(self.spans))
        at = tf.minimum(at, self.length - 1)  # [B, P]
        self.rows = tf.gather(seen, at, batch_dims=1)
        self.slots = tf.gather(real, at, batch_dims=1) & (tf.range(tf.shape(at)[1]) < self.spans[:, None])

    @property
    def sample_ids(self) -> Tensor:
        """The sample of each packed token, int32 `[N]`."""
        return self.places // self.length

    @property
    def positions(self) -> Tensor:
        """The position of each packed token, int32 `[N]`."""
        return self.places % self.length

    def pack(self, x: Tensor) -> Tensor:
        """Returns the real tokens of `[B, T, D]` as `[N, D]`."""
        flat = tf.reshape(x, [-1, *x.shape[2:]])
        # Not tf.gather, whose gradient is sparse.
        return flat if self._places is None else tf.gather_nd(flat, self._places)

    def unpack(self, x: Tensor) -> Tensor:
        """Returns `[N, D]` as `[B, T, D]`, zeros where no token is real."""
        width = x.shape[-1]
        if self._places is not None:
            x = tf.scatter_nd(self._places, x, [self.batch * self.length, width])
        whole = tf.reshape(x, [self.batch, self.length, width])
        return tf.ensure_shape(whole, [*self._shape[:2], width])

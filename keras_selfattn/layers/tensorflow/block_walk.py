"""The walk over the pairs of packed tokens, block by block: which queries and keys come next, and their mask.

The outer loop takes a group of samples, or a stretch of a long sample, at a time; the inner loop takes blocks
of their queries. TensorFlow only.

Axes: N (real tokens), B (batch), P (positions of the longest sample), g (samples of a group), C (queries of a
block), K (keys that it may see), H (heads).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from keras_selfattn.layers.masks import PairMask, all_of, within
from keras_selfattn.layers.tensorflow import tf
from keras_selfattn.layers.tensorflow.packing import PackedTokens

Tensor = Any
State = tuple[Any, ...]

# Scores of a block, over all heads: enough for a matrix product to be worth its call (8 MB of float32).
_SCORES = 2**21
# The most scores that a group wastes on padding its samples to the longest: about the cost of one more group.
_WASTED_SCORES = 2**16
_LEAST_QUERIES = 32
# Queries of a stretch under a window, which share the keys around them; more if the window is wider.
_STRETCH = 256
_FAR = 2**29


class QuerySpan(NamedTuple):
    """Queries `start` to `stop` of the samples `first` to `first + count`, and the keys `left` to `right`.

    Keys are counted as the queries are, or in the other sequence that they are of.
    """

    first: Tensor
    count: Tensor
    start: Tensor
    stop: Tensor
    left: Tensor
    right: Tensor


class Block(NamedTuple):
    """Queries `start` to `stop` of a stretch, and the keys `left` to `right` that they may see."""

    start: Tensor
    stop: Tensor
    left: Tensor
    right: Tensor

    def distance(self) -> Tensor:
        """Return key position - query position, int32 `[C, K]`."""
        return tf.range(self.left, self.right)[None, :] - tf.range(self.start, self.stop)[:, None]


class Walk:
    """Blocks of queries and keys that cover every pair that may attend.

    Args:
        tokens: where the packed tokens belong.
        pairs: which of the tokens may attend to which.
        num_heads: H.
        width: floats of memory that a score takes.
        keys: layout of the keys if they are of another sequence, which no reach limits.

    Attributes:
        repeats_keys: True if stretches may have keys in common, or come to them in another order than that in
            which they are packed.
    """

    def __init__(
        self,
        tokens: PackedTokens,
        pairs: PairMask,
        num_heads: int,
        width: int,
        keys: PackedTokens | None = None,
    ) -> None:
        self._tokens = tokens
        self._keys = None if keys is None else keys.as_keys(tokens.order)
        self._pairs = pairs
        self._scores = max(1, _SCORES // (num_heads * width))
        # If a score takes many floats, few queries are worth a call, and more would take too much memory.
        self._least = max(_LEAST_QUERIES // min(width, 4), 1)
        # Scores of each sample, longest first; their number may be beyond int32.
        spans = tokens.spans if self._keys is None else self._keys.spans
        self._costs = tf.cast(tokens.spans, tf.float32) * tf.cast(spans, tf.float32)
        # And as many as they may become in a group: keys of another sequence do not fall in number.
        self._most = self._costs
        if self._keys is not None:
            self._most = tf.cast(tokens.spans, tf.float32) * tf.cast(tf.shape(self._keys.rows)[1], tf.float32)
        self._wasted = _WASTED_SCORES / (num_heads * width)
        # Clipped, so that the sum of two of them fits in int32.
        left, right = (None if x is None else min(x, _FAR) for x in pairs.reach)
        self._reach = (left, right)
        self._stretch = max(_STRETCH, left + right) if left is not None and right is not None else None
        self.repeats_keys = self._stretch is not None or keys is not None
        self._lens = None if pairs.lens is None else tf.gather(pairs.lens, tokens.order)  # [B, T]

    def stretches(self, body: Callable[..., State], state: State) -> State:
        """Return the state after `body(stretch, *state)` of every stretch."""

        def step(first: Tensor, start: Tensor, *state: Any) -> State:
            count, longest = self._group(first), self._tokens.spans[first]
            stop = longest
            if self._stretch is not None:
                stop = tf.where(count > 1, longest, tf.minimum(start + self._stretch, longest))
            left, right = self._seen(start, stop, 0, self._most_keys(first, count, longest))
            state = body(QuerySpan(first, count, start, stop, left, right), *state)
            done = stop >= longest
            return tf.where(done, first + count, first), tf.where(done, 0, stop), *state

        return _loop(lambda first, *_: first < self._tokens.samples, step, (0, 0, *state))[2:]

    def blocks(self, at: QuerySpan, body: Callable[..., State], state: State) -> State:
        """Return the state after `body(block, *state)` of every block of a stretch."""
        keys, queries = at.right - at.left, at.stop - at.start
        size = tf.maximum(self._scores // tf.maximum(at.count * keys, 1), self._least)
        count = (queries + size - 1) // size
        size = (queries + count - 1) // count  # blocks of about the same size

        def step(start: Tensor, *state: Any) -> State:
            stop = tf.minimum(start + size, at.stop)
            return stop, *body(Block(start, stop, *self._seen(start, stop, at.left, at.right)), *state)

        return _loop(lambda start, *_: start < at.stop, step, (at.start, *state))[1:]

    def rows(self, at: QuerySpan, start: Tensor, stop: Tensor) -> Tensor:
        """Return the packed tokens at positions `start` to `stop` of a stretch, int32 `[g, positions]`."""
        return self._tokens.rows[at.first : at.first + at.count, start:stop]

    def key_rows(self, at: QuerySpan) -> Tensor:
        """Return the packed tokens that are the keys of a stretch, int32 `[g, keys]`."""
        if self._keys is None:
            return self.rows(at, at.left, at.right)
        return self._keys.rows[at.first : at.first + at.count, at.left : at.right]

    def packed(self, at: QuerySpan, start: Tensor, stop: Tensor, x: Tensor) -> Tensor:
        """Return the part of `x`, `[g, positions, ...]`, at real tokens, `[tokens, ...]`."""
        return self._at_tokens(at, start, stop, x, self._tokens.slots)

    def packed_keys(self, at: QuerySpan, x: Tensor) -> Tensor:
        """Return the part of `x`, `[g, keys, ...]`, at keys of a stretch that are real, `[tokens, ...]`."""
        return self._at_tokens(at, at.left, at.right, x, self._key_slots)

    @property
    def _key_slots(self) -> Tensor | None:
        return self._tokens.slots if self._keys is None else self._keys.slots

    def _at_tokens(
        self, at: QuerySpan, start: Tensor, stop: Tensor, x: Tensor, slots: Tensor | None
    ) -> Tensor:
        flat = tf.reshape(x, [-1, *x.shape[2:]])
        if slots is None:
            return flat
        near = slots[at.first : at.first + at.count, start:stop]
        return tf.gather(flat, tf.where(tf.reshape(near, [-1]))[:, 0])

    def cleared(self, at: QuerySpan, part: Block, x: Tensor) -> Tensor:
        """Return `x`, `[g, H, C, D]`, with zeros at queries that are no real tokens."""
        if self._tokens.slots is None:
            return x
        slots = self._tokens.slots[at.first : at.first + at.count, part.start : part.stop]
        return tf.where(slots[:, None, :, None], x, tf.zeros([], x.dtype))

    def mask(self, at: QuerySpan, part: Block) -> Tensor | None:
        """Return which pairs of a block may attend, bool that broadcasts to `[g, H, C, K]`; None for all."""
        parts = []
        samples = slice(at.first, at.first + at.count)
        if self._key_slots is not None:
            parts.append(self._key_slots[samples, part.left : part.right][:, None, None, :])
        if self._reach != (None, None):
            parts.append(within(self._reach, part.distance())[None, None])
        if self._lens is not None:
            lens = self._lens[samples, part.start : part.stop][:, None, :, None]
            parts.append(tf.range(part.left, part.right) < lens)
        if self._pairs.chosen is not None:
            chosen = self._pairs.chosen
            if chosen.shape[0] != 1:
                chosen = tf.gather(chosen, self._tokens.order[samples])
            of_each = chosen.shape[2] != 1
            queries = slice(part.start, part.stop) if of_each else slice(None)
            parts.append(chosen[:, :, queries, part.left : part.right])
        return all_of(parts)

    def distance(self, at: QuerySpan, part: Block) -> Tensor:
        """Return the distances of a block, of positions `[C, K]`, or the given ones, `[g, 1, C, K]`."""
        if self._pairs.given is None:
            return part.distance()
        given = tf.gather(self._pairs.given, self._tokens.order[at.first : at.first + at.count])
        return given[:, :, part.start : part.stop, part.left : part.right]

    def near(self, at: QuerySpan, part: Block, keys: Tensor) -> Tensor:
        """Return those keys of a stretch, `[g, G, keys, D]`, that a block sees, `[g, G, K, D]`."""
        if self._reach == (None, None):
            return keys
        return keys[:, :, part.left - at.left : part.right - at.left]

    def spread(self, at: QuerySpan, part: Block, x: Tensor) -> Tensor:
        """Reverse `near`: `[g, G, K, D]` to `[g, G, keys, D]`, zeros at keys that the block does not see."""
        if self._reach == (None, None):
            return x
        beyond = [part.left - at.left, at.right - part.right]
        return tf.pad(x, [[0, 0], [0, 0], beyond, [0, 0]])

    def _group(self, first: Tensor) -> Tensor:
        """Return how many samples, from `first` on, form a group that shares blocks."""
        costs = self._costs[first : self._tokens.samples]
        held = self._most[first] * tf.range(1.0, tf.cast(tf.shape(costs)[0], tf.float32) + 1)
        fits = (held <= float(self._scores)) & (held - tf.cumsum(costs) <= self._wasted)
        return tf.maximum(tf.math.count_nonzero(fits, dtype=tf.int32), 1)

    def _most_keys(self, first: Tensor, count: Tensor, longest: Tensor) -> Tensor:
        """Return the number of keys of the sample with the most of them in a group."""
        if self._keys is None:
            return longest
        return tf.reduce_max(self._keys.spans[first : first + count])

    def _seen(self, start: Tensor, stop: Tensor, least: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first key that queries `start` to `stop` see, and the key after their last one."""
        left, right = self._reach
        return (
            least if left is None else tf.maximum(start - left, least),
            most if right is None else tf.minimum(stop + right, most),
        )


def _loop(condition: Callable[..., Tensor], body: Callable[..., State], state: State) -> State:
    # One step at a time, so that only one block's memory is in use.
    return tf.while_loop(condition, body, state, parallel_iterations=1)

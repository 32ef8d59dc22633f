"""Attention of packed tokens and its gradient, by blocks: memory for one block of pairs, never for all.

The gradient keeps queries, keys and values only: it scores each block again and draws its dropout again from
the seed. TensorFlow only.

Axes: N (real tokens), M (those of another sequence, which keys may be of), g (samples of a group), C (queries
of a block), K (keys that it may see), H (heads), G (key-value heads), D (features of one head).

References: Rabe and Staats 2021, "Self-attention Does Not Need O(n^2) Memory", section 2. Dao et al. 2022,
"FlashAttention", appendix B.4 (the gradient by recomputation).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from keras_selfattn.layers.attention_math import (
    Formula,
    Learned,
    dot_product,
    masked_softmax,
    wide_dtype,
    widened,
)
from keras_selfattn.layers.masks import PairMask
from keras_selfattn.layers.tensorflow import tf
from keras_selfattn.layers.tensorflow.block_walk import Block, QuerySpan, State, Walk
from keras_selfattn.layers.tensorflow.custom_gradients import custom_gradient
from keras_selfattn.layers.tensorflow.packing import PackedTokens

Tensor = Any
Heads = tuple[Tensor, Tensor, Tensor]


def attend_in_blocks(
    heads: Heads,
    tokens: PackedTokens,
    pairs: PairMask,
    formula: Formula,
    *,
    dropout: bool,
    keys: PackedTokens | None = None,
) -> Tensor:
    """Return the context of packed tokens, `[N, H D]`.

    Args:
        heads: query `[N, H, D]`, key and value `[N, G, D]`, or `[M, G, D]` if they are of another sequence.
        tokens: where the packed tokens belong.
        pairs: which of the tokens may attend to which.
        formula: the kind of attention, computed for one block of g samples, C queries and K keys at a time.
        dropout: whether the formula's dropout acts.
        keys: where the packed keys belong if they are of another sequence.
    """
    learned = formula.learned()
    if keys is not None:  # an empty position reads a row of zeros after the last one
        query, *others = heads
        key, value = (tf.concat([x, tf.zeros([1, *x.shape[1:]], x.dtype)], axis=0) for x in others)
        heads = (query, key, value)
    draw = [formula.dropout.draw()] if dropout else []
    functions = _functions(tokens, pairs, formula, list(learned), dropout=dropout, keys=keys)

    @custom_gradient
    def attend(*given: Tensor) -> tuple[Tensor, Callable]:
        context = functions.context(draw, *given)
        return context, lambda upstream: functions.gradients(draw, context, upstream, *given)

    return attend(*heads, *learned.values())


class _Functions(NamedTuple):
    """The context of an attention, from its draw, heads and learned weights; and the gradients of these."""

    context: Callable[..., Tensor]
    gradients: Callable[..., Tensor]


def _functions(
    tokens: PackedTokens,
    pairs: PairMask,
    formula: Formula,
    names: list[str],
    *,
    dropout: bool,
    keys: PackedTokens | None,
) -> _Functions:
    """Return the functions of an attention: in a graph one for all blocks of an encoder that are alike.

    A graph then holds them once, instead of hundreds of operations for each block, and is traced so much
    sooner. They are not inlined: their operations would be visited even in a branch that it does not take.
    """

    def blocks(draw: list[Tensor], query: Tensor, key: Tensor, value: Tensor, *weights: Tensor) -> Any:
        learned = dict(zip(names, weights, strict=True))
        keep = formula.dropout.keep_masks(*draw) if draw else None
        return _BlockAttention((query, key, value), learned, tokens, pairs, formula, keep, keys)

    def context(draw: list[Tensor], *given: Tensor) -> Tensor:
        return blocks(draw, *given).context()

    def gradients(draw: list[Tensor], context: Tensor, upstream: Tensor, *given: Tensor) -> Any:
        return blocks(draw, *given).gradients(context, upstream)

    if tf.executing_eagerly():
        return _Functions(context, gradients)
    settings = (_identity(pairs), formula.kind, tuple(names), dropout, id(keys))
    if settings not in tokens.attentions:
        apart = tf.function(autograph=False, experimental_attributes={"_noinline": True})
        tokens.attentions[settings] = _Functions(apart(context), apart(gradients))
    return tokens.attentions[settings]


def _identity(pairs: PairMask) -> tuple[Any, ...]:
    return tuple(id(each) if tf.is_tensor(each) else each for each in pairs)


class _BlockAttention:
    """The context and its gradients; `keep` makes the masks of dropout, see `Dropout.keep_masks`."""

    def __init__(
        self,
        heads: Heads,
        learned: Learned,
        tokens: PackedTokens,
        pairs: PairMask,
        formula: Formula,
        keep: Callable[[Tensor, Tensor, Tensor], Tensor] | None,
        keys: PackedTokens | None,
    ) -> None:
        self._heads = heads
        self._learned = learned
        self._places = tokens.places
        self._formula = formula
        self._num_heads = heads[0].shape[1]
        self._walk = Walk(tokens, pairs, self._num_heads, formula.score_width, keys)
        self._rows_may_be_empty = pairs.rows_may_be_empty
        self._keep_mask = keep
        self._scale = 1.0 if keep is None else formula.dropout.scale

    def context(self) -> Tensor:
        """Return `[N, H D]`."""
        walk, formula = self._walk, self._formula
        query, key, value = self._heads

        def stretch(at: QuerySpan, contexts: Any) -> State:
            keys, values = (_taken(x, walk.key_rows(at)) for x in (key, value))

            def block(part: Block, contexts: Any) -> State:
                rows = walk.rows(at, part.start, part.stop)
                near_keys, near_values = walk.near(at, part, keys), walk.near(at, part, values)
                distance = partial(walk.distance, at, part)
                logits = formula.score(self._learned, _taken(query, rows), near_keys, distance)
                weights = _product(self._weights(at, part, logits, value.dtype), self._keep(part, rows))
                context = formula.combine(self._learned, weights, near_values, distance)
                context = _scaled(context, self._scale)  # [g, H, C, D]
                return (_written(contexts, walk.packed(at, part.start, part.stop, _joined(context))),)

            return walk.blocks(at, block, (contexts,))

        (contexts,) = walk.stretches(stretch, (_parts(value.dtype, self._num_heads * value.shape[2]),))
        return contexts.concat()

    def gradients(self, context: Tensor, upstream: Tensor) -> tuple[Tensor, ...]:
        """Return the gradients of query, key, value `[N, heads, D]` and of the learned weights."""
        walk, learned = self._walk, list(self._learned.values())
        upstream, shared = self._upstream(context, upstream)

        def stretch(at: QuerySpan, parts: list[Any], ids: Any, *sums: Tensor) -> State:
            rows = walk.key_rows(at)
            keys, values = (_taken(x, rows) for x in self._heads[1:])

            def block(part: Block, queries: Any, *sums: Tensor) -> State:
                rows = walk.rows(at, part.start, part.stop)
                heads = (_taken(self._heads[0], rows), walk.near(at, part, keys), walk.near(at, part, values))
                of_query, of_key, of_value, *of_learned = self._block_gradients(
                    at, part, rows, heads, _taken(upstream, rows), _taken(shared, rows)
                )
                queries = _written(queries, walk.packed(at, part.start, part.stop, _joined(of_query)))
                found = (walk.spread(at, part, of_key), walk.spread(at, part, of_value), *of_learned)
                return queries, *(
                    total + tf.cast(one, total.dtype) for total, one in zip(sums, found, strict=True)
                )

            state = (parts[0], _wide_zeros(keys), _wide_zeros(values), *sums)
            queries, of_keys, of_values, *of_learned = walk.blocks(at, block, state)
            joined = (walk.packed_keys(at, _joined(x)) for x in (of_keys, of_values))
            added = (
                _written(part, tf.cast(x, part.dtype)) for part, x in zip(parts[1:], joined, strict=True)
            )
            parts = [queries, *added]
            if walk.repeats_keys:
                ids = _written(ids, walk.packed_keys(at, rows))
            return parts, ids, *of_learned

        parts = [_parts(x.dtype, x.shape[1] * x.shape[2]) for x in self._heads]
        ids = _parts(tf.int32)
        parts, ids, *of_learned = walk.stretches(stretch, (parts, ids, *(_wide_zeros(x) for x in learned)))
        of_heads = [part.concat() for part in parts]
        if walk.repeats_keys:
            count = tf.shape(self._heads[1])[0]
            of_heads[1:] = [tf.math.unsorted_segment_sum(x, ids.concat(), count) for x in of_heads[1:]]
        of_heads = [tf.reshape(x, [-1, *of.shape[1:]]) for x, of in zip(of_heads, self._heads, strict=True)]
        return *of_heads, *(tf.cast(x, of.dtype) for x, of in zip(of_learned, learned, strict=True))

    def _upstream(self, context: Tensor, upstream: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient of the weighted sum, `[N, H, D]`, and the softmax's shared term, `[N, H, 1]`.

        The gradient of a softmax subtracts, for every key, the sum over the keys of weight times gradient of
        the weight. This shared term is the dot product of context and upstream, in float32 at least.
        """
        shape = [-1, self._num_heads, self._heads[2].shape[2]]
        wide = _wide(context.dtype)
        product = tf.cast(upstream, wide) * tf.cast(context, wide)
        shared = tf.reduce_sum(tf.reshape(product, shape), axis=-1, keepdims=True)
        return tf.reshape(_scaled(upstream, self._scale), shape), shared

    def _block_gradients(
        self, at: QuerySpan, part: Block, rows: Tensor, heads: Heads, upstream: Tensor, shared: Tensor
    ) -> list[Tensor]:
        # In half precision the many small gradients of one weight would be rounded away as they are added up.
        learned = [tf.cast(weight, _wide(weight.dtype)) for weight in self._learned.values()]
        query, key, value = heads
        # An empty slot holds a copy of another token's query, so its upstream gradient is zeroed.
        upstream, shared = (self._walk.cleared(at, part, x) for x in (upstream, shared))
        distance = partial(self._walk.distance, at, part)
        # A factor stays out of the tape, whose gradient would multiply every pair by it.
        factor = self._formula.product_scale
        with tf.GradientTape(watch_accessed_variables=False) as scores:
            scores.watch([query, key, *learned])
            if factor is None:
                factor, scored = 1.0, self._formula.score(self._narrowed(learned), query, key, distance)
            else:
                scored = dot_product(query, key)
        logits = _scaled(scored, factor)
        wide = _wide(value.dtype)
        weights = self._weights(at, part, logits, wide)
        keep = self._keep(part, rows)
        kept = _product(tf.cast(weights, value.dtype), keep)
        with tf.GradientTape(watch_accessed_variables=False) as sums:
            sums.watch([kept, value, *learned])
            context = self._formula.combine(self._narrowed(learned), kept, value, distance)
        of_kept, of_value, *of_learned = _gradients(sums, context, [kept, value, *learned], upstream)
        of_weights = tf.cast(_product(of_kept, keep), wide)
        of_logits = tf.cast(weights * (of_weights - shared), logits.dtype)
        of_query, of_key, *more = _gradients(scores, scored, [query, key, *learned], of_logits)
        of_query, of_key = _scaled(of_query, factor), _scaled(of_key, factor)
        return [of_query, of_key, of_value, *(a + b for a, b in zip(of_learned, more, strict=True))]

    def _narrowed(self, learned: list[Tensor]) -> Learned:
        pairs = zip(self._learned.items(), learned, strict=True)
        return {name: tf.cast(weight, given.dtype) for (name, given), weight in pairs}

    def _weights(self, at: QuerySpan, part: Block, logits: Tensor, dtype: Any) -> Tensor:
        # With bfloat16 inputs and outputs, the softmax kernel computes in float32 itself. float16 cannot hold
        # the number that masks a logit.
        logits = logits if logits.dtype == dtype == tf.bfloat16 else widened(logits)
        mask = self._walk.mask(at, part)
        weights = masked_softmax(logits, mask, rows_may_be_empty=self._rows_may_be_empty)
        return tf.cast(weights, dtype)

    def _keep(self, part: Block, rows: Tensor) -> Tensor | None:
        """Return 1 for weights that dropout keeps and 0 for the others, `[g, H, C, K]`, or None."""
        if self._keep_mask is None:
            return None
        heads = tf.range(self._num_heads)
        queries = tf.gather(self._places, rows)[:, None, :] * self._num_heads + heads[:, None]  # [g, H, C]
        kept = self._keep_mask(queries, part.right - part.left, part.left)
        return tf.cast(kept, self._heads[2].dtype)


def _gradients(tape: Any, target: Tensor, sources: list[Tensor], upstream: Tensor) -> list[Tensor]:
    return tape.gradient(target, sources, upstream, unconnected_gradients=tf.UnconnectedGradients.ZERO)


def _taken(x: Tensor, rows: Tensor) -> Tensor:
    """Return the rows `[g, C]` of `[N, H, D]` as `[g, H, C, D]`."""
    return tf.transpose(tf.gather(x, rows), [0, 2, 1, 3])


def _joined(x: Tensor) -> Tensor:
    """Return `[g, H, C, D]` as `[g, C, H D]`."""
    _, heads, _, features = x.shape
    shape = tf.shape(x)
    return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), [shape[0], shape[2], heads * features])


def _product(x: Tensor, keep: Tensor | None) -> Tensor:
    return x if keep is None else x * keep


def _scaled(x: Tensor, scale: float) -> Tensor:
    # A constant: a cast would round the number to float32 first.
    return x if scale == 1.0 else x * tf.constant(scale, x.dtype)


def _wide(dtype: Any) -> Any:
    return tf.as_dtype(wide_dtype(dtype.name))


def _wide_zeros(x: Tensor) -> Tensor:
    return tf.zeros_like(x, _wide(x.dtype))


def _parts(dtype: Any, *widths: int) -> Any:
    """Return an array of parts `[tokens, *widths]`, with one empty part, because there may be no other."""
    shape = [None, *widths]
    parts = tf.TensorArray(dtype, 1, dynamic_size=True, infer_shape=False, element_shape=shape)
    return parts.write(0, tf.zeros([0, *widths], dtype))


def _written(parts: Any, x: Tensor) -> Any:
    return parts.write(parts.size(), x)

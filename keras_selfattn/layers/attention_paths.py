"""Choose the path by which attention is computed, and compute it.

| path             | when                                                                                    |
|------------------|-----------------------------------------------------------------------------------------|
| `packed`         | TensorFlow's own kernels (no XLA) and more than a few tokens: on the real tokens alone  |
| `with_weights`   | the weights are to be returned: all pairs, exact rows for padding queries, too          |
| `windowed`       | a window on both sides that is shorter than the sequence: queries against the keys near |
|                  | (not with given distances, which have a number for every pair anyway)                   |
| `fused`          | JAX on a Hopper GPU, half precision, products alone: in kernels that store no scores    |
| `by_query_blocks`| JAX, PyTorch and XLA, and all scores at once would take much memory                     |
| `plain`          | otherwise, in graphs for other runtimes (`portable`), and where JAX is not told the     |
|                  | sizes: every query, every key                                                           |

`on_tokens` packs or pads the tokens once for a whole layer, block or encoder; `choose_path` then chooses a
path in each of its attention layers. All paths give the same results, with one exception: in training,
`packed` may drop other weights if padding stands before or among the tokens, or under a window. (Linear
attention has no softmax: its tokens are always padded, and it has its own `_attend`.)

Axes: B (batch), T (query positions), S (key positions; S = T unless keys are of another sequence), H (heads),
D (features of one head), N (tokens: all B T positions, or the real ones if packed).
"""

import copy
import operator
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple, cast

import keras
from keras import ops

from keras_selfattn.layers.attention_math import Formula, map_queries, softmax_attention, split
from keras_selfattn.layers.dropout import TokenNumbers
from keras_selfattn.layers.jax import is_dimension, runs_kernels_of_gpu
from keras_selfattn.layers.jax.flash_attention import fits_kernels, flash_attention
from keras_selfattn.layers.masks import PairMask, zero_masked
from keras_selfattn.layers.remat import add_losses
from keras_selfattn.layers.seeds import part_of_draw
from keras_selfattn.layers.tensorflow import builds_portable_graph, runs_kernels
from keras_selfattn.layers.tensorflow.block_attention import attend_in_blocks
from keras_selfattn.layers.tensorflow.packing import PackedTokens
from keras_selfattn.layers.weights.policy_maps import PolicyMap
from keras_selfattn.layers.window import Chunks, keys_of_chunk

Tensor = Any
Heads = tuple[Tensor, Tensor, Tensor]

# With at most so many tokens, the loops over packed tokens cost more than padding, so nothing is packed.
_FEW_TOKENS = 256
# A graph that knows of few tokens, but not how many, cuts no chunks of so many keys or more: the steps would
# cost more than the scores that they save.
_FEW_KEYS = 128
# Scores of a block of queries, over all samples and heads (8 MB of float32). Blocks are faster than all
# scores at once, which fit in no cache; even in training, where the gradient computes them again.
_SCORES = 2**21
# A GPU needs more scores at once to be busy (256 MB): on an H100 a quarter of them took 5 to 35 % longer, and
# four times as many saved 13 % of inference over 2,048 positions. It was not measured on a TPU.
_SCORES_OF_ACCELERATOR = 2**26
_LEAST_QUERIES = 32


class PaddedTokens:
    """The padded layout: every position of a batch in its place, padding included; see `PackedTokens`.

    Args:
        inputs: `[B, T, D]`.
        real: bool `[B, T]`, True for real tokens, False for padding; None if all are real.
        few: True if the batch is known to have few tokens, although its length is not known.
        first: position of the first tokens, int32 scalar: they continue longer sequences.

    Attributes:
        losses: scalars, the penalties of a call (see `WeightSettings`).
    """

    def __init__(
        self, inputs: Tensor, real: Tensor | None, few: bool = False, first: Tensor | None = None
    ) -> None:
        self.batch, self.length = ops.shape(inputs)[:2]
        self.few = few
        self.first = first
        self.losses: list[Tensor] = []
        self._joined: Tensor | None = None
        self._parts: tuple[Tensor, ...] = ()
        self._flat_real = None if real is None else ops.reshape(real, (-1,))  # [N]

    def of_rows(self, rows: Tensor) -> "PaddedTokens":
        """Return the layout of the same tokens in fewer, longer rows, for attention to another sequence."""
        layout = copy.copy(self)
        some = max(rows, 1) if isinstance(rows, int) else ops.maximum(rows, 1)
        layout.batch, layout.length = rows, self.batch * self.length // some
        return layout

    @property
    def positions(self) -> Tensor:
        """The positions of a sequence, int32 `[T]`."""
        places = ops.arange(self.length, dtype="int32")
        return places if self.first is None else places + self.first

    @property
    def by_token(self) -> TokenNumbers:
        """A unique number for each token."""
        count = self.batch * self.length
        return TokenNumbers(ops.arange(count, dtype="int32"), count)

    @property
    def by_sample(self) -> TokenNumbers:
        """The number of each token's sample."""
        return TokenNumbers(self.by_token.numbers // self.length, self.batch)

    def gather(self, x: Tensor) -> Tensor:
        """Return `[B, T, D]` as `[N, D]`, with zeros for padding, whose NaN must not enter a product."""
        return zero_masked(ops.reshape(x, (-1, x.shape[-1])), self._flat_real)

    def scatter(self, x: Tensor) -> Tensor:
        """Return `[N, D]` as `[B, T, D]`, zeros for padding."""
        whole = zero_masked(x, self._flat_real)
        return ops.reshape(whole, (self.batch, self.length, x.shape[-1]))

    def split_heads(self, x: Tensor, num_heads: int) -> Tensor:
        """Return `[N, H D]` as `[B, H, T, D]`."""
        if _is_one(self.length):
            return ops.reshape(x, (-1, num_heads, 1, x.shape[-1] // num_heads))
        by_position = ops.reshape(x, (self.batch, self.length, num_heads, x.shape[-1] // num_heads))
        return ops.transpose(by_position, (0, 2, 1, 3))

    def split_parts(self, x: Tensor, num_heads: list[int]) -> list[Tensor]:
        """Return the heads of projections that lie side by side in `[N, H D]`, `[B, H, T, D]` each."""
        heads = self.split_heads(x, sum(num_heads))  # transposed at once, before they are split
        parts = split(heads, num_heads, axis=1)
        # The kernels alone ask for it; others would only keep memory.
        if keras.backend.backend() == "jax" and runs_kernels_of_gpu():
            self._joined, self._parts = x, tuple(parts)
        return parts

    def forget_parts(self) -> None:
        """Forget the last `split_parts`: its memory, or its trace, ends with the attention."""
        self._joined, self._parts = None, ()

    def joined_heads(self, heads: Sequence[Tensor]) -> Tensor | None:
        """Return `[B, T, all heads, D]` if these are all parts of the last `split_parts`, unchanged."""
        x = self._joined
        if x is None or len(self._parts) != len(heads) or any(map(operator.is_not, heads, self._parts)):
            return None
        width = heads[0].shape[-1]
        return ops.reshape(x, (self.batch, self.length, x.shape[-1] // width, width))

    def join_heads(self, x: Tensor) -> Tensor:
        """Return `[B, H, T, D]` as `[N, H D]`."""
        if _is_one(self.length):
            return ops.reshape(x, (-1, x.shape[1] * x.shape[3]))
        return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (-1, x.shape[1] * x.shape[3]))


def _is_one(length: Tensor) -> bool:
    """Return True if sequences are known to have one token: heads are in place without being moved."""
    return isinstance(length, int) and length == 1


Tokens = PaddedTokens | PackedTokens


class Memory(NamedTuple):
    """The tokens of another sequence, of which keys and values are made.

    x: `[M, features]`.
    tokens: their layout.
    pairs: which query may attend to which of them.
    """

    x: Tensor
    tokens: Tokens
    pairs: PairMask


class GivenMemory(NamedTuple):
    """Another sequence as a layer is given it, `[B, S, features]`, and which query may attend to which."""

    inputs: Tensor
    pairs: PairMask

    def beside(self, tokens: Tokens) -> Memory:
        """Return its tokens in a layout of the same kind as that of the queries."""
        real = self.pairs.real
        if isinstance(tokens, PackedTokens):
            layout = PackedTokens(self.inputs, real, gaps=self.pairs.names_positions, from_zero=True)
        else:
            layout = PaddedTokens(self.inputs, real)
        return Memory(layout.gather(self.inputs), layout, self.pairs)


Path = Callable[[Heads, Any, PairMask, Formula, bool | None], tuple[Tensor, Tensor | None]]


def on_tokens(
    layer: Any,
    inputs: Tensor,
    pairs: PairMask,
    training: bool | None,
    return_weights: bool,
    *,
    may_pack: bool = True,
    memory: GivenMemory | None = None,
) -> Any:
    """Return the outputs of a layer on the tokens of `inputs`, packed or padded; exactly zero at padding.

    Args:
        layer: its `call_tokens` makes of tokens `[N, features]`, their layout, and the last three arguments
            outputs `[N, features]` and attention weights, or None. It gets the losses of the layout, too.
            Of a memory it takes the tokens, too, in a layout of the same kind.
        inputs: `[B, T, features]`.
        pairs: which tokens are real, and which may attend to which.
        training: dropout acts only if True.
        return_weights: if True, returns outputs and weights.
        may_pack: False if the layer has no path for packed tokens.
        memory: another sequence that the tokens attend to.
    """
    named = pairs.names_positions or (memory is not None and memory.pairs.names_positions)

    def outputs(tokens: Tokens) -> tuple[Any, list[Tensor]]:
        others = () if memory is None else (memory.beside(tokens),)
        x = tokens.gather(inputs)
        found, weights = layer.call_tokens(x, tokens, pairs, training, return_weights, *others)
        found = tokens.scatter(found)
        if isinstance(layer.dtype_policy, PolicyMap):  # its parts may have another dtype
            found = ops.cast(found, layer.compute_dtype)
        return (found, weights) if return_weights else found, tokens.losses

    def padded(few: bool = False) -> tuple[Any, list[Tensor]]:
        return outputs(PaddedTokens(inputs, pairs.real, few))

    def packed() -> tuple[Any, list[Tensor]]:
        return outputs(PackedTokens(inputs, pairs.real, gaps=named or pairs.sees_distance, from_zero=named))

    layout = _layout(inputs, padded, packed, training, return_weights) if may_pack else padded
    found, losses = layout()
    if losses:
        add_losses(layer, losses)
    return found


def _layout(
    inputs: Tensor, padded: Callable, packed: Callable, training: bool | None, return_weights: bool
) -> Callable:
    """Return `padded`, `packed`, or what chooses one of them when the graph runs."""
    batch, length = inputs.shape[:2]
    known = isinstance(batch, int) and isinstance(length, int)
    if return_weights or (known and batch * length <= _FEW_TOKENS) or not runs_kernels(inputs):
        return padded
    # A training graph of unknown sizes always packs. Of a long row, few tokens are no row at all.
    if known or training or (isinstance(length, int) and length > _FEW_TOKENS):
        return packed
    batch, length = ops.shape(inputs)[:2]
    return lambda: ops.cond(batch * length <= _FEW_TOKENS, partial(padded, few=True), packed)


def attend(
    heads: Heads,
    tokens: Tokens,
    pairs: PairMask,
    formula: Formula,
    training: bool | None,
    return_weights: bool,
    keys: Tokens | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Return the context `[N, H D]`, and the weights before dropout, `[B, H, T, S]`, or None.

    Args:
        heads: query, key and value as `tokens.split_heads` gives them.
        tokens: layout of the queries.
        pairs: which tokens may attend to which.
        formula: the kind of attention.
        training: dropout acts only if True.
        return_weights: whether to return the weights.
        keys: layout of keys and values that are of another sequence, packed if the queries are.
    """
    path: Path = choose_path(heads, tokens, pairs, formula, return_weights)
    if isinstance(keys, PackedTokens):
        path = partial(packed, keys=keys)
    found = path(heads, cast(Any, tokens), pairs, formula, training)
    for layout in (tokens, keys):
        if isinstance(layout, PaddedTokens):
            layout.forget_parts()  # the blocks of an encoder share the layout
    return found


def choose_path(
    heads: Heads, tokens: Tokens, pairs: PairMask, formula: Formula, return_weights: bool
) -> Path:
    """Return one of the functions below, chosen by the table above."""
    if isinstance(tokens, PackedTokens):
        return packed
    if return_weights:
        return with_weights
    left, right = pairs.reach
    if left is not None and right is not None and pairs.given is None and not builds_portable_graph():
        length, keys = tokens.length, keys_of_chunk(left, right)
        if is_dimension(length):
            return plain  # no chunks can be counted
        if (length > keys) if isinstance(length, int) else not (tokens.few and keys >= _FEW_KEYS):
            return windowed
    if keras.backend.backend() == "jax" and _is_scaled_product(formula) and fits_kernels(heads, pairs):
        return fused
    size = queries_of_block(heads[0], ops.shape(heads[1])[2], formula.score_width)
    return plain if size is None else partial(by_query_blocks, size=size)


def plain(
    heads: Heads, tokens: PaddedTokens, pairs: PairMask, formula: Formula, training: bool | None
) -> tuple[Tensor, None]:
    """Attend from every query to every key at once."""
    # The weights are not returned, so those of padding queries may be arbitrary.
    return _all_pairs(heads, tokens, pairs, formula, training, pairs.rows_may_be_empty)[0], None


def with_weights(
    heads: Heads, tokens: PaddedTokens, pairs: PairMask, formula: Formula, training: bool | None
) -> tuple[Tensor, Tensor]:
    """Attend as `plain` does, and return the weights, too."""
    return _all_pairs(heads, tokens, pairs, formula, training, True)


def windowed(
    heads: Heads, tokens: PaddedTokens, pairs: PairMask, formula: Formula, training: bool | None
) -> tuple[Tensor, None]:
    """Attend from chunks of queries to the keys that the window can reach."""
    left, right = pairs.reach
    assert left is not None
    assert right is not None
    query, key, value = heads
    chunks = Chunks(tokens.length, left, right)
    context, _ = softmax_attention(
        chunks.queries(query),  # [B chunks, H, C, D]
        chunks.keys(key),  # [B chunks, H, K, D]
        chunks.keys(value),
        chunks.mask(pairs, tokens.batch),
        formula,
        chunks.distances,
        dropout=_dropout(formula, ops.arange(chunks.size, dtype="int32"), chunks.size, training),
        rows_may_be_empty=pairs.rows_may_be_empty,
    )
    return tokens.join_heads(chunks.join(context)), None


def fused(
    heads: Heads, tokens: PaddedTokens, pairs: PairMask, formula: Formula, training: bool | None
) -> tuple[Tensor, None]:
    """Attend in kernels of a GPU (jax/flash_attention.py)."""
    drawn: dict[str, Tensor] = {}
    if training and formula.dropout.acts:
        assert formula.dropout.seeds is not None  # at rate 1 another path is chosen
        rows = _row_numbers(tokens.batch, heads[0].shape[1], tokens.length, tokens.positions)
        drawn = {"rate": formula.dropout.rate, "seed": formula.dropout.seeds.next(), "rows": rows}
    assert formula.product_scale is not None
    joined = tokens.joined_heads(heads)  # read where it is, without a copy of each part
    context = flash_attention(heads, pairs, joined, scale=formula.product_scale, **drawn)  # [B, T, H, D]
    return ops.reshape(context, (-1, context.shape[2] * context.shape[3])), None


def by_query_blocks(
    heads: Heads,
    tokens: PaddedTokens,
    pairs: PairMask,
    formula: Formula,
    training: bool | None,
    *,
    size: Tensor,
) -> tuple[Tensor, None]:
    """Attend from blocks of `size` queries to every key, one block after the other."""
    query, key, value = heads
    length, learned = ops.shape(key)[2], formula.learned()
    seeds = formula.dropout.seeds if training and formula.dropout.acts else None
    draw = None if seeds is None else seeds.next()

    def context(query: Tensor, rows: Tensor, key: Tensor, value: Tensor, *weights: Tensor) -> Tensor:
        with nullcontext() if seeds is None else seeds.holding(part_of_draw(draw, rows[0])):
            return softmax_attention(
                query,
                key,
                value,
                pairs.of_queries(rows, length),
                formula,
                partial(pairs.distance, length, rows),
                learned=dict(zip(learned, weights, strict=True)),
                dropout=_dropout(formula, rows, tokens.length, training),
                rows_may_be_empty=pairs.rows_may_be_empty,
            )[0]

    return tokens.join_heads(map_queries(context, query, size, [key, value, *learned.values()])), None


def packed(
    heads: Heads,
    tokens: PackedTokens,
    pairs: PairMask,
    formula: Formula,
    training: bool | None,
    *,
    keys: PackedTokens | None = None,
) -> tuple[Tensor, None]:
    """Attend from the real tokens to the real tokens, block by block (tensorflow/block_attention.py)."""
    drops = bool(training) and formula.dropout.acts
    return attend_in_blocks(heads, tokens, pairs, formula, dropout=drops, keys=keys), None


def queries_of_block(query: Tensor, keys: Tensor, score_width: int) -> Tensor | None:
    """Return the number of queries in a block; None for all at once, if few or in TensorFlow's own kernels.

    Args:
        query: `[B, H, T, D]`.
        keys: S.
        score_width: floats of memory that a score takes.

    Returns:
        An int; or a scalar tensor, at most T, if a TensorFlow graph knows the sizes only when it runs.
    """
    sizes: Any = ops.shape(query)
    batch, heads, length, _ = sizes
    if isinstance(batch, int) and isinstance(length, int) and isinstance(keys, int):
        row = max(batch * heads * keys * score_width, 1)  # floats that the scores of one query take
        if max(_SCORES // row, _LEAST_QUERIES) >= length or runs_kernels(query) or builds_portable_graph():
            return None
        size = max(_scores_at_once(query) // row, _LEAST_QUERIES)
        return None if size >= length else size
    if keras.backend.backend() != "tensorflow" or runs_kernels(query) or builds_portable_graph():
        return None
    row: Any = ops.maximum(batch * heads * keys * score_width, 1)
    size: Any = ops.maximum(_scores_at_once(query) // row, _LEAST_QUERIES)
    return ops.maximum(ops.minimum(size, length), 1)


def _scores_at_once(query: Tensor) -> int:
    # When a graph is built, its device is unknown; only the list of available devices is known.
    if keras.backend.backend() == "torch":
        on_cores = query.device.type == "cpu"
    else:
        on_cores = all(name.startswith("cpu") for name in keras.distribution.list_devices())
    return _SCORES if on_cores else _SCORES_OF_ACCELERATOR


def _all_pairs(
    heads: Heads,
    tokens: PaddedTokens,
    pairs: PairMask,
    formula: Formula,
    training: bool | None,
    rows_may_be_empty: bool,
) -> tuple[Tensor, Tensor]:
    length = ops.shape(heads[1])[2]
    context, weights = softmax_attention(
        *heads,
        pairs.dense(length),
        formula,
        partial(pairs.distance, length),
        dropout=_dropout(formula, tokens.positions, tokens.length, training),
        rows_may_be_empty=rows_may_be_empty,
    )
    return tokens.join_heads(context), weights


def _dropout(
    formula: Formula, rows: Tensor, length: Tensor, training: bool | None
) -> Callable[[Tensor], Tensor] | None:
    """Return dropout for the attention weights of the queries at `rows`.

    Queries are numbered as in the packed layout, so that all paths drop the same weights on TensorFlow and
    JAX; the module's docstring has the exceptions.
    """
    if not (training and formula.dropout.acts):
        return None

    def dropped(weights: Tensor) -> Tensor:  # [B, H, C, S]
        batch, heads = ops.shape(weights)[:2]
        numbers = _row_numbers(batch, heads, length, rows)
        return formula.dropout(weights, training=True, tokens=TokenNumbers(numbers, batch * length * heads))

    return dropped


def _is_scaled_product(formula: Formula) -> bool:
    """Return True if the weights are no more than the softmax of scaled products, some dropped."""
    return formula.product_scale is not None and formula.dropout.rate < 1


def _row_numbers(batch: Tensor, heads: Tensor, length: Tensor, rows: Tensor) -> Tensor:
    """Return a number for each query of each head at `rows`, int32 `[B, H, C]`, as `[N, H]` counts them."""
    tokens = (ops.arange(batch, dtype="int32") * length)[:, None, None] + rows  # [B, 1, C]
    return tokens * heads + ops.arange(heads, dtype="int32")[:, None]

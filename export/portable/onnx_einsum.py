"""Convert TensorFlow's Einsum of two tensors to a matrix product of ONNX, right for sizes of 0, too.

ONNX Runtime's own Einsum ends the process if a tensor holds no numbers (seen in 1.20 to 1.32), and tf2onnx
replaces it by reshapes to "the rest", a size that is unknown there. An equation that is no matrix product is
left to them.
"""

import string
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np


class Product(NamedTuple):
    """The axes of a product of two tensors, a letter each, by the part that they play in it."""

    batch: str
    left: str
    right: str
    summed: str


def einsum(ctx: Any, node: Any, name: str, args: Sequence[Any]) -> None:
    """Replace an Einsum in a graph of tf2onnx; a handler of it."""
    from tf2onnx.onnx_opset import math  # pyright: ignore[reportMissingImports]

    terms, result = _terms(
        node.get_attr_value("equation").decode(), [ctx.get_rank(each) for each in node.input]
    )
    product = _product(terms, result)
    if product is None:
        math.Einsum.version_12(ctx, node)
        return
    shapes, dtypes, outputs = node.output_shapes, node.output_dtypes, list(node.output)
    inputs = list(node.input)
    ctx.remove_node(node.name)
    first = _Operand(ctx, f"{name}_left", inputs[0], terms[0])
    second = _Operand(ctx, f"{name}_right", inputs[1], terms[1])
    merged = (
        first.merged([*product.batch, product.left, product.summed]),
        second.merged([*product.batch, product.summed, product.right]),
    )
    found = ctx.make_node("MatMul", merged, name=f"{name}_product").output[0]
    axes = product.batch + product.left + product.right
    size = {axis: (second if axis in product.right else first).size for axis in axes}
    if len(product.left) != 1 or len(product.right) != 1:
        found = _reshaped(ctx, f"{name}_parts", found, [size[axis](axis) for axis in axes])
    order = [axes.index(axis) for axis in result]
    found = ctx.make_node("Transpose", [found], {"perm": order}, name=f"{name}_order").output[0]
    # A reshape that changes nothing: tf2onnx would move the transpose on, to where ONNX Runtime before 1.32
    # joins it with a product, and then ends the process if the first axis is of size 0.
    _reshaped(
        ctx,
        name,
        found,
        [size[axis](axis) for axis in result],
        outputs=outputs,
        shapes=shapes,
        dtypes=dtypes,
    )


class _Operand:
    """A tensor with a letter for each axis."""

    def __init__(self, ctx: Any, name: str, tensor: str, axes: str) -> None:
        self._ctx, self._name, self._tensor, self._axes = ctx, name, tensor, axes
        self._known = ctx.get_shape(tensor) or [-1] * len(axes)
        self._sizes: dict[str, str] = {}

    def merged(self, groups: Sequence[str]) -> str:
        """Return the tensor with one axis for each group of axes."""
        order = [self._axes.index(axis) for group in groups for axis in group]
        found = self._ctx.make_node(
            "Transpose", [self._tensor], {"perm": order}, name=f"{self._name}_order"
        ).output[0]
        if all(len(group) == 1 for group in groups):
            return found
        return _reshaped(self._ctx, f"{self._name}_merged", found, map(self.size, groups))

    def size(self, axes: str) -> str:
        """Return the product of the sizes of axes, int64 `[1]`."""
        if axes not in self._sizes:
            self._sizes[axes] = self._computed(axes, f"{self._name}_{axes or 'one'}")
        return self._sizes[axes]

    def _computed(self, axes: str, name: str) -> str:
        places = [self._axes.index(axis) for axis in axes]
        known = [self._known[place] for place in places]
        if -1 not in known:
            return _constant(self._ctx, name, [int(np.prod(known, dtype=np.int64))])
        make = self._ctx.make_node
        shape = make("Shape", [self._tensor], name=f"{name}_shape").output[0]
        chosen = _constant(self._ctx, f"{name}_places", places)
        sizes = make("Gather", [shape, chosen], name=f"{name}_sizes").output[0]
        if len(axes) == 1:
            return sizes
        return make("ReduceProd", [sizes], {"keepdims": 1}, name=f"{name}_size").output[0]


def _reshaped(ctx: Any, name: str, tensor: str, sizes: Iterable[str], **options: Any) -> str:
    """Return the name of a tensor reshaped to sizes, the names of int64 `[1]`; 0 is a size."""
    shape = ctx.make_node("Concat", list(sizes), {"axis": 0}, name=f"{name}_shape").output[0]
    return ctx.make_node("Reshape", [tensor, shape], {"allowzero": 1}, name=name, **options).output[0]


def _constant(ctx: Any, name: str, numbers: Sequence[int]) -> str:
    import tf2onnx  # pyright: ignore[reportMissingImports]

    return ctx.make_const(tf2onnx.utils.make_name(name), np.array(numbers, np.int64)).output[0]


def _terms(equation: str, ranks: Sequence[int | None]) -> tuple[list[str], str]:
    """Return the axes of each tensor and of the result, with letters in the place of an only ellipsis."""
    given, _, result = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    hidden = [rank - len(term) + 3 for term, rank in zip(terms, ranks, strict=True) if "..." in term and rank]
    if len(hidden) != 1:
        return terms, result
    letters = "".join([each for each in string.ascii_letters if each not in equation][: hidden[0]])
    return [term.replace("...", letters) for term in terms], result.replace("...", letters)


def _product(terms: Sequence[str], result: str) -> Product | None:
    """Return the axes by their parts, or None if the equation is no matrix product."""
    # A letter that comes twice is a diagonal; axes of two ellipses may be of sizes 1 and more.
    if len(terms) != 2 or any(len(set(term)) != len(term) for term in (*terms, result)):
        return None
    first, second = terms
    shared = [axis for axis in first if axis in second]
    parts = Product(
        batch="".join(axis for axis in shared if axis in result),
        left="".join(axis for axis in first if axis not in second),
        right="".join(axis for axis in second if axis not in first),
        summed="".join(axis for axis in shared if axis not in result),
    )
    kept = set(parts.batch + parts.left + parts.right)
    return parts if kept == set(result) else None

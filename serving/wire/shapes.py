"""The shapes that a signature's inputs take, and the sentence for an array that has another."""

from . import messages_pb2 as pb

Shape = tuple[int | None, ...] | None
"""A size for each axis, None where any size is accepted; None for any number of axes."""


def declared_shape(info: pb.TensorInfo) -> Shape:
    """Return the shape that a signature declares for a tensor; None if it leaves the number of axes open.

    Example:
        >>> dims = [pb.TensorShapeProto.Dim(size=size) for size in (-1, 4)]
        >>> declared_shape(pb.TensorInfo(tensor_shape=pb.TensorShapeProto(dim=dims)))
        (None, 4)
    """
    if not info.HasField("tensor_shape") or info.tensor_shape.unknown_rank:
        return None
    return tuple([None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim])


def takes(declared: Shape, shape: tuple[int, ...]) -> bool:
    """Return True if an array of a shape fits.

    Example:
        >>> takes((None, 4), (2, 4)), takes((None, 4), (2, 3)), takes(None, (2, 3))
        (True, False, True)
    """
    if declared is None:
        return True
    same_rank = len(shape) == len(declared)
    return same_rank and all(want in (None, size) for want, size in zip(declared, shape, strict=True))


def takes_but_for_ones(declared: Shape, shape: tuple[int, ...]) -> bool:
    """Return True if an array fits once axes of size one are added, or removed, at its end.

    It has the same values in the same order: `[n, 1]` for `[n]`, or `[n]` for `[n, 1]`.

    Example:
        >>> takes_but_for_ones((None,), (3, 1)), takes_but_for_ones((None, 1), (3,))
        (True, True)
        >>> takes_but_for_ones((None,), (1, 3)), takes_but_for_ones((None, None), (3,))
        (False, False)
    """
    if declared is None or len(shape) == len(declared):
        return takes(declared, shape)
    common = min(len(shape), len(declared))
    rest = {*shape[common:], *declared[common:]}
    return rest == {1} and takes(declared[:common], shape[:common])


def described(dtype: str, declared: Shape) -> str:
    """Return a type and a shape as messages show them.

    Example:
        >>> described("float32", (None, 4)), described("string", None)
        ('float32 [None, 4]', 'string [...]')
    """
    return f"{dtype} {'[...]' if declared is None else _listed(declared)}"


def misfit(alias: str, shape: tuple[int, ...], dtype: str, declared: Shape) -> str:
    """Return the sentence for an array that does not fit its input.

    Example:
        >>> misfit("x", (2, 1), "float32", (None,))
        "input 'x' has shape [2, 1]. The model wants float32 [None]"
        >>> misfit("x", (4,), "float32", (None, 4))
        "input 'x' has shape [4]. The model wants float32 [None, 4]: pass a list of rows"
    """
    hint = ": pass a list of rows" if len(shape) + 1 == len(declared or ()) else ""
    return f"input {alias!r} has shape {_listed(shape)}. The model wants {described(dtype, declared)}{hint}"


def _listed(sizes: tuple[int | None, ...]) -> str:
    return f"[{', '.join(map(str, sizes))}]"

"""The padding of this project's exports: what lengthens rows without changing their answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...wire import messages_pb2 as pb

# As the card has it, since JSON has no NaN.
_VALUES: Mapping[str, float | bytes] = {"NaN": float("nan"), "": b""}


@dataclass(frozen=True)
class RowPadding:
    """A value that lengthens the second axis of rows without changing their answers.

    Attributes:
        values: the value of padding, by input tensor; rows of other inputs stay as they are.
        lengthened: output tensors whose second axis grows with that of the inputs.
    """

    values: Mapping[str, float | bytes] = field(default_factory=dict[str, float | bytes])
    lengthened: frozenset[str] = frozenset()


def row_padding(card: Mapping[str, Any] | None, signatures: Mapping[str, pb.SignatureDef]) -> RowPadding:
    """Return the padding that a model card names.

    Args:
        card: the card; cards of earlier versions name none.
        signatures: those of the graph, by name.

    Example:

        >>> row_padding(None, {})
        RowPadding(values={}, lengthened=frozenset())
    """
    values: dict[str, float | bytes] = {}
    lengthened: set[str] = set()
    for name, signature in signatures.items():
        described = _inputs(card, name)
        known = {each: described[each] for each in signature.inputs.keys() & described.keys()}
        values |= {signature.inputs[each].name: value for each, value in known.items()}
        if known:
            lengthened |= {info.name for info in signature.outputs.values() if _grows(info)}
    return RowPadding(values, frozenset(lengthened))


def _inputs(card: Mapping[str, Any] | None, signature: str) -> dict[str, float | bytes]:
    """Return the padding of a signature's inputs; empty for a card, or a part of one, of another shape."""
    described: Any = card
    for key in ("signatures", signature, "inputs"):
        described = described.get(key) if isinstance(described, Mapping) else None
    if not isinstance(described, Mapping):
        return {}
    found = {name: each.get("padding") for name, each in described.items() if isinstance(each, Mapping)}
    return {
        name: _VALUES[value] for name, value in found.items() if isinstance(value, str) and value in _VALUES
    }


def _grows(info: pb.TensorInfo) -> bool:
    """Return True for `[rows, length, ...]` with no other axis of unknown size."""
    sizes = [dim.size for dim in info.tensor_shape.dim]
    return sizes[:2] == [-1, -1] and -1 not in sizes[2:]

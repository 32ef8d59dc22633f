"""The CPU operations of a TensorFlow version and their types, as text with one operation on each line.

It is also a program: run by the Python of the oldest supported TensorFlow, it writes the table beside it,
`tensorflow-2.16.txt`:

    python -P export/kernels.py > export/tensorflow-2.16.txt

A line holds the operation's name, its attributes, and after each bar the types that one kernel takes:
`Cumsum T,Tidx,exclusive,reverse | T=float Tidx=int32,int64 | ...`. Types that only one attribute restricts
are joined to one kernel.
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Constraints = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Operation:
    """An operation of a TensorFlow version.

    Args:
        attributes: names.
        kernels: for each kernel on a CPU the types it takes, by attribute.
    """

    attributes: frozenset[str]
    kernels: tuple[Constraints, ...]

    def takes(self, types: Mapping[str, str]) -> bool:
        """Return True if a kernel takes the types of a node."""
        return any(all(types.get(name) in allowed for name, allowed in k.items()) for k in self.kernels)


def read(text: str) -> dict[str, Operation]:
    """Return the operations of a table."""
    return dict(_read_line(line) for line in text.splitlines() if line and not line.startswith("#"))


def _read_line(line: str) -> tuple[str, Operation]:
    head, *kernels = line.split(" |")
    name, _, attributes = head.partition(" ")
    found = tuple(
        {
            key: frozenset(types.split(","))
            for key, _, types in (part.partition("=") for part in kernel.split())
        }
        for kernel in kernels
    )
    return name, Operation(frozenset(attributes.split(",")) - {""}, found)


def type_name(number: int) -> str:
    """Return TensorFlow's name of a type, such as "float" for 1 (tensorflow/core/framework/types.proto)."""
    from tensorflow.core.framework import types_pb2

    types: Any = types_pb2
    return types.DataType.Name(number).removeprefix("DT_").lower()


def registered() -> dict[str, Operation]:
    """Return the operations of the TensorFlow of this process that have a kernel on a CPU."""
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session
    from tensorflow.python.framework import kernels

    messages: Any = op_def_pb2
    definitions = messages.OpList.FromString(
        pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
    )
    attributes = {op.name: frozenset(attribute.name for attribute in op.attr) for op in definitions.op}
    found: dict[str, list[Constraints]] = {}
    for kernel in kernels.get_all_registered_kernels().kernel:
        if kernel.device_type in ("CPU", "DEFAULT") and not kernel.label and kernel.op in attributes:
            constraints = {
                each.name: frozenset(type_name(number) for number in each.allowed_values.list.type)
                for each in kernel.constraint
                if each.allowed_values.list.type  # the others are of numbers and flags
            }
            found.setdefault(kernel.op, []).append(constraints)
    return {name: Operation(attributes[name], tuple(_joined(found[name]))) for name in sorted(found)}


def _joined(kernels: list[Constraints]) -> list[Constraints]:
    """Join kernels that differ in the types of one attribute."""
    joined = list(dict.fromkeys(tuple(sorted((name, types) for name, types in k.items())) for k in kernels))
    for place in range(max(map(len, joined), default=0)):
        groups: dict[tuple, frozenset[str]] = {}
        for kernel in joined:
            if len(kernel) <= place:
                key, types = (kernel, None), frozenset()
            else:
                name, types = kernel[place]
                key = (kernel[:place] + kernel[place + 1 :], name)
            groups[key] = groups.get(key, frozenset()) | types
        joined = [
            rest if name is None else (*rest[:place], (name, types), *rest[place:])
            for (rest, name), types in groups.items()
        ]
    return sorted((dict(kernel) for kernel in joined), key=shown)


def shown(kernel: Constraints) -> str:
    """Return a kernel's types as the table has them."""
    return " ".join(f"{name}={','.join(sorted(types))}" for name, types in sorted(kernel.items()))


def lines(operations: Mapping[str, Operation]) -> Iterable[str]:
    """Return the lines of the table."""
    for name, operation in operations.items():
        head = f"{name} {','.join(sorted(operation.attributes))}".rstrip()
        yield "".join([head, *(f" | {shown(kernel)}".rstrip() for kernel in operation.kernels)])


if __name__ == "__main__":
    import tensorflow

    print(
        f"# Operations with a kernel on a CPU in TensorFlow {tensorflow.__version__}; kernels.py made this."
    )
    sys.stdout.writelines(f"{line}\n" for line in lines(registered()))

"""The version of a model that a request is for."""

# Not all callers have a type checker.
# pyright: reportUnnecessaryIsInstance=false

from dataclasses import dataclass

import numpy as np

from ..errors import InvalidInputError
from ..wire import messages_pb2 as pb


@dataclass(frozen=True)
class VersionSelector:
    """The requested version of a model: by number, by label, or the latest.

    Args:
        version: a version's number, or None.
        label: a version's label, such as "stable", or None.

    Raises:
        InvalidInputError: both are given, or one is of the wrong type.
    """

    version: int | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        version, label = self.version, self.label
        if version is not None and (isinstance(version, bool) or not isinstance(version, int | np.integer)):
            raise InvalidInputError(f"version must be an integer, or None: the latest. Received {version!r}")
        if version is not None and not 0 <= version < 2**63:
            raise InvalidInputError(f"version must be at least 0 and fit 64 bits. Received {version}")
        if label is not None and not is_name(label):
            raise InvalidInputError(f"label must be a version's label, or None. Received {label!r}")
        if version is not None and label is not None:
            raise InvalidInputError(f"give version or label, not both. Received {version} and {label!r}")

    def spec(self, model: str, signature: str = "") -> pb.ModelSpec:
        """The ModelSpec that requests it."""
        spec = pb.ModelSpec(name=model, signature_name=signature, version_label=self.label)
        if self.version is not None:
            spec.version.value = int(self.version)
        return spec


def is_name(value: object) -> bool:
    """Return whether a value is a str that a request can hold, and not empty."""
    if not isinstance(value, str) or not value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True

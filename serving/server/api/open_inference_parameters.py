"""Parameters of the Open Inference Protocol's requests and tensors.

Reference: docs/protocol/extension_parameters.md of triton-inference-server/server.
"""

import time
from collections.abc import Mapping
from typing import Any

from ... import errors
from ...wire import messages_pb2 as pb

SIGNATURE_NAME = "signature_name"
"""The parameter of a request that names a signature."""

CONTENT_TYPE = "content_type"
"""The parameter of an input in which MLServer's clients name the form of its values."""

BASE64 = "base64"
"""The content type of BYTES that are text in base64. Values of all other types are as they are."""

_MOST_VERSION = 2**63 - 1
_MOST_TIMEOUT = 2**64 - 1
# Parameters of Triton's own, of requests and of tensors, without which the answer would be another one.
_SEQUENCE_PARAMETERS = ("sequence_id", "sequence_start", "sequence_end")
_TENSOR_PARAMETERS = ("shared_memory_region", "classification")


def model_spec_of(name: str, version: str, parameters: Mapping[str, Any] | None = None) -> pb.ModelSpec:
    """Return the model, the version and the signature that a request names.

    Args:
        name: the model's.
        version: a number or a label; empty for the latest.
        parameters: of the request.

    Raises:
        InvalidArgumentError: the version is too large, or the signature's name is not a string.
        UnimplementedError: a parameter asks for what models here do not have.

    Example:
        >>> model_spec_of("half", "3").version.value
        3
    """
    parameters = parameters or {}
    for each in _SEQUENCE_PARAMETERS:
        if parameters.get(each):
            raise errors.UnimplementedError(
                f"the parameter {each} is for models with state between requests, which this server does not "
                "support"
            )
    signature = parameters.get(SIGNATURE_NAME, "")
    if not isinstance(signature, str):
        raise errors.InvalidArgumentError(
            f"the parameter {SIGNATURE_NAME} must be a string. Received {signature!r:.40}"
        )
    spec = pb.ModelSpec(name=name, signature_name=signature)
    if version.isascii() and version.isdigit():
        if len(version) > len(str(_MOST_VERSION)) or int(version) > _MOST_VERSION:
            raise errors.InvalidArgumentError(
                f"the version must be at most {_MOST_VERSION}. Received {version[:40]}"
            )
        spec.version.value = int(version)
    elif version:
        spec.version_label = version
    return spec


def request_deadline(deadline: float | None, parameters: Mapping[str, Any]) -> float | None:
    """Return the earlier of a deadline and the end of the parameter `timeout`, in microseconds; 0 is none.

    Raises:
        InvalidArgumentError: `timeout` is not a whole number, negative or too large.
    """
    timeout = parameters.get("timeout", 0)
    if type(timeout) is not int or not 0 <= timeout <= _MOST_TIMEOUT:
        raise errors.InvalidArgumentError(
            f"the parameter timeout must be microseconds, a whole number from 0. Received {timeout!s:.40}"
        )
    if not timeout:
        return deadline
    ends = time.monotonic() + timeout / 1e6
    return ends if deadline is None else min(deadline, ends)


def check_tensor_parameters(name: str, parameters: Mapping[str, Any]) -> None:
    """Raise UnimplementedError for a tensor's parameters that are extensions of Triton's own."""
    for each in _TENSOR_PARAMETERS:
        if each in parameters:
            raise errors.UnimplementedError(
                f"{name}: the parameter {each} is an extension of Triton's, which this server does not "
                "support"
            )

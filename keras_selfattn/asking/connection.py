"""The client that a command's options ask for, with its TLS and headers; and a signature of its model."""

from collections.abc import Mapping
from typing import Any

from keras_selfattn.serving.client import TLS, Client, Label, ModelMetadata, Signature
from keras_selfattn.serving.errors import FailedPreconditionError, InvalidInputError


def connected(model: str, options: Mapping[str, Any], **settings: Any) -> Client:
    """Return a client with the options of the command line."""
    secure = {name: options[name] for name in ("ca", "certificate", "key", "server_name")}
    tls = TLS(**secure) if options["tls"] or any(secure.values()) else None
    return Client(
        options["target"],
        model,
        timeout=options["timeout"],
        tls=tls,
        insecure=options["insecure"],
        metadata=options["header"] or None,
        wait_for_ready=options["wait_for_ready"],
        **settings,
    )


def version_of(options: Mapping[str, Any]) -> int | Label | None:
    """Return the version that the options ask for: by number, by label, or the latest.

    Raises:
        InvalidInputError: for both, or an empty label.

    Example:

        >>> version_of({"version": None, "label": "stable"})
        Label(name='stable')
    """
    version, label = options["version"], options["label"]
    if label is None:
        return version
    if version is not None:
        raise InvalidInputError(f"give version or label, not both. Received {version} and {label!r}")
    return Label(label)


def signature_of(metadata: ModelMetadata, name: str) -> Signature:
    """Return the signature of that name.

    Raises:
        FailedPreconditionError: if the model has none of this name.
    """
    if name in metadata.signatures:
        return metadata.signatures[name]
    raise FailedPreconditionError(f"The model has no signature {name!r}. It is:\n{metadata!r}")

"""The client that a command's options ask for: its target, TLS, token and headers."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from keras_selfattn.serving.client import TLS, Client
from keras_selfattn.serving.errors import InvalidInputError


def headers(values: Iterable[str]) -> dict[str, str]:
    """Return headers, also those in lines of @FILEs, so that secrets need not be in the arguments.

    Raises:
        InvalidInputError: for one that is not "name: value", or a file that cannot be read.

    Example:

        >>> headers(["authorization: Bearer 1", "x-key:2"])
        {'authorization': 'Bearer 1', 'x-key': '2'}
    """
    found: list[str] = []
    for value in values:
        if not value.startswith("@"):
            found.append(value)
            continue
        try:
            found += [line for line in Path(value[1:]).read_text("utf-8").splitlines() if line.strip()]
        except OSError as error:
            raise InvalidInputError(f"{value[1:]} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise InvalidInputError(f"{value[1:]} is not text in UTF-8: {error.reason}.") from error
    pairs = [line.partition(":") for line in found]
    if not all(colon for _, colon, _ in pairs):
        raise InvalidInputError("write it as 'name: value', or as @file with such lines.")
    return {name.strip(): content.strip() for name, _, content in pairs}


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

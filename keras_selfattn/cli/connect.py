"""The options of the commands that ask a server, and the client they make."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from keras_selfattn.serving.client import TLS, Client

_F = TypeVar("_F", bound=Callable[..., Any])

_FILE = click.Path(path_type=Path)


def _header(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    headers = {}
    for value in values:
        name, colon, content = value.partition(":")
        if not colon:
            raise click.BadParameter("write it as 'name: value', or as @file with such lines.")
        headers[name.strip()] = content.strip()
    return headers


def _lines_of_files(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """The headers given, those of files one a line: no secret need stand among a process's arguments."""
    found: list[str] = []
    for value in values:
        if not value.startswith("@"):
            found.append(value)
            continue
        try:
            found += [line for line in Path(value[1:]).read_text().splitlines() if line.strip()]
        except OSError as error:
            raise click.BadParameter(f"{value[1:]} cannot be read: {error.strerror}.") from error
    return _header(context, option, tuple(found))


_OPTIONS = (
    click.option(
        "--target",
        multiple=True,
        default=("localhost:8500",),
        help="host:port of the server, or unix:/path; several spread the calls.",
    ),
    click.option("--timeout", default=10.0, help="Seconds until a call is given up, retries included."),
    click.option(
        "--wait-for-ready",
        is_flag=True,
        help="Let calls wait, within --timeout, for a server that is not there.",
    ),
    click.option("--tls", is_flag=True, help="Encrypt the connection."),
    click.option(
        "--ca", type=_FILE, help="Certificates (PEM) to trust, instead of the public ones; with --tls."
    ),
    click.option("--certificate", type=_FILE, help="Own certificate (PEM), for mutual TLS; with --key."),
    click.option("--key", type=_FILE, help="Its private key (PEM)."),
    click.option("--server-name", help="Name in the server's certificate, where it is not the target's."),
    click.option("--insecure", is_flag=True, help="Send in clear text to another machine."),
    click.option(
        "--header",
        multiple=True,
        callback=_lines_of_files,
        help="Metadata of every call, 'name: value', or @FILE with one a line: a token, for example.",
    ),
)


def connection_options(command: _F) -> _F:
    """Add the options that `connected` takes."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def connected(model: str, options: dict[str, Any], **settings: Any) -> Client:
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

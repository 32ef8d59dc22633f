"""The options of the commands that ask a server, and the client made from them."""

from pathlib import Path
from typing import Any

import click

from keras_selfattn.cli.panels import PATH, Option
from keras_selfattn.serving.client import TLS, Client


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
    """Return the headers, also those in lines of @FILEs, so that secrets need not be in the arguments."""
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


CONNECTION_PANELS = {
    "Connection": (
        Option(
            "--target",
            multiple=True,
            default=("localhost:8500",),
            metavar="HOST:PORT",
            help="The server, or unix:/path. Given again, the calls are spread over all of them.",
        ),
        Option(
            "--timeout", default=10.0, metavar="SECONDS", help="Time until a call is given up, with retries."
        ),
        Option(
            "--wait-for-ready",
            is_flag=True,
            help="Wait, within --timeout, for a server that is not there yet.",
        ),
        Option(
            "--header",
            multiple=True,
            callback=_lines_of_files,
            metavar="'NAME: VALUE'",
            help="Metadata of every call, such as a token, or @FILE with such lines; may be given again.",
        ),
        Option("--insecure", is_flag=True, help="Send unencrypted calls to another machine."),
    ),
    "Encryption": (
        Option("--tls", is_flag=True, help="Encrypt the connection."),
        Option("--ca", type=PATH, help="Certificates to trust (PEM).", without="the public ones"),
        Option("--certificate", type=PATH, help="Own certificate (PEM), for mutual TLS."),
        Option("--key", type=PATH, help="Private key of --certificate (PEM)."),
        Option(
            "--server-name", metavar="NAME", help="Name in the server's certificate.", without="the target's"
        ),
    ),
}
"""The options that `connected` takes."""


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

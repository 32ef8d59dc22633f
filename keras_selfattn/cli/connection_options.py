"""The options of the commands that ask a server."""

import click

from keras_selfattn.asking.connected_client import headers
from keras_selfattn.cli.panels import PATH, Option
from keras_selfattn.serving.errors import InvalidInputError


def _headers(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    try:
        return headers(values)
    except InvalidInputError as error:
        raise click.BadParameter(str(error)) from error


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
            callback=_headers,
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
"""The options that `asking.connected_client.connected` takes."""

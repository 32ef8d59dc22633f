"""`keras-selfattn serve`: TensorFlow Serving's API for SavedModels, with TensorFlow Serving's flags."""

import logging
import sys
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from keras_selfattn.cli.console import console, import_tensorflow, print_command
from keras_selfattn.cli.serve_flags import WITHOUT_EFFECT, options
from keras_selfattn.serving.errors import ServingError
from keras_selfattn.serving.server.config import SETTINGS

if TYPE_CHECKING:
    from keras_selfattn.serving.server import Server

_FAILED_TO_START = 255  # as TensorFlow Serving's binary


class _Serve(click.Command):
    """Prints its many options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = {parameter.name: parameter.get_help_record(ctx) for parameter in self.params}
        for group, members in groupby(SETTINGS.items(), key=lambda item: item[1].group):
            with formatter.section(group):
                formatter.write_dl([record for name, _ in members if (record := records.pop(name))])
        with formatter.section("Others"):
            formatter.write_dl([record for record in records.values() if record])
        with formatter.section("Accepted, without effect here"):
            formatter.write_dl([(f"--{name}", why) for name, why in WITHOUT_EFFECT.items()])


@click.command("serve", cls=_Serve, params=options())
def command(version: bool, structured_logs: bool, **settings: Any) -> None:
    """Serve models over TensorFlow Serving's gRPC and REST APIs. A new version takes over once it is loaded.

    Flags are TensorFlow Serving's and mean what they mean there; --help lists what differs.
    """
    if version:
        _print_version()
        return
    ignored = [name for name in WITHOUT_EFFECT if settings.pop(name) is not None]
    import_tensorflow()
    from keras_selfattn.serving.server import ServerConfig, serve_forever

    _log_to_stderr(structured_logs)
    for name in ignored:
        logging.getLogger("keras_selfattn.serving").warning(
            "--%s has no effect here: %s", name, WITHOUT_EFFECT[name]
        )
    config = ServerConfig(**settings)
    try:
        status = serve_forever(config, on_ready=_announce)
    except ServingError as error:
        _explain(error)
        sys.exit(_FAILED_TO_START)
    sys.exit(status)


def _print_version() -> None:
    from importlib.metadata import version

    console.print(f"keras-selfattn ModelServer: {version('keras-selfattn')}", highlight=False)
    console.print(f"TensorFlow Library: {version('tensorflow')}", highlight=False)


def _log_to_stderr(structured: bool) -> None:
    """What loads, takes over, leaves and ends is worth a line each."""
    from keras_selfattn.serving.server.structured_logs import JsonFormatter

    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if structured else logging.Formatter("%(asctime)s %(message)s"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("keras_selfattn.serving").setLevel(logging.INFO)


def _explain(error: ServingError) -> None:
    cause = getattr(error, "cause", "")
    message = f"Failed to start server. Error: {error.code.name}: {error}"
    click.echo(f"{message}: {cause}" if cause else message, err=True)
    if not sys.stdout.isatty():
        # Where TensorFlow Serving says it; who sits at a terminal need not read it twice.
        click.echo(message)


def _announce(server: "Server") -> None:
    from keras_selfattn.serving.server.listening import is_loopback

    models = server.models.available()
    for name, versions in models.items():
        listed = ", ".join(map(str, versions)) or "none yet"
        rest = f" and {server.rest_url}/v1/models/{name} (REST)" if server.rest_url else ""
        console.print(
            f"Serving {name!r} at {server.target} (gRPC){rest}, versions: {listed}.",
            highlight=False,
            soft_wrap=True,
        )
    if is_loopback(server.config.grpc_host):
        console.print(
            "Only this machine reaches it; --host=0.0.0.0 opens it to all, as TensorFlow Serving is."
        )
    if models:
        console.print("Ctrl-C stops it. Ask it with:")
        print_command("query", next(iter(models)), "some text", "--target", server.target)

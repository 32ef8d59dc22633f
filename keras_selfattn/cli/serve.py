"""`keras-selfattn serve`: TensorFlow Serving's API for SavedModels, with TensorFlow Serving's flags."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_selfattn.cli.console import console, print_command, starting_tensorflow
from keras_selfattn.cli.first_question import first_question
from keras_selfattn.cli.serve_flags import WITHOUT_EFFECT, options
from keras_selfattn.serving.errors import ServingError
from keras_selfattn.serving.server.config import SETTINGS
from keras_selfattn.serving.server.runtime.lean_tensorflow import import_runtime

if TYPE_CHECKING:
    from keras_selfattn.serving.server.until_stopped import Serving

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
    from keras_selfattn.serving.server import ServerConfig, serve_forever

    if settings["workers"] == 1:
        with starting_tensorflow():
            import_runtime()
    _log_to_stderr(structured_logs)
    for name in ignored:
        logging.getLogger("keras_selfattn.serving").warning(
            "--%s has no effect here: %s", name, WITHOUT_EFFECT[name]
        )
    config = ServerConfig(**settings)
    try:
        status = serve_forever(
            config, on_ready=_announce, worker_setup=partial(_set_up_worker, structured_logs)
        )
    except ServingError as error:
        _explain(error)
        status = _FAILED_TO_START
    _give_up_unwritten()
    sys.exit(status)


def _print_version() -> None:
    from importlib.metadata import version

    console.print(f"keras-selfattn ModelServer: {version('keras-selfattn')}", highlight=False)
    console.print(f"TensorFlow Library: {version('tensorflow')}", highlight=False)


def _set_up_worker(structured: bool, number: int) -> None:
    """Set a worker up."""
    _log_to_stderr(structured, number)
    with starting_tensorflow():
        import_runtime()


def _log_to_stderr(structured: bool, worker: int = 0) -> None:
    """Log what loads, takes over, leaves and ends, a line each."""
    from keras_selfattn.serving.server.runtime.structured_logs import JsonFormatter

    handler = logging.StreamHandler()
    if structured:
        handler.setFormatter(JsonFormatter(worker=worker) if worker else JsonFormatter())
    else:
        who = f"worker {worker}: " if worker else ""
        handler.setFormatter(logging.Formatter(f"%(asctime)s {who}%(message)s"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("keras_selfattn.serving").setLevel(logging.INFO)


@contextmanager
def _read_or_not() -> Iterator[None]:
    """Let what is printed get lost: a full disk, or a reader that has gone, is no reason not to serve."""
    try:
        yield
    except (OSError, SystemExit):  # the latter is what rich makes of a closed pipe
        logging.getLogger("keras_selfattn.serving").info("standard output cannot be written to")


def _give_up_unwritten() -> None:
    """Drop what is left in the outputs, for which Python would end with a status of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@_read_or_not()
def _explain(error: ServingError) -> None:
    cause = getattr(error, "cause", "")
    message = f"Failed to start server. Error: {error.code.name}: {error}"
    click.echo(f"{message}: {cause}" if cause else message, err=True)
    if not sys.stdout.isatty():
        # Where TensorFlow Serving says it; who sits at a terminal need not read it twice.
        click.echo(message)


@_read_or_not()
def _announce(server: "Serving") -> None:
    from keras_selfattn.serving.server.runtime.listening import is_loopback

    models = server.available()
    for name, versions in models.items():
        listed = ", ".join(map(str, versions)) or "none yet"
        rest = f" and {server.rest_url}/v1/models/{name} (REST)" if server.rest_url else ""
        console.print(
            f"Serving {name!r} at {server.target} (gRPC){rest}, versions: {listed}.",
            highlight=False,
            soft_wrap=True,
        )
    config = server.config
    if str(config.grpc_socket_path):
        console.print(f"Also at unix:{os.path.abspath(config.grpc_socket_path)} (gRPC).", soft_wrap=True)
    if is_loopback(config.grpc_host):
        words = "Only this machine reaches it; --host=0.0.0.0 opens it to all, as TensorFlow Serving is."
    else:
        words = f"It listens on {config.grpc_host} (gRPC): whoever reaches this machine there reaches it."
    console.print(words, highlight=False, soft_wrap=True)
    if models:
        console.print("Ctrl-C stops it. Ask it with:")
        encryption = ("--tls", "--ca", "authority.pem") if str(config.ssl_config_file) else ()
        name, versions = next(iter(models.items()))
        folder = Path(str(config.model_base_path), str(max(versions, default=0)))
        print_command(*first_question(name, folder), "--target", server.target, *encryption)

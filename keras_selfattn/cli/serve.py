"""`keras-selfattn serve`: TensorFlow Serving's gRPC API for the latest version of a model."""

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keras_selfattn.cli.console import console, import_tensorflow, print_command

if TYPE_CHECKING:
    from keras_selfattn.serving.server import Server


@click.command("serve")
@click.option("--model_name", default="default", help="Name that clients ask for.")
@click.option(
    "--model_base_path",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder with one numbered folder a version.",
)
@click.option("--port", default=8500, help="gRPC port; 0 takes a free one.")
@click.option(
    "--host", default="127.0.0.1", help="Address to listen on; 0.0.0.0 opens the server to the network."
)
@click.option(
    "--file_system_poll_wait_seconds", default=1.0, help="Seconds between two looks for a new version."
)
@click.option(
    "--shutdown_grace_seconds",
    default=30.0,
    help="Seconds that running requests have after SIGTERM or Ctrl-C.",
)
def command(
    model_name: str,
    model_base_path: Path,
    port: int,
    host: str,
    file_system_poll_wait_seconds: float,
    shutdown_grace_seconds: float,
) -> None:
    """Serve the latest version under a base path. A new version takes over once it is loaded."""
    import_tensorflow()
    from keras_selfattn.serving.server import ServerConfig, serve_forever

    # What loads, takes over, leaves and ends is worth a line each.
    logging.basicConfig(format="%(asctime)s %(message)s")
    logging.getLogger("keras_selfattn.serving").setLevel(logging.INFO)
    config = ServerConfig(
        model_name=model_name,
        model_base_path=str(model_base_path.resolve()),
        host=host,
        port=port,
        file_system_poll_wait_seconds=file_system_poll_wait_seconds,
        shutdown_grace_seconds=shutdown_grace_seconds,
    )
    sys.exit(serve_forever(config, on_ready=lambda server: _announce(server, model_name)))


def _announce(server: "Server", model_name: str) -> None:
    console.print(f"Serving {model_name!r} at {server.target} (gRPC). Ctrl-C stops it. Ask it with:")
    print_command("query", model_name, "some text", "--target", server.target)

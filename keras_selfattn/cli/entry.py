"""The `keras-selfattn` command's entry point. A client-only install has it too, and prints what it lacks."""

import os
import sys


def main() -> None:
    """Run the command, or exit with a message that names a missing package."""
    # gRPC reads this variable when it is imported. By default it logs each connection that fails: ten lines
    # for one refused certificate, and in a server's log as many as strangers like.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        from keras_selfattn.cli.main import main as run
    except ModuleNotFoundError as error:
        sys.exit(
            f"The keras-selfattn command needs {error.name}, which an install of the client alone lacks.\n"
            "Install all of it, without --no-deps; or ask from Python, with keras_selfattn.serving.client."
        )
    run()

"""The `keras-selfattn` command's entry point: an install of the client alone has it too, and can say what it
lacks."""

import os
import sys


def main() -> None:
    """Run the command, or say what it needs."""
    # gRPC reads it when it is imported. Else its core logs each connection that does not come to terms: ten
    # lines for one refused certificate, and as many as strangers like in the log of a server.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        from keras_selfattn.cli.main import main as run
    except ModuleNotFoundError as error:
        sys.exit(
            f"The keras-selfattn command needs {error.name}, which an install of the client alone lacks.\n"
            "Install all of it, without --no-deps; or ask from Python, with keras_selfattn.serving.client."
        )
    run()

"""Where the `keras-selfattn` command begins: an install of the client alone has it too, and can say what it
lacks."""

import sys


def main() -> None:
    """Runs the command, or says what it needs."""
    try:
        from keras_selfattn.cli.main import main as run
    except ModuleNotFoundError as error:
        sys.exit(
            f"The keras-selfattn command needs {error.name}, which an install of the client alone lacks.\n"
            "Install all of it, without --no-deps; or ask from Python, with keras_selfattn.serving.client."
        )
    run()

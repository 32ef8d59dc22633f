"""The `keras-selfattn` command's entry point. A base install has it too, and says which extra it lacks."""

import os
import sys

from keras_selfattn.errors import MissingExtraError
from keras_selfattn.extras import EXTRA_OF_COMMAND, extras_of, install, misfit_error

_INTERRUPTED = 130  # as a shell says of a command that Ctrl-C ended


def main() -> None:
    """Run the command, or exit with a message that names a missing package and the extra that brings it."""
    # gRPC reads this variable when it is imported. By default it logs each connection that fails: ten lines
    # for one refused certificate, and in a server's log as many as strangers like.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        from keras_selfattn.cli.main import main as run
    except (ModuleNotFoundError, MissingExtraError) as error:
        if error.name not in ("click", "rich", "grpc") and not isinstance(error, MissingExtraError):
            explained = misfit_error(error, extras_of(_command(sys.argv[1:]) or ""), "The command")
            if explained is None:
                raise
            sys.exit(f"Error: {explained}")
        sys.exit(f"Error: {_without_extra(sys.argv[1:])}")
    except Exception as error:
        command = _command(sys.argv[1:]) or ""
        explained = misfit_error(error, extras_of(command), "The command")
        if explained is None:
            raise
        sys.exit(f"Error: {explained}")
    except KeyboardInterrupt:  # the imports take a second; from then on the commands answer it themselves
        print("Interrupted.", file=sys.stderr)
        sys.exit(_INTERRUPTED)
    run()


def _command(arguments: list[str]) -> str | None:
    return next((word for word in arguments if not word.startswith("-")), None)


def _without_extra(arguments: list[str]) -> str:
    command = _command(arguments)
    if command is None:
        return f"keras-selfattn is installed for the layers alone. Its commands need {install('all')}"
    extra = EXTRA_OF_COMMAND.get(command, "train")
    return f"keras-selfattn is installed for the layers alone. `{command}` needs {install(extra)}"

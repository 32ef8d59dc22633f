"""Exit statuses of a command, for scripts: the one table of errors and their statuses."""

import os
import sys
from contextlib import suppress

import grpc

from keras_selfattn.serving.errors import ERROR_OF_CODE, InvalidInputError, ServingError

FAILED = 1
REFUSED = 2  # click's own for a wrong option
NOT_FOUND = 3
NOT_NOW = 4
NOT_ALLOWED = 5
SOME_ROWS = 6  # of `predict`: written, but some rows have no answer

_OF_CODE = {
    grpc.StatusCode.NOT_FOUND: NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION: NOT_FOUND,
    grpc.StatusCode.UNAVAILABLE: NOT_NOW,
    grpc.StatusCode.DEADLINE_EXCEEDED: NOT_NOW,
    grpc.StatusCode.RESOURCE_EXHAUSTED: NOT_NOW,
    grpc.StatusCode.ABORTED: NOT_NOW,
    grpc.StatusCode.UNAUTHENTICATED: NOT_ALLOWED,
    grpc.StatusCode.PERMISSION_DENIED: NOT_ALLOWED,
}


def exit_status(error: Exception) -> int:
    """Return the exit status of a command that ended with this error.

    Example:
        >>> exit_status(InvalidInputError("timeout must be positive"))
        2
    """
    if isinstance(error, InvalidInputError):
        return REFUSED
    # The error of a server that cannot start has a code, too, but is not a server's answer.
    if isinstance(error, ServingError) and type(error) is ERROR_OF_CODE.get(error.code):
        return _OF_CODE.get(error.code, FAILED)
    return FAILED


def output_failed(error: OSError) -> int:
    """Print why standard output takes no more, unless its reader has gone, and return the exit status."""
    if not isinstance(error, BrokenPipeError):
        print(f"Error: {error}", file=sys.stderr)
    with suppress(OSError):  # one without a file descriptor
        # Python would try to write the rest at its end, and print a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED

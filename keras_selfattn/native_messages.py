"""Suppress messages of native code on standard error while it starts."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_back_stderr() -> Iterator[None]:
    """Suppress native code's output to standard error; on an exception, write it after all.

    The messages come from C++ before any log level applies, so the file descriptor is redirected.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except Exception:
            held.seek(0)
            os.write(saved, held.read())
            raise
        finally:
            os.dup2(saved, 2)
            os.close(saved)

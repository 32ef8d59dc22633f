"""Messages of native code on standard error while it starts, kept from the user."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_back_stderr() -> Iterator[None]:
    """Hold back what native code writes to standard error; on an exception it is written after all.

    The messages come from C++ before any log level applies, so the file descriptor is what can be turned.
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

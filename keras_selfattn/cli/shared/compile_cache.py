"""A folder where JAX keeps what it has compiled, for the next command with the same shapes."""

import hashlib
import importlib.util
import os
import platform
from contextlib import suppress
from pathlib import Path

_CACHE = "~/.cache/keras-selfattn/jax"
_FOLDER = "JAX_COMPILATION_CACHE_DIR"
_MOST_BYTES = 2**30


def use_compile_cache() -> None:
    """Let JAX, not imported yet, keep compiled functions, unless the environment has a say in it.

    On two cores half of a short training is compiling. JAX needs `filelock` to bound the folder; without it,
    or where the folder cannot be written, nothing is kept.
    """
    if _FOLDER in os.environ or importlib.util.find_spec("filelock") is None:
        return
    with suppress(OSError, RuntimeError):  # no home, or none to write in
        folder = Path(_CACHE).expanduser() / _processor()
        folder.mkdir(parents=True, exist_ok=True)
        # With the lock of another user, such as root once, JAX would warn with each function.
        if all(os.access(path, os.R_OK | os.W_OK) for path in (folder, *folder.glob(".lockfile"))):
            os.environ[_FOLDER] = str(folder)
            os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(_MOST_BYTES))


def _processor() -> str:
    """Return a name for this machine's processor: JAX's key of a function leaves it out.

    Machines of a cluster that share a home can differ, and what one compiled may not run on the other.
    """
    told = [platform.machine(), platform.processor()]
    with suppress(OSError):  # not on Linux
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        told += sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]

"""Keras' backend and TensorFlow, chosen and imported without their messages; JAX keeps what it compiles."""

import gc
import hashlib
import importlib
import importlib.util
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any

from keras_selfattn.cli.shared.console import console
from keras_selfattn.errors import ConfigError
from keras_selfattn.extras import require

# Backends of Keras, and the variable that chooses one.
_BACKENDS = ("tensorflow", "jax", "torch")
BACKEND_VARIABLE = "KERAS_BACKEND"
"""The environment's name of Keras' backend."""
# Packages that TensorFlow and Keras import where they are installed, for parts that no command uses, such as
# Keras' wrappers of scikit-learn and TensorFlow Lite's conversion from JAX: two fifths of the import's time.
_UNUSED = ("jax", "matplotlib", "pandas", "scipy", "sklearn")
# Of the folder where JAX keeps compiled functions.
_CACHE = "~/.cache/keras-selfattn/jax"
_FOLDER = "JAX_COMPILATION_CACHE_DIR"
_MOST_BYTES = 2**30


def import_tensorflow(*also: str, batches: bool = False) -> None:
    """Import TensorFlow without its start-up messages; if that fails, they are shown.

    Args:
        also: other modules that the command needs and that take long, to import without garbage collection.
        batches: True for a command that computes batches, as in training: oneDNN's kernels are then on unless
            the environment decides.

    Raises:
        ConfigError: if the environment asks for a backend of Keras that is unknown or not installed.
    """
    require("train", "This command", "tensorflow")
    check_backend()
    if batches and platform.machine() in ("x86_64", "AMD64"):
        # TensorFlow leaves them off on processors without AVX-512, where they halve the time of a step and
        # take a quarter off a batch of answers. For single rows they can be slower.
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    with starting_tensorflow(), _no_garbage_collection():
        with _without(_UNUSED if _asked_backend()[1] == "tensorflow" else ()):
            import tensorflow as tf

        for module in also:
            importlib.import_module(module)
        tf.config.list_physical_devices()  # looks for GPUs, and prints a message if there are none
        # A command that trains several models builds new graphs, and TensorFlow would warn of that.
        tf.get_logger().setLevel("ERROR")


@contextmanager
def _without(packages: Sequence[str]) -> Iterator[None]:
    """Let imports in the block find none of the packages, as if they were not installed; later ones do.

    Modules that the block imports stay without them, such as Keras' wrappers of scikit-learn. Other threads
    must not import them meanwhile.
    """
    hidden = [name for name in packages if name not in sys.modules]
    missing: Any = dict.fromkeys(hidden)  # None stands for a module that cannot be imported
    sys.modules.update(missing)
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Collect no garbage in the block, and none later of what it leaves, which imports keep for ever.

    TensorFlow and Keras make a million objects. To look through them takes a fifth of the import's time, and
    again after each few thousand objects of a traced graph.

    Reference: gc.freeze.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.freeze()
            gc.enable()


def check_backend() -> None:
    """Raise ConfigError for a backend that Keras cannot use, before it fails with a traceback.

    JAX then keeps what it compiles.
    """
    place, name = _asked_backend()
    if name not in _BACKENDS:
        raise ConfigError(f"{place} must be one of {', '.join(_BACKENDS)}. Received {name!r}.")
    if importlib.util.find_spec(name) is None:
        raise ConfigError(
            f"{place} is {name!r}, which is not installed. Install it (`pip install {name}`), or set "
            f"{BACKEND_VARIABLE}=tensorflow."
        )
    if name == "jax":
        use_compile_cache()


def _asked_backend() -> tuple[str, Any]:
    """Return the backend that Keras will take, after the place that names it: the environment or a file."""
    if name := os.environ.get(BACKEND_VARIABLE):
        return BACKEND_VARIABLE, name
    file = Path(os.environ.get("KERAS_HOME") or os.path.expanduser("~/.keras"), "keras.json")
    name: Any = _BACKENDS[0]
    with suppress(OSError, ValueError):  # Keras then goes by its default
        name = json.loads(file.read_text(encoding="utf-8")).get("backend", name)
    return f"`backend` in {file}", name


def use_tensorflow() -> None:
    """Let Keras compute with TensorFlow in this process, whatever the environment asks for.

    A SavedModel needs it; a `.keras` file of another backend loads there. Keras must not be imported yet.
    """
    os.environ[BACKEND_VARIABLE] = _BACKENDS[0]


@contextmanager
def starting_tensorflow() -> Iterator[None]:
    """Show a status while the block imports TensorFlow; hold its messages back unless the import fails."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # Without a terminal there is no status: even an empty one is a write, which fails on a full device.
    waiting = console.status("Starting TensorFlow") if console.is_terminal else nullcontext()
    with waiting, held_back_stderr():
        yield


@contextmanager
def held_back_stderr() -> Iterator[None]:
    """Suppress native code's output to standard error; on an exception, write it after all.

    The messages come from C++ before any log level applies, so the file descriptor is redirected.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    with _file_without_name() as held:
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


def _file_without_name() -> IO[bytes]:
    if hasattr(os, "memfd_create"):  # no disk: a container's may be read-only
        return os.fdopen(os.memfd_create("stderr"), "w+b")
    return tempfile.TemporaryFile()


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

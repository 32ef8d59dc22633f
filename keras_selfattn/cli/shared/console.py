"""The console of all subcommands, and the import of TensorFlow and Keras' backend without their messages."""

import gc
import importlib
import importlib.util
import json
import os
import platform
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

from rich.console import Console
from rich.table import Table

from keras_selfattn.cli.shared.compile_cache import use_compile_cache
from keras_selfattn.errors import ConfigError
from keras_selfattn.extras import require
from keras_selfattn.files.atomic import check_writable, is_stream

# Backends of Keras, and the variable that chooses one.
_BACKENDS = ("tensorflow", "jax", "torch")
BACKEND_VARIABLE = "KERAS_BACKEND"
"""The environment's name of Keras' backend."""
# Packages that TensorFlow and Keras import where they are installed, for parts that no command uses, such as
# Keras' wrappers of scikit-learn and TensorFlow Lite's conversion from JAX: two fifths of the import's time.
_UNUSED = ("jax", "matplotlib", "pandas", "scipy", "sklearn")


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


# No markup: the output holds users' texts and labels, in which "[red]" is not a colour.
console = Console(markup=False, emoji=False)
# For output beside the result, such as a progress bar while the rows go into a pipe.
error_console = Console(markup=False, emoji=False, stderr=True)


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


def program() -> str:
    """Return the command that calls this program: its name, or its relative path if it is not on the PATH."""
    name = "keras-selfattn"
    if shutil.which(name) or Path(sys.argv[0]).name != name:
        return name
    return os.path.relpath(sys.argv[0])


def print_command(*words: object) -> None:
    """Print a command to paste, on one line however long."""
    quoted = " ".join(shlex.quote(str(word)) for word in words)
    console.print(f"  {program()} {quoted}", soft_wrap=True, highlight=False)


def can_plot() -> bool:
    """Return True if matplotlib is installed, which draws the figures of a run as PNG."""
    return importlib.util.find_spec("matplotlib") is not None


def report_in_words(run: Path) -> str:
    """Return the sentence, after a blank, that names the report of a run; "" if it could not be written."""
    report = run / "report.html"
    return f" Look at {report} in a browser." if report.is_file() else ""


def check_page_file(flag: str, file: Path) -> None:
    """Raise ConfigError if a page could not be written to a file, or would replace another kind of file."""
    try:
        if file.is_dir():
            raise ConfigError(f"{flag} must be a file. Received {str(file)!r}, a folder.")
        if file.exists() and is_stream(file):
            return
        if file.suffix.lower() not in (".html", ".htm"):
            raise ConfigError(f"{flag} must end in .html, as a browser needs it. Received {str(file)!r}.")
        check_writable(file)
    except OSError as error:
        raise ConfigError(f"{flag} {file} cannot be written: {error.strerror or error}.") from error


def columns(title: str | None, *headers: str, right: Sequence[str] = ()) -> Table:
    """Return an empty table with the given headers; those in `right` are aligned to the right."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for header in headers:
        table.add_column(header, justify="right" if header in right else "left", overflow="fold")
    return table


@contextmanager
def reading_bar(file: Path | None) -> Iterator[Callable[[BinaryIO], BinaryIO] | None]:
    """Show a bar on standard error, if it is a terminal, while a file is read in the block.

    Yield the function that wraps the opened file; None where rows come from elsewhere.
    """
    if file is None:
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=error_console,
        disable=not error_console.is_terminal,
        transient=True,
        # Otherwise rich would send the answers to the bar's stream.
        redirect_stdout=False,
        redirect_stderr=False,
    ) as bar:
        yield lambda opened: bar.wrap_file(opened, file.stat().st_size, description=file.name)


def clock(seconds: float) -> str:
    """Return a duration as clocks show it.

    Example:

        >>> clock(5), clock(3725)
        ('0:05', '1:02:05')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

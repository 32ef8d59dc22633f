"""The extras of an installation: the packages that each brings, and an error that names the missing extra."""

import importlib
import sys
from importlib.util import find_spec

from keras_selfattn.errors import MissingExtraError
from keras_selfattn.package_fit import importing

MODULES = {
    "train": (
        "tensorflow",
        "tensorflow_serving",
        "sklearn",
        "scipy",
        "safetensors",
        "PIL",
        "babel",
        "django",
        "stopwordsiso",
    ),
    "serve": ("tensorflow", "tensorflow_serving", "grpc_health", "grpc_reflection", "httptools", "uvicorn"),
    "client": ("grpc", "google.protobuf"),
    "plots": ("matplotlib",),
    "jax": ("jax",),
    "onnx": ("onnx", "onnxruntime", "tf2onnx"),
    "parquet": ("pyarrow",),
    "ray": ("ray",),
    "stores": ("fsspec",),
    "tracing": ("opentelemetry",),
}
"""The modules that an extra of setup.cfg brings. The first extra that brings a module is named for it."""

EXTRA_OF_COMMAND = {
    "serve": "serve",
    "open": "serve",
    "query": "client",
    "status": "client",
    "metadata": "client",
}
"""The extra of a command of `keras-selfattn`; it is "train" for the others."""


def extras_of(command: str) -> list[str]:
    """Return the extras whose packages a command may import: its own, and others that are installed.

    Example:

        >>> extras_of("query")[0]
        'client'
    """
    own = EXTRA_OF_COMMAND.get(command, "train")
    return [own, *(extra for extra in MODULES if extra != own and not any(map(_is_missing, MODULES[extra])))]


_BACKENDS = ("tensorflow", "jax", "torch")


def install(extra: str) -> str:
    """Return the command that installs an extra.

    Example:

        >>> install("serve")
        "pip install 'keras-selfattn[serve]'"
    """
    return f"pip install 'keras-selfattn[{extra}]'"


def require(extra: str, needed_by: str, *modules: str, hint: str = "") -> None:
    """Raise an error if a module that an extra brings is not installed. Nothing is imported.

    Args:
        extra: a name of `MODULES`.
        needed_by: the beginning of the message, such as the name of a module.
        modules: those that are needed; by default all of the extra.
        hint: the end of the message.

    Raises:
        MissingExtraError: with the command that installs the extra.

    Example:

        >>> require("client", "keras_selfattn.serving.client")
    """
    for module in modules or MODULES[extra]:
        if _is_missing(module):
            try:
                importlib.import_module(module)
            except ModuleNotFoundError as error:
                raise MissingExtraError(
                    f"{needed_by} needs {module}, which is not installed: {install(extra)}{hint}"
                ) from error


def _is_missing(module: str) -> bool:
    if sys.modules.get(module) is not None:
        return False
    try:
        return find_spec(module) is None
    except ModuleNotFoundError:  # its parent is missing
        return True


def missing_extra(error: ModuleNotFoundError, command: str = "") -> str | None:
    """Return the extra that brings the module of an error, or None if no extra does, or it is installed.

    Args:
        error: of an import.
        command: the command of `keras-selfattn` that failed; its own extra comes first.

    Example:

        >>> missing_extra(ModuleNotFoundError(name="uvicorn.no_such"))  # uvicorn is installed
    """
    module = f"{error.name}."
    first = EXTRA_OF_COMMAND.get(command, "train")
    for extra in (first, *MODULES):
        for each in MODULES[extra]:
            if (module.startswith(f"{each}.") or each.startswith(module)) and _is_missing(each):
                return extra
    return None


def import_keras() -> None:
    """Import Keras, or say which backend is missing.

    Raises:
        PackageMisfitError: if packages of Keras do not fit.
        MissingExtraError: if the backend that Keras is to use is not installed.
    """
    try:
        with importing("", "Keras"):
            importlib.import_module("keras")
    except ModuleNotFoundError as error:
        if error.name not in _BACKENDS:
            raise
        others = [name for name in _BACKENDS if name != error.name and not _is_missing(name)]
        if others:
            hint = f"set KERAS_BACKEND={others[0]}, which is installed"
        else:
            hint = f"use another backend: {install('jax')} and KERAS_BACKEND=jax"
        raise MissingExtraError(
            f"Keras computes with {error.name}, which is not installed: pip install {error.name}; or {hint}"
        ) from error

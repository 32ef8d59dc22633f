"""TensorFlow without its Python API, for a process that only serves.

`import tensorflow` runs the package's __init__, which builds an API from 4,000 modules: 4 seconds of CPU time
and 220 MB that no server needs. Running a SavedModel needs 330 of them.
"""

import contextlib
import importlib
import importlib.machinery
import importlib.util
import os
import site
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

_NAME = "tensorflow"
_VERSIONS = ("__version__", "__git_version__", "__compiler_version__")
# Modules that __init__ must load before a graph runs: devices of other packages.
_PLUGINS = "tensorflow-plugins"
_PLUGIN_VARIABLE = "TF_PLUGGABLE_DEVICE_LIBRARY_PATH"
# The only operation of the wheel that is not in its library; the API loads it.
_OWN_LIBRARY = f"{_NAME}.lite.experimental.microfrontend.python.ops.audio_microfrontend_op"


def import_runtime() -> None:
    """Import the parts of TensorFlow that run SavedModels; its API is loaded at its first use.

    For a process that only serves. If TensorFlow has been imported before, it stays whole; if plugins for
    other devices are installed, all of it is imported. Modules of the API, such as tensorflow.keras, can be
    imported once another name of the API has been used.

    Example:
        import_runtime()
        from tensorflow.python.client.session import Session
    """
    if _has_plugins():
        importlib.import_module(_NAME)
    elif _NAME not in sys.modules:
        _leave_api_out()
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module(_OWN_LIBRARY)
    runtime: Any = importlib.import_module(f"{_NAME}.python.pywrap_tfe")
    runtime.TF_ListPhysicalDevices()  # looks for GPUs, and logs it if there is none


def _leave_api_out() -> None:
    """Register an empty package with TensorFlow's folder; its names are loaded at their first use."""
    spec = importlib.util.find_spec(_NAME)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {_NAME!r}", name=_NAME)
    sys.modules[_NAME] = _package(spec, spec.loader)


def _package(spec: importlib.machinery.ModuleSpec, loader: Any) -> ModuleType:
    package: Any = importlib.util.module_from_spec(spec)
    package.__getattr__ = _Api(package, loader).name
    return package


class _Api:
    """The attributes that the package lacks until its __init__ has run."""

    def __init__(self, package: ModuleType, loader: Any):
        self._names = vars(package)
        self._package = package
        self._loader = loader
        self._lock = threading.RLock()
        self._is_loading = False

    def name(self, name: str) -> Any:
        # Python's own lookups, such as the names for "*", are not a use of the API.
        if not name.startswith("__") or name in _VERSIONS:
            with self._lock:
                # __init__ itself looks up names that do not exist yet.
                if not self._is_loading:
                    self._load()
            if name in self._names:
                return self._names[name]
        raise AttributeError(f"module {_NAME!r} has no attribute {name!r}")

    def _load(self) -> None:
        if self._names.get("__getattr__") != self.name:
            return  # another thread has loaded it
        self._is_loading = True
        try:
            self._loader.exec_module(self._package)
        finally:
            self._is_loading = False
        if self._names.get("__getattr__") == self.name:
            del self._names["__getattr__"]


def _has_plugins() -> bool:
    folders = [*site.getsitepackages(), site.getusersitepackages()]
    return _PLUGIN_VARIABLE in os.environ or any((Path(folder) / _PLUGINS).exists() for folder in folders)

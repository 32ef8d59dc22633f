"""`keras_selfattn` where the client alone is installed: the same names as in the whole project.

Its modules are those of `keras_selfattn_client`, under the names that all programs use. The whole
project is a package of this name: Python prefers it in the same folder, and elsewhere this module gives way.
"""

import importlib
import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

_CLIENT = "keras_selfattn_client"


class _Modules(MetaPathFinder, Loader):
    """Finds `keras_selfattn.NAME` as `keras_selfattn_client.NAME`: one module with two names."""

    def __init__(self) -> None:
        self._specs: dict[str, Any] = {}

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith(f"{__name__}."):
            return None
        if importlib.util.find_spec(_of_client(fullname)) is None:
            raise ModuleNotFoundError(
                f"{fullname} is no part of keras-selfattn-client: pip install keras-selfattn",
                # Not by the full name: then `from keras_selfattn import layers` would hide this message.
                name=__name__,
            )
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(_of_client(spec.name))
        self._specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore what the import system has set: the module has run, under its first name."""
        assert module.__spec__ is not None
        module.__spec__ = self._specs.pop(module.__spec__.name)


def _of_client(name: str) -> str:
    return _CLIENT + name.removeprefix(__name__)


def _whole_project() -> ModuleSpec | None:
    """Return where the whole project is, if it is: later on the path, or an editable checkout."""
    here = Path(__file__).resolve().parent
    path = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    for finder in sys.meta_path:
        found = finder.find_spec(__name__, path if finder is PathFinder else None)
        if found is not None and found.origin is not None and found.loader is not None:
            return found
    return None


_whole = _whole_project()
if _whole is None or _whole.loader is None:
    __path__: list[str] = []
    __version__ = importlib.import_module(_CLIENT).__version__
    sys.meta_path.insert(0, _Modules())  # or the path of a package would be searched, for a second module
else:
    _module = importlib.util.module_from_spec(_whole)
    sys.modules[__name__] = _module
    _whole.loader.exec_module(_module)

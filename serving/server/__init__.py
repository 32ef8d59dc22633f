"""The server: TensorFlow Serving's gRPC and REST APIs on folders of SavedModel versions, from pip."""

import importlib
from typing import TYPE_CHECKING, Any

from keras_selfattn.extras import importing, require

from .config import ServerConfig

if TYPE_CHECKING:
    from .server import Server
    from .until_stopped import serve_forever

__all__ = ["Server", "ServerConfig", "serve_forever"]

_MODULES = {"Server": ".server", "serve_forever": ".until_stopped"}


def __getattr__(name: str) -> Any:
    # Imported on first use: the settings, from which the command line is made, need no TensorFlow.
    if name in _MODULES:
        require("serve", __name__)
        with importing("serve", __name__):
            return getattr(importlib.import_module(_MODULES[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

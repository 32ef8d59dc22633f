"""The server: TensorFlow Serving's gRPC and REST APIs on folders of SavedModel versions, from pip."""

import importlib
from typing import TYPE_CHECKING, Any

from .config import ServerConfig

if TYPE_CHECKING:
    from .server import Server, serve_forever

__all__ = ["Server", "ServerConfig", "serve_forever"]


def __getattr__(name: str) -> Any:
    # On first use: the settings alone, which the command line is made of, need no TensorFlow.
    if name in __all__:
        return getattr(importlib.import_module(".server", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

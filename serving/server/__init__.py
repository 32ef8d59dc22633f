"""The server: TensorFlow Serving's gRPC API on a folder of SavedModel versions, from pip."""

from .config import ServerConfig
from .server import Server, serve_forever

__all__ = ["Server", "ServerConfig", "serve_forever"]

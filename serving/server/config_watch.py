"""Follows --model_config_file: what it lists is served as soon as it changes."""

import logging
import threading

from ..errors import ServingError
from .config import ServerConfig
from .model_config import listed_models, read_model_config
from .models import Models
from .text_files import TextFileError

_log = logging.getLogger(__name__)


class ConfigWatch:
    """Looks at the file of models now and then, and has a changed list served.

    A list that cannot be read or served is logged, once, and leaves everything as it is.

    Args:
        config: the file, and how often to look at it.
        models: are told.

    Example:
        watch = ConfigWatch(config, models)
        watch.start()
        watch.stop()
    """

    def __init__(self, config: ServerConfig, models: Models):
        self._path = config.model_config_file
        self._seconds = config.model_config_file_poll_wait_seconds
        self._models = models
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watch-config", daemon=True)
        self._known = self._content()

    def start(self) -> None:
        """Begins to look, unless the config says to read the file once; returns at once."""
        if str(self._path) and self._seconds > 0:
            self._thread.start()

    def stop(self) -> None:
        """Looks no more. A list that is being loaded may still be."""
        self._stopping.set()

    def look(self) -> None:
        """Looks once, and returns when what a changed file lists is available or has failed."""
        content = self._content()
        if content == self._known:
            return
        self._known = content
        try:
            settings = listed_models(read_model_config(self._path))
            _log.info("model_config_file has changed; models: %s", ", ".join(settings) or "none")
            self._models.reload(settings, timeout=None)
        except TextFileError as error:
            _log.error("model_config_file is left as it was: %s: %s", error, error.cause)
        except ServingError as error:
            _log.error("model_config_file: %s", error)

    def _watch(self) -> None:
        while not self._stopping.wait(self._seconds):
            try:
                self.look()
            except Exception:  # noqa: BLE001 - outlive what a file system does: the next look may go well
                _log.exception("looking at model_config_file failed")

    def _content(self) -> bytes | None:
        """The file's bytes; None while it cannot be read."""
        if not str(self._path):
            return None
        try:
            with open(self._path, "rb") as file:
                return file.read()
        except OSError:
            return None

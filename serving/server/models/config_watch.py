"""Follows --model_config_file: what it lists is served as soon as it changes."""

import logging
import threading
from collections.abc import Callable

from ...errors import ServingError
from ...wire import messages_pb2 as pb
from ..config import ServerConfig
from .model_config import listed_models, read_model_config
from ..runtime.text_files import TextFileError

_log = logging.getLogger(__name__)


class ConfigWatch:
    """Looks at the file of models now and then, and has a changed list served.

    A file that cannot be read, or lists what cannot be, is logged, once, and leaves everything as it is.
    Models that do not load are waited for, as at the start.

    Args:
        config: the file, and how often to look at it.
        reload: has a list served; returns when what it lists is available or has failed.

    Raises:
        TextFileError: the file is to be followed, and cannot be read.

    Example:
        watch = ConfigWatch(config, lambda listed: models.reload(listed_models(listed), timeout=None))
        watch.start()
        watch.stop()
    """

    def __init__(self, config: ServerConfig, reload: Callable[[pb.ModelServerConfig], None]):
        self._path = config.model_config_file
        self._seconds = config.model_config_file_poll_wait_seconds
        self._reload = reload
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watch-config", daemon=True)
        self._follows = bool(str(self._path)) and self._seconds > 0
        # What is not followed need not be there any more.
        self._served = read_model_config(self._path) if self._follows else None
        self._complaint = ""

    def start(self) -> None:
        """Begin to look, unless the config says to read the file once; return at once."""
        if self._follows:
            self._thread.start()

    def stop(self) -> None:
        """Look no more. A list that is being loaded may still be."""
        self._stopping.set()

    def look(self) -> None:
        """Look once, and return when what a changed file lists is available or has failed."""
        try:
            config = read_model_config(self._path)
            # A file that says nothing, such as one that somebody is about to write, changes nothing.
            if config == self._served or not config.HasField("model_config_list"):
                return
            settings = listed_models(config)
            _log.info("model_config_file has changed; models: %s", ", ".join(settings) or "none")
            self._served = config
            self._reload(config)
        except TextFileError as error:
            self._complain(f"it cannot be read, and all stays as it is: {error}: {error.cause}")
        except ServingError as error:
            self._complain(error.details)
        else:
            self._complaint = ""

    def _watch(self) -> None:
        while not self._stopping.wait(self._seconds):
            try:
                self.look()
            except Exception:  # noqa: BLE001 - outlive what a file system does: the next look may go well
                _log.exception("looking at model_config_file failed")

    def _complain(self, words: str) -> None:
        """Log what is wrong, unless it has been wrong before."""
        if words != self._complaint:
            _log.error("model_config_file: %s", words)
        self._complaint = words

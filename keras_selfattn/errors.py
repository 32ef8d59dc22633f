"""Errors of the library's input, not of its code.

The tree::

    SelfAttentionError
    ├── DataError      (ValueError)  a file, a table or its rows
    ├── ConfigError    (ValueError)  a setting out of range, or two that contradict
    ├── RunError       (OSError)     a run folder: exists, is missing, is not one
    ├── StorageError   (OSError)     a folder or object store that cannot be listed, read or written
    ├── TrainingError  (RuntimeError)  training that failed
    │   └── OtherProcessError          in another process of it
    ├── ExportError    (RuntimeError)  a SavedModel that cannot be written, or did not pass its check
    ├── MissingExtraError  (ImportError)  a package that an extra of the installation brings
    └── PackageMisfitError (ImportError)  installed packages that do not fit each other

Errors between client and server are in `keras_selfattn.serving.errors`.
"""


class SelfAttentionError(Exception):
    """Root of the tree above."""


class DataError(SelfAttentionError, ValueError):
    """A file, a table or its rows cannot be used; the message names the place."""


class ConfigError(SelfAttentionError, ValueError):
    """A setting is out of range; the message names it, its value and the rule."""


class RunError(SelfAttentionError, OSError):
    """A folder cannot be written or read as a run."""


class StorageError(SelfAttentionError, OSError):
    """A folder or an object store cannot be listed, read or written.

    Args:
        message: the place, the failure, and the next step.
        may_pass: True if waiting may help, such as after an outage.
        summary: the message without what differs each time, such as the number of a request; by default all.
    """

    def __init__(self, message: str, *, may_pass: bool = False, summary: str = ""):
        super().__init__(message)
        self.may_pass = may_pass
        self.summary = summary or message


class TrainingError(SelfAttentionError, RuntimeError):
    """Training failed, for example because the loss became NaN or infinite."""


class OtherProcessError(TrainingError):
    """Another process of the same training failed or has gone; all can be started again and go on."""


class ExportError(SelfAttentionError, RuntimeError):
    """A SavedModel cannot be written, or did not pass the check before it became visible."""


class MissingExtraError(SelfAttentionError, ImportError):
    """A package is not installed; the message has the command that installs it."""


class PackageMisfitError(SelfAttentionError, ImportError):
    """Installed packages do not fit each other; the message names them and the command that mends it."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: all ends now, unlike after Ctrl-C, where a search for settings goes on with its best ones."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its kind if there is none."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300].rstrip(".")

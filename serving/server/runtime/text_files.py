"""Files in protobuf's text format, the format of TensorFlow Serving's flag files."""

from pathlib import Path
from typing import TypeVar

from google.protobuf import text_format
from google.protobuf.message import Message

from ...errors import InvalidArgumentError

_M = TypeVar("_M", bound=Message)


class TextFileError(InvalidArgumentError):
    """An invalid file. The message is TensorFlow Serving's; `cause` has the place and the reason."""

    def __init__(self, path: str | Path, cause: str):
        super().__init__(f"Invalid protobuf file: '{path}'")
        self.cause = cause


def read_text_file(path: str | Path, message: type[_M], known_as: str) -> _M:
    """The message in a file.

    Args:
        path: a file with a message in protobuf's text form, UTF-8.
        message: its type.
        known_as: the type's name in TensorFlow Serving, for errors.

    Raises:
        TextFileError: the file cannot be read, or holds something else.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TextFileError(path, str(error)) from error
    try:
        return text_format.Parse(text, message())
    except text_format.ParseError as error:
        # Python's messages begin with "line:column : ", where the C++ library writes "line:column: ".
        words = str(error).replace(" : ", ": ", 1).replace(message.DESCRIPTOR.full_name, known_as)
        raise TextFileError(path, f"Error parsing text-format {known_as}: {words}") from error

"""Warnings that name a line of the caller's code, however deep in the library they are raised."""

import os
import sys
import warnings

_PACKAGE = os.path.dirname(__file__) + os.sep
_KERAS = os.sep.join(["", "keras", "src", ""])


def warn_user(message: str) -> None:
    """Warn in the name of the first caller outside this package and Keras.

    Args:
        message: the text of the `UserWarning`.

    Example:

        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     warn_user("2 of 5 rows are cut.")
        >>> str(caught[0].message)
        '2 of 5 rows are cut.'
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def _is_inside(filename: str) -> bool:
    return filename.startswith(_PACKAGE) or _KERAS in filename

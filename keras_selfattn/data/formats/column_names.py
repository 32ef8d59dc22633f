"""The columns that a user names for the parts of a row: each part is a column of its own."""

from collections.abc import Sequence

from keras_selfattn.errors import DataError


def check_columns_differ(**columns: Sequence[str | None]) -> None:
    """Raise DataError for a column that two arguments name; each argument may name several.

    Args:
        columns: the names by argument, whose option is `--` and the argument with hyphens. None is no column.

    Example:

        >>> check_columns_differ(text=["essay"], label=["style", "content"], text_pair=[None])
    """
    owners: dict[str, str] = {}
    for argument, names in columns.items():
        for name in {*names} - {None}:
            first = owners.setdefault(str(name), argument)
            if first != argument:
                raise DataError(
                    f"{_shown(argument)} must be another column than {_shown(first)}. Received {name!r} for "
                    "both."
                )


def _shown(argument: str) -> str:
    return f"`{argument}` (--{argument.replace('_', '-')})"

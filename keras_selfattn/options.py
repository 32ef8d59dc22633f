"""An option of a command as data, written once: click and argparse make theirs of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class OptionSpec:
    """An option of a command, in no library's terms.

    Args:
        flag: the name with its hyphens, such as "--batch-size".
        help: a sentence with its full stop; the default is no part of it.
        name: of the value among the command's; "" for the words of the flag, with underscores.
        kind: type of the value: str, int, float or Path.
        least: the least value, of an int.
        choices: the values there are; empty for any.
        metavar: stands for the value in the help; "" for that of its kind.
        default: the value without the option; of `many` a tuple of values.
        without: the default in words, where it is no value.
        many: True if the option may be given again; its value is then a sequence.
        switch: the value of a flag that takes none; None for an option that takes a value.
        read: makes the value of all that were given, of `many`; it raises InvalidInputError.

    Example:

        >>> OptionSpec("--batch-size", "Rows in a call.", kind=int, least=1).placeholder
        'N'
    """

    flag: str
    help: str
    name: str = ""
    kind: type = str
    least: int | None = None
    choices: tuple[str, ...] = ()
    metavar: str = ""
    default: Any = None
    without: str | None = None
    many: bool = False
    switch: bool | None = None
    read: Callable[[Iterable[str]], Any] | None = None

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.flag.removeprefix("--").replace("-", "_"))

    @property
    def placeholder(self) -> str | None:
        """Return what stands for the value in the help; None where the choices do, or there is no value."""
        return self.metavar or (None if self.choices else {Path: "FILE", int: "N"}.get(self.kind))


REVISION = OptionSpec(
    "--revision",
    "Branch, tag or commit of a model in the Hugging Face hub.",
    without="the newest commit",
)
SEPARATOR = OptionSpec(
    "--separator",
    "Character between the columns of a .csv, and of a .tsv with texts, such as ';' or '\\t'.",
    metavar="CHAR",
    without="a comma; in a .tsv a tab",
)
NO_HEADER = OptionSpec(
    "--no-header",
    "Take the first line of a .csv, and of a .tsv with texts, as a row. Columns have numbers: 1, 2, …",
    name="has_header",
    switch=False,
)

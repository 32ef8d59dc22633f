"""The draft of a run folder, and the records of rows and settings in it."""

import json
import resource
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import ConfigError
from keras_selfattn.files.atomic import new_directory
from keras_selfattn.runs.run_folder import check_output, writing


@contextmanager
def draft_run(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield the draft of a run folder, created before training so that an unwritable place fails first."""
    check_output(target, overwrite=overwrite)
    with ExitStack() as stack:
        with writing(target):
            draft = stack.enter_context(new_directory(target, overwrite=overwrite))
        # Errors of the training itself, such as in a callback, are raised unchanged.
        yield draft
        with writing(target):
            stack.close()


def as_json(name: str, value: Any) -> Any:
    """Return settings as JSON types; raise before a training that could not be recorded."""
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"`{name}` must hold what JSON can, such as str and int: {error}.") from error
    return value


def data_record(rows: LabelledRows) -> dict[str, Any]:
    """Return the record of rows."""
    return {"source": rows.source, "rows": len(rows)}


def rows_in_words(rows: LabelledRows) -> str:
    """Return the numbers of rows and classes, for a line on the terminal.

    Example:

        >>> rows_in_words(LabelledRows(["good", "bad"], ["+", "-"], "films.csv"))
        '2 rows of films.csv, 2 classes'
    """
    classes = len(rows.labels())
    return f"{len(rows):,} rows of {rows.source}" + (f", {classes:,} classes" if classes else "")


def peak_memory() -> int:
    """Return the largest resident memory of this process so far, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 10**6

"""Read rows as a model does, and set apart those with labels that it does not know.

Training handles `LabelledRows` (of data: inputs, targets, source); models work on `Rows` (of raw_inputs).
"""

import dataclasses
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import DataError
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.raw_model import RawModel

# Labels in a message, and places for each.
_SHOWN = 5


def split_unknown_labels(
    rows: LabelledRows, labels: Collection[str], what: str = "rows"
) -> tuple[LabelledRows, str]:
    """Return the rows whose labels are all known, and a message about the others, or "".

    Args:
        rows: as a model reads them.
        labels: the known labels.
        what: the name of the rows in the message.

    Raises:
        DataError: if there are labels, and none of them is known.
    """
    known = set(labels)
    unknown: dict[str, list[int]] = {}
    wrong = set()
    for row, target in enumerate(rows.targets):
        for name in set(rows.target_kind.labels(target)) - known:
            unknown.setdefault(name, []).append(row)
            wrong.add(row)
    if not unknown:
        return rows, ""
    said = f"{rows.source}: {len(wrong):,} of {len(rows):,} {what} have a label that was not in training"
    if len(wrong) == len(rows) and not rows.labels() & known:
        names = sorted(known)
        raise DataError(
            f"{said}, such as {min(unknown)!r}. Known are {', '.join(names[:20])}"
            f"{', …' if len(names) > 20 else ''}. Is it the right column of labels?"
        )
    commonest = sorted(unknown, key=lambda name: (-len(unknown[name]), name))
    named = [f"{name!r} ({_places(rows, unknown[name])})" for name in commonest[:_SHOWN]]
    named += [f"{len(unknown) - _SHOWN} more labels"] if len(unknown) > _SHOWN else []
    return rows.take([row for row in range(len(rows)) if row not in wrong]), f"{said}: {', '.join(named)}."


def read_labelled_rows(model: RawModel, rows: LabelledRows, kind: type[Head]) -> LabelledRows:
    """Return rows as the model reads them, with targets as its kind of head reads them; their kinds too."""
    if not len(rows):
        raise DataError(f"{rows.source} has no rows. Give at least one.")
    with source_named(rows.source):
        read = model.read_rows(rows.inputs, rows.targets, None, kind)
    # `replace` keeps the class, which defines the split of its rows.
    return dataclasses.replace(
        rows, inputs=read.inputs, targets=read.targets, kind=model.row_kind, target_kind=kind.target_kind
    )


@contextmanager
def source_named(source: str) -> Iterator[None]:
    """Add the source of the rows to errors of rows."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{source}: {error}") from error


def _places(rows: LabelledRows, found: list[int]) -> str:
    """Return the places of rows: "lines 3, 7" or names."""
    places = [rows.place(row) for row in found[:_SHOWN]]
    more = [f"{len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    lines = all(isinstance(place, int) for place in places)
    begin = ("line " if len(found) == 1 else "lines ") if lines else ""
    return begin + ", ".join([*map(str, places), *more])

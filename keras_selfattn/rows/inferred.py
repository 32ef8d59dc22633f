"""The kinds of rows and targets that a user gives without saying them: the one place that guesses.

It is the fallback for `LabelledRows` made by hand until a model reads them: from then on its kinds count. The
readers of files and the models say theirs, so no guess is needed elsewhere.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_selfattn.rows.images import IMAGES
from keras_selfattn.rows.kind import RowKind
from keras_selfattn.rows.series import SERIES
from keras_selfattn.rows.targets import LABEL_SET, NO_TARGET, NUMBERS, ONE_LABEL, TargetKind
from keras_selfattn.rows.texts import TEXTS
from keras_selfattn.rows.tokens import TOKENS


def inferred_row_kind(rows: Sequence[Any]) -> RowKind[Any]:
    """Return the kind that rows most likely are, by the first of them.

    Texts are str, tokens lists of them, images arrays of three axes, and series all other arrays and columns.

    Example:

        >>> inferred_row_kind(["good"]), inferred_row_kind([["a", "film"]]), inferred_row_kind([])
        (TextRows(), TokenRows(), TextRows())
    """
    first: Any = rows[0] if _is_column(rows) else None
    if hasattr(first, "__array__") and np.ndim(first) > 0:
        return IMAGES if np.ndim(first) == 3 else SERIES
    return TOKENS if isinstance(first, list | tuple) else TEXTS


def inferred_target_kind(targets: Sequence[Any]) -> TargetKind:
    """Return the kind that targets most likely are, by those that are not empty.

    A label at each position is told from a set of labels by the model alone.

    Example:

        >>> inferred_target_kind(["+", "-"]), inferred_target_kind([[], ["x"]]), inferred_target_kind([1.5])
        (OneLabel(), LabelSet(), Numbers())
    """
    found = [target for target in targets if target is not None] if _is_column(targets) else []
    if not found:
        return NO_TARGET
    # Names alone beside lists of them are sets of one.
    lists = [target for target in found if isinstance(target, list | tuple)]
    if not lists:
        return ONE_LABEL if isinstance(found[0], str) else NUMBERS
    held = next((target for target in lists if target), ())
    return LABEL_SET if all(isinstance(each, str) for each in held) else NUMBERS


def _is_column(given: Any) -> bool:
    """Return True for a list with something in it; readers refuse what is no column."""
    return isinstance(given, list) and bool(given)

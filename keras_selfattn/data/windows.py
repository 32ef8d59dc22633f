"""Windows of long series, each with the values after it: the rows of a forecaster.

Axes: T (frames), F (features).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.rows.series import SERIES
from keras_selfattn.rows.targets import NUMBERS


@dataclass(frozen=True)
class Windows(LabelledRows):
    """Rows that overlap in time: they are split by time, not at random.

    Args:
        inputs, targets, source, where, kind, target_kind: as for `LabelledRows`.
        places: the series and the first frame of each row.
        horizon: values in a target.
    """

    places: Sequence[tuple[int, int]] = field(default=())
    horizon: int = 1

    def place(self, row: int) -> int | str:
        """Return the series of a window and its first frame, both counted from 0."""
        series, frame = self.places[row]
        return f"series {series}, frame {frame}"

    def split(self, held_out: float, seed: int) -> tuple[LabelledRows, LabelledRows]:
        """Hold out the last windows of each series; no held-out value is an input or a target in the rest."""
        by_series: dict[int, list[int]] = {}
        for row, (series, _) in enumerate(self.places):
            by_series.setdefault(series, []).append(row)
        kept: list[int] = []
        held: list[int] = []
        for rows in by_series.values():
            first = len(rows) - max(1, round(held_out * len(rows)))
            begin = self.places[rows[first]][1]
            before = [row for row in rows[:first] if self.places[row][1] <= begin - self.horizon]
            # A series that is too short for both is for training.
            kept += before or rows
            held += rows[first:] if before else []
        if not held:
            raise DataError(
                f"{self.source} has too few windows to hold {held_out:.0%} of them out in time: {len(self)}. "
                "Give a validation file, longer series or a shorter horizon."
            )
        return self.take(kept), self.take(held)


def cut_windows(
    series: Sequence[np.ndarray], context: int, horizon: int, source: str = "the series"
) -> Windows:
    """Return every window of `context` frames, with the next values of the first feature.

    Windows with missing targets are left out.

    Args:
        series: float `[T, F]` each, or `[T]` of one feature.
        context: frames of a window.
        horizon: the number of next values.
        source: the name of the source, for messages and records.

    Raises:
        ConfigError: for a context or horizon below 1.
        DataError: if no series is as long as both together, or a value is infinite.

    Example:

        >>> windows = cut_windows([np.arange(5.0)], context=2, horizon=2)
        >>> [row[:, 0].tolist() for row in windows.inputs], [each.tolist() for each in windows.targets]
        ([[0.0, 1.0], [1.0, 2.0]], [[2.0, 3.0], [3.0, 4.0]])
    """
    for name, value in (("context", context), ("horizon", horizon)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"`{name}` must be a positive integer. Received {value!r}.")
    inputs, targets, places = [], [], []
    lengths = []
    for number, one in enumerate(series):
        frames = np.asarray(one)
        frames = frames[:, None] if frames.ndim == 1 else frames
        lengths.append(len(frames))
        _check_finite(frames, f"{source}: series {number} (counted from 0)")
        for start in range(len(frames) - context - horizon + 1):
            end = start + context
            target = frames[end : end + horizon, 0].astype(np.float64)
            if np.isfinite(target).all():
                inputs.append(frames[start:end])
                targets.append(target)
                places.append((number, start))
    if not inputs:
        raise DataError(
            f"{source}: no series has {context} frames and {horizon} known values after them. The longest "
            f"has {max(lengths, default=0)}. Give a shorter context or horizon, or longer series."
        )
    kinds = {"kind": SERIES, "target_kind": NUMBERS}
    return Windows(inputs, targets, source, places=places, horizon=horizon, **kinds)


def _check_finite(frames: np.ndarray, where: str) -> None:
    """Raise DataError for an infinite value, which as a target would be left out like a missing one."""
    infinite = np.argwhere(np.isinf(frames)) if frames.dtype.kind == "f" else ()
    if len(infinite):
        frame, feature = infinite[0].tolist()
        raise DataError(
            f"{where} has an infinite value in frame {frame}, feature {feature}. Write missing ones as NaN."
        )

"""The head of numbers: targets in their own units, learned in deviations from their mean.

Axes: B (batch), D (features), N (numbers of a row).
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.heads.probabilities import FIRST_SHARES, Shares
from keras_selfattn.rows.containers import TableRows, number_table, ordered_rows, refuse_table
from keras_selfattn.rows.targets import NUMBERS

Tensor = Any

# Names of columns in a message.
_SHOWN = 10


class NumbersHead(Head):
    """One number for a row, or several.

    Args:
        mean: of each number in the training rows.
        deviation: standard deviation of each; 1 if it is constant.
        names: of several numbers, in their order; None if nobody has named them.
    """

    task = "regression"
    target_kind = NUMBERS

    def __init__(
        self, mean: Sequence[float], deviation: Sequence[float], names: Sequence[str] | None = None
    ) -> None:
        self.mean, self.deviation = list(mean), list(deviation)
        self.names = None if names is None else list(names)
        if self.names is not None and len(self.names) != len(self.mean):
            raise ConfigError(
                f"`names` must be one for each number of `mean`. Received {len(self.names)} and "
                f"{len(self.mean)}."
            )

    @classmethod
    def from_targets(cls, targets: Sequence[np.ndarray]) -> "NumbersHead":
        """Return the head with the mean and deviation of targets `[N]`, and with the names of a table."""
        values = np.stack(targets)  # [rows, N]
        mean, deviation = values.mean(axis=0), values.std(axis=0)
        constant = deviation <= 1e-9 * np.abs(mean)
        return cls(mean.tolist(), np.where(constant, 1.0, deviation).tolist(), names_of(targets))

    @property
    def state(self) -> dict[str, Any]:
        named = {} if self.names is None else {"names": self.names}
        return {"mean": self.mean, "deviation": self.deviation, **named}

    @staticmethod
    def read(y: Any) -> list[np.ndarray]:
        return as_numbers(y)

    def encoded(self, targets: Sequence[np.ndarray]) -> np.ndarray:
        return self.in_order(targets).astype(np.float32)

    def in_order(self, targets: Sequence[np.ndarray]) -> np.ndarray:
        """Return targets as float64 `[rows, N]`, in the head's order where both have names.

        Raises:
            DataError: for another number of numbers, or other names, than the head's.
        """
        for row, numbers in enumerate(targets):
            if len(numbers) != len(self.mean):
                raise DataError(
                    f"Target {row} (counted from 0) has {len(numbers)} numbers. The model gives "
                    f"{len(self.mean)}."
                )
        given, values = names_of(targets), np.stack(targets)
        if self.names is None or given is None or self.names == given:
            return values
        if set(given) != set(self.names):
            raise DataError(
                f"The targets are a table of the columns {', '.join(map(repr, given[:_SHOWN]))}. The model "
                f"has learned {', '.join(map(repr, self.names[:_SHOWN]))}. Give columns of these names, "
                "in any order."
            )
        return values[:, [given.index(name) for name in self.names]]

    def outputs(self, x: Tensor, wide: Tensor | None = None, first: Shares = FIRST_SHARES) -> Tensor:
        found = keras.layers.Dense(
            len(self.mean), kernel_initializer="zeros", dtype="float32", name="standardised"
        )(x)  # [B, N]
        return InUnits(self.mean, self.deviation, name="numbers")(found)

    def loss(self, label_smoothing: float = 0.0) -> Any:
        return StandardisedSquaredError(self.deviation)

    def metrics(self) -> list[Any]:
        return [keras.metrics.MeanAbsoluteError(name="mean_absolute_error")]


@keras.saving.register_keras_serializable(package="keras_selfattn")
class InUnits(keras.layers.Layer):
    """Convert standardised numbers back to their units.

    Args:
        mean: of each number.
        deviation: of each.

    Call arguments:
        inputs: float `[batch, numbers]`.

    Returns:
        float32 `[batch, numbers]`.

    Example:

        >>> import numpy as np
        >>> np.asarray(InUnits([10.0], [2.0])(np.ones((1, 1), "float32"))).tolist()
        [[12.0]]
    """

    def __init__(self, mean: Sequence[float], deviation: Sequence[float], **kwargs: Any) -> None:
        super().__init__(**{"dtype": "float32", **kwargs})
        self.mean, self.deviation = list(mean), list(deviation)

    def call(self, inputs: Tensor) -> Tensor:
        numbers: Any = ops.cast(inputs, "float32")
        return numbers * ops.convert_to_tensor(self.deviation, "float32") + ops.convert_to_tensor(
            self.mean, "float32"
        )

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "mean": self.mean, "deviation": self.deviation}


@keras.saving.register_keras_serializable(package="keras_selfattn")
class StandardisedSquaredError(keras.losses.Loss):
    """Squared error in deviations of the targets, mean over the numbers: 1 for predicting their mean.

    Args:
        deviation: of each number.
        reduction: as in `keras.losses.Loss`.
        name: of the loss.
        dtype: of the computation.

    Example:

        >>> import numpy as np
        >>> float(StandardisedSquaredError([2.0])(np.array([[10.0]]), np.array([[14.0]])))
        4.0
    """

    def __init__(
        self,
        deviation: Sequence[float],
        reduction: str = "sum_over_batch_size",
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.deviation = list(deviation)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "deviation": self.deviation}

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        # With one number a row, targets may lack the last axis; a difference would then pair all rows with
        # all.
        error = ops.reshape(y_true, ops.shape(y_pred)) - y_pred
        error = error / ops.convert_to_tensor(self.deviation, error.dtype)
        return ops.mean(ops.square(error), axis=-1)


def names_of(targets: Any) -> list[str] | None:
    """Return the names of several numbers a row, which columns of a table have; None if there are none.

    Example:

        >>> names_of(TableRows([[4.5, 3.0]], ["style", "content"])), names_of([[4.5, 3.0]])
        (['style', 'content'], None)

    Raises:
        DataError: for two numbers of one name, and for an empty name: answers are told by their names.
    """
    columns = targets.columns if isinstance(targets, TableRows) else []
    # Numbers from 0 on are the names that libraries give to columns without any.
    if len(columns) < 2 or columns == list(range(len(columns))):
        return None
    names = list(map(str, columns))
    # Columns differ, but not those of a list, `grade_1`, …, from one of that name, nor 1 from "1".
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None or "" in names:
        wrong = "a column has no name" if twice is None else f"two columns have the name {twice!r}"
        raise DataError(
            f"Among the numbers to learn, {wrong}. Rename it, because answers are told by their names. "
            f"Received {', '.join(map(repr, names[:_SHOWN]))}."
        )
    return names


def as_numbers(y: Any) -> list[np.ndarray]:
    """Return targets, one or several numbers for each row, as float64 `[N]` each; of a table as its rows.

    Raises:
        DataError: if there are none, or a row's are not finite numbers.
    """
    if y is None:
        raise DataError("Targets are needed with raw rows. Received None; give a number, or several, a row.")
    table = number_table(y)
    y = ordered_rows(y) if table is None else list(table)
    if hasattr(y, "__array__"):
        y = np.asarray(y)
    refuse_table("The targets", y)
    found = [_numbers(row, target) for row, target in enumerate(y)]
    for row, numbers in enumerate(found):
        if len(numbers) != len(found[0]):
            raise DataError(
                f"Target {row} (counted from 0) has {len(numbers)} numbers, target 0 has {len(found[0])}."
            )
    return found if table is None else TableRows(found, table.columns)


def _numbers(row: int, target: Any) -> np.ndarray:
    try:
        values = np.asarray(target)
        numbers = values.astype(np.float64).reshape(-1)
    except (TypeError, ValueError):
        values, numbers = np.empty(0, "O"), np.empty(0)
    if values.dtype.kind not in "biuf" or values.ndim > 1 or not numbers.size:
        raise DataError(f"Target {row} (counted from 0) must be a number or several. Received {target!r}.")
    with np.errstate(over="ignore"):
        if not np.isfinite(numbers.astype(np.float32)).all():
            raise DataError(f"Target {row} (counted from 0) must be finite. Received {target!r}.")
    return numbers

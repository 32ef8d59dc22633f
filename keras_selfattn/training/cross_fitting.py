"""Calibration of a model with few rows, on rows that copies of it are trained without."""

import dataclasses
from collections.abc import Callable
from typing import Any

from keras_selfattn.data.labelled import LabelledRows, labels_in
from keras_selfattn.errors import DataError, TrainingError
from keras_selfattn.models.base import RawModel
from keras_selfattn.training.calibration import Calibration, UnseenRows
from keras_selfattn.training.config import TrainConfig
from keras_selfattn.training.fitting import copy_of, fit_unmonitored, row_weights

# Of more rows, a tenth is enough to calibrate on, and four more trainings would take long.
MAX_ROWS = 200
_NUM_SPLITS, _HELD_OUT = 4, 0.25


def cross_fitted(
    model: RawModel,
    rows: LabelledRows,
    config: TrainConfig,
    report: Callable[[str], None],
    **shown: Any,
) -> UnseenRows | None:
    """Return rows with the logits of copies of a model that were trained without them.

    A quarter of the rows, drawn at random, is held out of each of four trainings. A copy is trained on less
    and a little worse than the model, so the confidence that fits it is a little low.

    Args:
        model: has seen no rows yet; copies of it are trained.
        rows: all training rows.
        config: the settings of the training.
        report: called with a line as each training begins.
        shown: `callbacks` and `verbose`, as in `fit_monitored`.

    Returns:
        The rows of all copies together; None if no copy has probabilities for rows that it lacks.

    Reference: Picard & Cook 1984, "Cross-Validation of Regression Models", section 3; Platt 1999,
    "Probabilistic Outputs for Support Vector Machines", section 2.2, on unbiased training sets.
    """
    parts = []
    for place in range(_NUM_SPLITS):
        seeded = dataclasses.replace(config, seed=(config.seed + place) % 2**32)
        try:
            kept, held_out = rows.split(_HELD_OUT, seeded.seed)
            if labels_in(kept.targets) != labels_in(rows.targets):
                continue  # it would have other columns
            report(f"To calibrate it, on {len(kept):,} rows, {place + 1} of {_NUM_SPLITS}:")
            trained = copy_of(model, {})
            fit_unmonitored(trained, kept, config.epochs, seeded, **shown)
        except (DataError, TrainingError):
            continue  # calibration is no reason to lose a training that succeeded
        weights = row_weights(trained.head, kept.targets, held_out, config)
        fit = Calibration(trained, held_out, weights, temperature_only=True)
        if fit.possible:
            parts.append(fit.unseen())
    return UnseenRows.joined(parts) if parts else None

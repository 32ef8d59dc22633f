"""Calibration of a model whose rows are too few to hold some out: trained again and again without a part."""

import dataclasses
from collections.abc import Callable
from typing import Any

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.models.base import RawModel
from keras_selfattn.training.calibration import Calibration, UnseenRows
from keras_selfattn.training.config import TrainConfig
from keras_selfattn.training.fitting import copy_of, fit_unmonitored, row_weights

_TIMES, _SHARE = 4, 0.25


def cross_fitted(
    model: RawModel,
    rows: LabelledRows,
    config: TrainConfig,
    report: Callable[[str], None],
    **shown: Any,
) -> UnseenRows | None:
    """Return rows with the logits of models that were trained without them, or None for no probabilities.

    A quarter of the rows, drawn at random, is left out of each of four trainings. A model that is trained on
    less is a little worse, so the confidence that fits it is a little low.

    Args:
        model: has seen no rows yet; copies of it are trained.
        rows: all training rows.
        config: the settings of the training.
        report: called with a line as each training begins.
        shown: `callbacks` and `verbose`, as in `fit_monitored`.

    Raises:
        DataError: if no rows can be left out.
        TrainingError: if the loss became NaN or infinite.

    Reference: Picard & Cook 1984, "Cross-Validation of Regression Models", section 3; Platt 1999,
    "Probabilistic Outputs for Support Vector Machines", section 2.2, on unbiased training sets.
    """
    parts = []
    for place in range(_TIMES):
        seeded = dataclasses.replace(config, seed=(config.seed + place) % 2**32)
        kept, left_out = rows.split(_SHARE, seeded.seed)
        report(f"To calibrate it, on {len(kept):,} rows, {place + 1} of {_TIMES}:")
        trained = copy_of(model, {})
        fit_unmonitored(trained, kept, config.epochs, seeded, **shown)
        weights = row_weights(trained.head, kept.targets, left_out, config)
        fit = Calibration(trained, left_out, weights, fewest=1)
        if fit.possible:
            parts.append(fit.unseen())
    return UnseenRows.joined(parts) if parts else None

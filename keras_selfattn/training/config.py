"""Settings of a training, checked when created."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.config import check_count, check_flag, check_share, is_number


@dataclass(frozen=True)
class TrainConfig:
    """Settings of a training.

    Few texts, with one label each, train a pretrained encoder in pairs (`few_rows.trains_on_pairs`). An epoch
    then has 4 batches, a fifth of the learning rate is the peak, and the last epoch is kept.

    Args:
        epochs: the most passes over the training rows.
        batch_size: rows in a step.
        learning_rate: peak of the schedule: linear warmup, then cosine decay to nearly 0.
        weight_decay: decoupled, of AdamW.
        patience: epochs without a better validation loss after which training stops; the best weights are
            restored. Of a model that is judged by a figure of its answers: epochs without a better figure;
            while that is an error rate above 0, an epoch with a better loss is none of them.
        validation: share of the rows to hold out if there are no validation rows, in (0, 1).
        refit: True trains a model again on all rows if some were held out, for the best number of epochs.
            Fewer than 100, or fewer than 100 groups of `GroupedRows`, are too few to choose it: then both
            trainings take all epochs, whatever `patience` is. It helps most with few rows.
        label_smoothing: share of each label that training spreads over all classes, in [0, 1).
        class_weight: "balanced" gives each class the same total weight; a dict gives weights by label name
            or index, finite and at least 0, as for `fit` of a model; None gives each row the same weight.
        seed: of weights, dropout, order and split: the same seed gives the same result on the same machine.

    Raises:
        ConfigError: for a field out of range.

    Example:

        >>> TrainConfig(epochs=3, class_weight="balanced").learning_rate
        0.001
    """

    epochs: int = 20
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    patience: int = 4
    validation: float = 0.1
    refit: bool = False
    label_smoothing: float = 0.0
    class_weight: str | dict[str | int, float] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "patience"):
            check_count(name, getattr(self, name))
        if not (is_number(self.learning_rate) and self.learning_rate > 0):
            raise ConfigError(
                f"`learning_rate` must be a finite number greater than 0. Received {self.learning_rate!r}."
            )
        check_share("weight_decay", self.weight_decay)
        check_share("label_smoothing", self.label_smoothing)
        if not (is_number(self.validation) and 0 < self.validation < 1):
            raise ConfigError(f"`validation` must be between 0 and 1. Received {self.validation!r}.")
        check_flag("refit", self.refit)
        if isinstance(self.seed, bool) or not isinstance(self.seed, Integral) or not 0 <= self.seed < 2**32:
            raise ConfigError(f"`seed` must be an integer in [0, 2**32). Received {self.seed!r}.")
        # As Python's own types, for JSON.
        for name in ("learning_rate", "weight_decay", "validation", "label_smoothing"):
            object.__setattr__(self, name, float(getattr(self, name)))
        object.__setattr__(self, "seed", int(self.seed))
        object.__setattr__(self, "class_weight", _as_class_weight(self.class_weight))


def _as_class_weight(asked: Any) -> str | dict[str | int, float] | None:
    if asked is None or (isinstance(asked, str) and asked == "balanced"):
        return asked
    if not isinstance(asked, Mapping):
        raise ConfigError(f'`class_weight` must be "balanced" or a dict. Received {asked!r}.')
    found: dict[str | int, float] = {}
    for key, given in asked.items():
        try:
            weight = float(given)
        except (TypeError, ValueError):
            weight = math.nan
        # A boolean is an integer to Python, but here the name of a label.
        named = str(key) if isinstance(key, str | bool | np.bool_) else key
        if not isinstance(named, str | Integral) or not (math.isfinite(weight) and weight >= 0):
            raise ConfigError(
                "`class_weight` must give a finite number of at least 0 for a label name or place. "
                f"Received {given!r} for {key!r}."
            )
        found[named if isinstance(named, str) else int(named)] = weight
    return found

"""Base of the estimators: their parameters, and the training of a model on all rows.

Each class is a dataclass of its parameters: fields with their defaults make the constructor, which stores
each under its own name, as scikit-learn asks. A class names only the parameters that its base does not have.
"""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import keras
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.batches.sample_weights import weighted
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.rows.containers import ordered_rows, refuse_table
from keras_selfattn.training.config import TrainConfig
from keras_selfattn.training.schedule import check_finite, scheduled_optimizer

# Parameters that are fields of the model's config, and of `TrainConfig`.
_OF_MODEL = ("width", "num_layers", "num_heads", "dropout")
_OF_TRAINING = ("epochs", "batch_size", "learning_rate")


@dataclass(eq=False, repr=False)  # scikit-learn's own, which compares and shows the parameters
class ModelEstimator(BaseEstimator):
    """An estimator that trains a model of raw rows for a fixed number of epochs.

    A subclass names the model, and reads rows and targets.

    Args:
        width: features of a position, divisible by `num_heads`; None for the model's default, as below.
        num_layers: encoder blocks.
        num_heads: attention heads.
        dropout: rate in [0, 1), in training.
        epochs: passes over the rows.
        batch_size: rows in a step.
        learning_rate: peak of the schedule: linear warmup, then cosine decay.
        settings: other fields of the model's config by name, such as `{"tokens": "characters"}`.
        random_state: of weights, dropout and the order of rows: an int gives the same result each time.
        verbose: as in `keras.Model.fit`.

    Attributes:
        model_: the trained model, with `save` and `export`.
        history_: the loss, metrics and `learning_rate` of each epoch, by name.
    """

    model_type: ClassVar[type[RawModel]]

    width: int | None = None
    num_layers: int | None = None
    num_heads: int | None = None
    dropout: float | None = None
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    settings: Mapping[str, Any] | None = None
    _: KW_ONLY  # those of subclasses follow, and have no place among these
    random_state: Any = 0
    verbose: int = 0

    def _new_model(self, **kwargs: Any) -> RawModel:
        """Return the untrained model of the parameters."""
        if not (self.settings is None or isinstance(self.settings, Mapping)):
            raise ConfigError(
                f"`settings` must be a dict of fields of the config. Received {self.settings!r}."
            )
        settings = dict(self.settings or {})
        twice = sorted(settings.keys() & set(_OF_MODEL))
        if twice:
            raise ConfigError(f"`settings` has {twice[0]!r}, which is a parameter. Give it as `{twice[0]}`.")
        return self.model_type({**settings, **self._given(_OF_MODEL)}, **kwargs)

    def _given(self, names: tuple[str, ...]) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def _train(self, rows: Any, targets: Any, weights: Any, class_weight: Any = None, **kwargs: Any) -> None:
        """Train a new model on all rows; set `model_` and `history_`."""
        with _seeded(check_random_state(self.random_state).randint(2**31 - 1)) as seed:
            model = self._new_model(**kwargs)
            kind = model.head_type(targets)
            read = model.read_rows(rows, targets, weights, kind)
            head = kind.from_targets(read.targets)
            read = weighted(read, head, class_weight)
            advised = model.advised_training(len(read.inputs))
            config = TrainConfig(**{**advised, **self._given(_OF_TRAINING), "seed": seed})
            model.adapt(*read)
            # `Scheduled` sets the true number of steps when training begins.
            optimizer, scheduled = scheduled_optimizer(model, config, config.learning_rate, 1)
            model.compile(optimizer, model.head.loss(config.label_smoothing))
            history = model.fit(
                read.inputs,
                read.targets,
                batch_size=config.batch_size,
                sample_weight=read.weights,
                epochs=config.epochs,
                seed=seed,
                callbacks=[scheduled],
                verbose=self.verbose,
            ).history
        check_finite(history["loss"], config)
        self.model_, self.history_ = model, history

    def _outputs(self, rows: Any) -> Any:
        """Return the model's outputs for checked rows."""
        return self.model_.predict(rows, verbose=self.verbose)

    def _rows(self, x: Any, *, fitting: bool = False) -> Any:
        """Return rows as the model takes them; not fitted, raise scikit-learn's NotFittedError."""
        if not fitting:
            check_is_fitted(self)
        x = ordered_rows(x)
        if not hasattr(x, "__array__"):
            refuse_table("The rows", x)
        return x

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class WordRows(ModelEstimator):
    """An estimator of texts or rows of tokens, which may begin with the weights of another model.

    Args:
        start: the model that it begins with, as for the model itself.
    """

    start: Any = None

    def _new_model(self, **kwargs: Any) -> RawModel:
        return super()._new_model(start=self.start, **kwargs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags


class SeriesRows(ModelEstimator):
    """An estimator of series: a table of one feature, an array `[rows, length, features]`, or a list.

    All rows of an array or a table have one length, and scikit-learn's checks are made of it. A list holds
    series of any lengths.
    """

    def _rows(self, x: Any, *, fitting: bool = False) -> Any:
        x = super()._rows(x, fitting=fitting)
        for name in ("n_features_in_", "feature_names_in_") if fitting else ():
            self.__dict__.pop(name, None)  # of a table that another `fit` has seen
        if isinstance(x, list | tuple):
            if fitting and _is_table(x):
                self.n_features_in_ = len(x[0])  # an array of another width is refused, as after a table
            return x
        if getattr(x, "ndim", 2) == 3 or _is_of_objects(x):
            return x
        found = validate_data(
            self,
            x,
            reset=fitting,
            dtype="numeric",
            ensure_all_finite="allow-nan",
            ensure_min_samples=2 if fitting else 1,
        )
        return np.asarray(found)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        return tags


def _is_table(rows: Any) -> bool:
    """Return True for a list of lists of numbers, all of one length."""
    lengths = {len(row) if isinstance(row, list | tuple) else None for row in rows}
    return len(lengths) == 1 and None not in lengths and all(np.ndim(row[0]) == 0 for row in rows if row)


def _is_of_objects(x: Any) -> bool:
    """Return True for an array or column whose entries are series."""
    return getattr(x, "ndim", 2) == 1 and getattr(getattr(x, "dtype", None), "kind", "") == "O"


@contextmanager
def _seeded(seed: int) -> Iterator[int]:
    """Seed Keras for a block; the global generators of Python and NumPy are then as they were."""
    states = random.getstate(), np.random.get_state()
    keras.utils.set_random_seed(seed)
    try:
        yield seed
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])

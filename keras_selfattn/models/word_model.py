"""Base of the models of texts and tokens: words or pieces learned from the rows, or a pretrained model's."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import keras

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.config import checked_config
from keras_selfattn.models.pretrained.fine_tuning_config import FineTuningConfig
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.models.subwords.learned_byte_pairs import saved_vocabulary


class Words(Protocol):
    """The words of a model: learned from its rows, or the pieces of a pretrained model.

    They make the tokenizer and the encoder behind it, and know how both are best trained. A tokenizer is what
    the same words have made; it has `vocabulary`.
    """

    @property
    def rates(self) -> Mapping[str, float]:
        """Factors of the learning rate by the beginning of a weight's path; none if all learn alike."""
        ...

    def optimizer(self) -> Any:
        """Return the optimizer for `compile` without one."""
        ...

    def advised_training(self, rows: int, /) -> dict[str, Any]:
        """Return better values than `TrainConfig`'s defaults for a number of rows."""
        ...

    def alternatives(self) -> list[dict[str, Any]]:
        """Return the trials of tuning, in order."""
        ...

    def tokenizer_of(self, vocabulary: Sequence[str], /) -> Any:
        """Return the tokenizer of a saved vocabulary."""
        ...

    def learn_tokenizer(self, rows: Any, start: Any, /) -> Any:
        """Return the tokenizer of the training rows, or of the model to start from; warn of rows it cuts.

        Raises:
            ConfigError: if there is no model to start from, where one is needed.
            DataError: for rows without any words.
        """
        ...

    def encoder(self, tokenizer: Any, policy: Any, /) -> keras.Model:
        """Return the layers from the tokenizer's ids to the vectors that the head reads."""
        ...


WordsT = TypeVar("WordsT", bound=Words)

# Positions of a training step's slice: fewer make products slower, and more take some 0.2 MB each (MiniLM).
_POSITIONS_AT_ONCE = 1024


class WordModel(RawModel, Generic[WordsT]):
    """A model whose vocabulary and encoder are learned from its rows, or come from a pretrained model.

    A subclass sets `_words`: `LearnedWords`, `LearnedPieces` or `LearnedTokens`, and `PretrainedPieces` or
    `PretrainedTokens` for a config with a pretrained encoder.

    Args:
        config: the model's settings.
        start: the model to start from, or None.

    Attributes:
        start: the model that it starts from, or None.
        tokenizer: turns raw rows into the core's inputs; None before training.
    """

    # The config of a model with a pretrained encoder.
    tuned_config_type: ClassVar[type[FineTuningConfig]]
    # Returns the start at a path.
    starting_point: ClassVar[Callable[[Any], Any]]
    _words: WordsT

    def __init__(self, config: Any = None, *, start: Any = None, **kwargs: Any) -> None:
        begun = None if start is None else type(self).starting_point(start)
        super().__init__(config if begun is None else begun.config(config), **kwargs)
        self.start = begun
        self.tokenizer: Any = None

    def advised_training(self, rows: int) -> dict[str, Any]:
        return self._words.advised_training(rows)

    def alternatives(self) -> list[dict[str, Any]]:
        changes = self._words.alternatives()
        return [each for each in changes if self.start is None or not self.start.contradicted(each)]

    def default_optimizer(self) -> Any:
        return self._words.optimizer()

    @property
    def fine_tuned(self) -> bool:
        """True if pieces and encoder come from a pretrained model."""
        return isinstance(self.config, FineTuningConfig)

    @property
    def learning_rates(self) -> Mapping[str, float]:
        return self._words.rates

    @property
    def _positions_at_once(self) -> int | None:
        return _POSITIONS_AT_ONCE if self.fine_tuned else None

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary": None if self.tokenizer is None else saved_vocabulary(self.tokenizer),
            # The copied weights now belong to this model.
            "start": None if self.start is None or self.tokenizer is not None else self.start.path,
        }

    def _read_config(self, config: Any) -> Any:
        tuned = "pieces" in config if isinstance(config, dict) else isinstance(config, self.tuned_config_type)
        return checked_config(self.tuned_config_type if tuned else self.config_type, config)

    def _check_state(self, vocabulary: Sequence[str] | None, labels: Sequence[str] | None) -> None:
        """Raise ConfigError for a vocabulary without labels, with a start, or the reverse."""
        if (vocabulary is None) != (labels is None):
            raise ConfigError("`vocabulary` and `labels` go together. Received one without the other.")
        self._check_one_beginning(vocabulary)

    def _check_one_beginning(self, vocabulary: Sequence[str] | None) -> None:
        """Raise ConfigError for a vocabulary with a start."""
        if vocabulary is not None and self.start is not None:
            raise ConfigError(
                "`start` is of a model before training, without `vocabulary`. Leave one of them out."
            )

    def _forget(self) -> None:
        super()._forget()
        self.tokenizer = None

    def _prepare(self, rows: Rows) -> None:
        if self.start is not None:
            self.start.copy_to(self.core, self.head)

    def _learn_front_end(self, rows: Rows) -> None:
        self.tokenizer = self._words.learn_tokenizer(rows.inputs, self.start)

"""The text side of a model of masked tokens whose pieces and encoder come from a pretrained model.

Axes: B (batch), T (tokens), N (hidden tokens), D and E (features of the encoder and of the table of tokens).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.long_rows import pieces_within
from keras_selfattn.models.optimizers import FineTuningAdamW
from keras_selfattn.models.pretrained.fine_tuning import epochs_for, rates_of_blocks, steady_optimizer
from keras_selfattn.models.pretrained.fine_tuning_config import MaskedPiecesConfig
from keras_selfattn.models.pretrained.masked_head import guessed
from keras_selfattn.models.pretrained.pretrained_body import pretrained_body, saved_tokenizer
from keras_selfattn.models.text.masked_prediction import MASK, Masking, validation_share

Tensor = Any

_RATE, _BATCH = 1e-4, 32
# Few rows need more epochs for as many steps. Epochs are clipped to this range.
_STEPS, _EPOCHS = 1_000, (1, 20)


class MaskedPieces:
    """The text side of a model of masked tokens whose pieces and encoder come from a pretrained model.

    Args:
        config: of the model.
    """

    def __init__(self, config: MaskedPiecesConfig) -> None:
        self._config = config

    @property
    def rates(self) -> Mapping[str, float]:
        """Factors of the learning rate by the beginning of a weight's path: lower layers learn slower."""
        return rates_of_blocks(self._config.num_layers)

    def optimizer(self) -> FineTuningAdamW:
        """Return the optimizer of `fit`, whose rate stays the same: half of the peak that a schedule has."""
        return steady_optimizer(_RATE, self._config.num_layers)

    def advised_training(self, rows: int) -> dict[str, Any]:
        epochs = epochs_for(_STEPS * _BATCH, rows, *_EPOCHS)
        settings = {"epochs": epochs, "learning_rate": _RATE, "batch_size": _BATCH}
        return settings | {"validation": validation_share(rows)}

    def tokenizer_of(self, vocabulary: Sequence[str]) -> Any:
        """Return the tokenizer of a vocabulary."""
        return saved_tokenizer(self._config, vocabulary)

    def learn_tokenizer(self, texts: Sequence[str], start: Any) -> Any:
        """Return the tokenizer of the model to start from."""
        if start is None:
            raise ConfigError("A `MaskedTokenModel` of pieces needs `start`, a pretrained model's folder.")
        return start.tokenizer

    def rows(self, tokenizer: Any, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids of texts in spans of nearly equal length, int32 `[T]`; no text is cut.

        Each span is between the tokens that a text begins and ends with.
        """
        found: list[np.ndarray] = []
        most = pieces_within(self._config.training_span)
        for row in tokenizer.whole_rows(texts):
            inner = row[1:-1]
            spans = np.array_split(inner, max(1, math.ceil(len(inner) / most)))
            found += [np.concatenate([row[:1], span, row[-1:]]) for span in spans]
        return found

    def masked(self, tokenizer: Any, text: str) -> np.ndarray:
        """Return the ids of a text with `[mask]`, or the folder's own mask, for hidden pieces, int32 `[T]`.

        Raises:
            DataError: for a text of more tokens than the encoder has positions.
        """
        (row,) = tokenizer.whole_rows([text.replace(MASK, tokenizer.settings.mask)])
        if len(row) > self._config.positions:
            raise DataError(
                f"A text with masks must have {self._config.positions} tokens at most, special ones "
                f"included. Received {len(row)}, in {text!r:.80}. Give the part around the masks."
            )
        return row

    def masking(self, tokenizer: Any) -> Masking:
        """Return the ids that hiding needs."""
        special = _special(tokenizer)
        others = [number for number, name in enumerate(tokenizer.names) if name and number not in special]
        return Masking(tokenizer.id_of(tokenizer.settings.mask), sorted(special), np.array(others, np.int32))

    def names(self, tokenizer: Any) -> list[str]:
        """Return the piece of each id; "" for an id that is never guessed."""
        special = _special(tokenizer)
        rows = self._config.vocabulary_size
        found = ["" if number in special else name for number, name in enumerate(tokenizer.names)]
        return found[:rows] + [""] * (rows - len(found))

    def body(self, tokenizer: Any, policy: Any) -> keras.Model:
        """Return the layers from ids `[B, T]` to encoded positions `[B, T, D]`."""
        return pretrained_body(self._config, tokenizer, policy)

    def guessed(self, x: Tensor) -> Tensor:
        """Return the features to compare with the vectors of all tokens, float32 `[N, E]`."""
        return guessed(x, self._config)


def _special(tokenizer: Any) -> set[int]:
    """Return the ids of the tokens that are no pieces of a text."""
    names = ("unknown", "cls", "sep", "pad", "mask")
    tokens = (getattr(tokenizer.settings, name) for name in names)
    found = {tokenizer.id_of(token) for token in tokens if token is not None}
    return found | {tokenizer.written_padding}

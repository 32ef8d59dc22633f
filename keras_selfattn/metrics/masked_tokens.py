"""Figures of a model that predicts hidden tokens, measured on texts without labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import DataError
from keras_selfattn.metrics.report import Columns, Report
from keras_selfattn.models.long_rows import windows
from keras_selfattn.models.text.masked_model import MaskedTokenModel
from keras_selfattn.rows.targets import NO_TARGET
from keras_selfattn.rows.texts import TEXTS


@dataclass(frozen=True)
class MaskedTokenReport(Report):
    """Figures of predicted tokens.

    Args:
        accuracy: share of the hidden tokens that are the model's most likely ones.
        perplexity: e to the mean cross-entropy, in nats: the number of equally likely tokens.
        commonest: accuracy of always predicting the most frequent hidden token.
        tokens: number of hidden tokens.
        count: number of rows.
    """

    accuracy: float
    perplexity: float
    commonest: float
    tokens: int
    count: int

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.count

    def summary(self) -> dict[str, float]:
        """Return the figures by name."""
        return {
            "accuracy": self.accuracy,
            "perplexity": self.perplexity,
            "accuracy_of_the_commonest": self.commonest,
        }

    def tables(self) -> dict[str, Columns]:
        return {}


def evaluate_pretrained(
    model: MaskedTokenModel, texts: Sequence[str], batch_size: int | None = None
) -> MaskedTokenReport:
    """Return a model's figures for hidden tokens of texts, which are the same each time.

    Args:
        model: trained.
        texts: in any container.
        batch_size: rows in a step.

    Raises:
        DataError: for no texts, or none with a token that the model knows.
    """
    rows = text_rows(texts, "texts").inputs
    batches = model.hidden_batches(rows, batch_size)
    ids = batches.ids
    found: Any = model.evaluate(batches.dataset(), verbose=0, return_dict=True)
    return MaskedTokenReport(
        accuracy=found["accuracy"],
        perplexity=math.exp(found["loss"]),
        commonest=float(np.bincount(ids).max() / len(ids)),
        tokens=len(ids),
        count=len(rows),
    )


def text_rows(texts: Sequence[str], source: str) -> LabelledRows:
    """Return texts in windows, as rows without targets."""
    try:
        found = list(windows(TEXTS.read(texts)))
    except DataError as error:
        raise DataError(f"{source}: {error}") from error
    if not found:
        raise DataError(f"{source}: there are no texts, or all of them are blank. Give at least two.")
    return LabelledRows(found, [None] * len(found), source, kind=TEXTS, target_kind=NO_TARGET)

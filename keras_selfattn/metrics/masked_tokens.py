"""Figures of a model that predicts hidden tokens."""

from dataclasses import dataclass

from keras_selfattn.metrics.report import Columns, Report


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

"""Figures of a model that guesses tokens hidden from it."""

from dataclasses import dataclass

from keras_selfattn.metrics.report import Columns, Report


@dataclass(frozen=True)
class MaskedTokenReport(Report):
    """Figures of guessed tokens.

    Args:
        accuracy: share of the hidden tokens that the model takes for the likeliest.
        perplexity: e to the mean cross-entropy, in nats: as of a guess among so many tokens, all alike.
        commonest: accuracy of always guessing the token that is hidden most often.
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
        """Number of rows the figures are of."""
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

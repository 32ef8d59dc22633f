"""Figures of scores of texts: how much of them is explained, how they are ordered, and their distance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from keras_selfattn.metrics.correlations import pearson, spearman
from keras_selfattn.metrics.head_metrics import head_metrics
from keras_selfattn.metrics.numbers import Errors, NumberMetrics, NumberReport, number_report
from keras_selfattn.metrics.report import Columns, Report
from keras_selfattn.models.heads.score_heads import ScoreHead


class ScoreFigures(NamedTuple):
    """Figures of one score of all rows; NaN for those that are not defined.

    Args:
        r_squared: share of the variance that is explained; 0 for always answering the rows' mean. Not defined
            if all true scores are equal.
        mean_absolute_error: in the units of the score.
        root_mean_squared_error: the same.
        pearson: correlation with the true scores. Not defined if all scores of either are equal.
        spearman: correlation of the ranks, those of equal scores averaged; not defined in the same cases.
    """

    r_squared: float
    mean_absolute_error: float
    root_mean_squared_error: float
    pearson: float
    spearman: float


@dataclass(frozen=True)
class ScoreReport(NumberReport):
    """Figures of predicted scores, each by itself.

    Args:
        errors: of the model, over all scores.
        baselines: the same of baselines on the same rows, by name.
        count: number of rows.
        scores: the figures of each score, by the name of the answers: "model", and those of the baselines.
        names: of the scores; their places, from 1 on, if they have none.
    """

    scores: Mapping[str, Sequence[ScoreFigures]]
    names: Sequence[str | int]

    def summary(self) -> dict[str, float]:
        """Return the figures by name: means over the scores, those of each of several, those of baselines."""
        found: dict[str, float] = {}
        for answers, each in self.scores.items():
            errors = self.errors if answers == "model" else self.baselines[answers]
            means = ScoreFigures(*np.mean(each, axis=0).tolist())._asdict()
            means |= {"mean_absolute_error": errors.absolute, "root_mean_squared_error": errors.squared}
            if answers != "model":
                suffix = f"_of_{answers.replace(' ', '_')}"
                # Of a constant baseline there are no correlations.
                found |= {f"{name}{suffix}": value for name, value in means.items() if not np.isnan(value)}
                continue
            found |= means
            for score, figures in zip(self._keys(), each, strict=True) if len(each) > 1 else ():
                found |= {f"{name}_{score}": value for name, value in figures._asdict().items()}
        return found

    def _keys(self) -> list[str | int]:
        """Return the ends of the names of each score's figures; those of baselines begin with "of"."""
        taken = any(str(name).startswith("of_") for name in self.names)
        return [*range(1, len(self.names) + 1)] if taken else [*self.names]

    def tables(self) -> dict[str, Columns]:
        return {"errors": Columns(["answers", "score", *ScoreFigures._fields], self.lines())}

    def lines(self) -> list[tuple[Any, ...]]:
        """Return the figures as lines: name of the answers, name of the score, figures."""
        return [
            (answers, name, *figures)
            for answers, each in self.scores.items()
            for name, figures in zip(self.names, each, strict=True)
        ]


def score_report(
    true: np.ndarray,
    predicted: np.ndarray,
    baselines: Mapping[str, np.ndarray],
    names: Sequence[str] | None = None,
) -> ScoreReport:
    """Return the figures of `predicted`, and of each baseline, against `true`.

    Args:
        true: float `[rows, scores]`.
        predicted: the same, from the model.
        baselines: the same, from baselines, by name.
        names: of the scores, if they have any.

    Example:

        >>> true, predicted = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0], [2.5], [2.5]])
        >>> round(score_report(true, predicted, {}).scores["model"][0].spearman, 3)
        0.866
    """
    whole = number_report(true, predicted, baselines)
    scores = {
        name: [_figures(*columns) for columns in zip(_columns(true), _columns(each), strict=True)]
        for name, each in {"model": predicted, **baselines}.items()
    }
    named = names or [*range(1, true.shape[1] + 1)]
    return ScoreReport(whole.errors, whole.baselines, whole.count, scores, named)


def _columns(numbers: np.ndarray) -> np.ndarray:
    return np.asarray(numbers, np.float64).T


def _figures(true: np.ndarray, predicted: np.ndarray) -> ScoreFigures:
    error = predicted - true
    # The mean of equal numbers may be another number, by rounding.
    spread = 0.0 if (true == true[0]).all() else ((true - true.mean()) ** 2).sum()
    explained = 1 - float((error**2).sum() / spread) if spread else float("nan")
    errors = Errors(float(np.abs(error).mean()), float(np.sqrt((error**2).mean())))
    return ScoreFigures(explained, *errors, pearson(true, predicted), spearman(true, predicted))


@head_metrics.register(ScoreHead)
class ScoreMetrics(NumberMetrics):
    """Of one score for each text, or several."""

    def report(
        self, targets: Sequence[np.ndarray], outputs: Any, baselines: Mapping[str, np.ndarray]
    ) -> Report:
        return score_report(self.head.encoded(targets), outputs, baselines, self.head.names)

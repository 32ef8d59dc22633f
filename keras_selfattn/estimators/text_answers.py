"""Estimator of texts that a model writes for texts."""

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.utils.validation import check_consistent_length

from keras_selfattn.estimators.base import WordRows
from keras_selfattn.models import SequenceToSequence
from keras_selfattn.models.sequences.sequence_head import AnswerHead
from keras_selfattn.rows.containers import ordered_rows


@dataclass(eq=False, repr=False, kw_only=True)
class SequenceToSequenceEstimator(WordRows):
    """scikit-learn estimator of texts from texts: a `models.SequenceToSequence`.

    Args:
        start: a run of `SequenceToSequence` whose symbols and weights it starts from.
        width, num_layers, num_heads, dropout, epochs, batch_size, learning_rate, settings, random_state,
            verbose: as for `ModelEstimator`; `settings={"tokens": "characters", "beams": 4}` for answers of
            characters that beams search for.

    Raises:
        NotFittedError: of scikit-learn, for `predict` before `fit`.

    Example:

        >>> settings = {"tokens": "characters", "decoder_layers": 1, "max_new_tokens": 4}
        >>> estimator = SequenceToSequenceEstimator(width=8, num_heads=2, epochs=1, settings=settings)
        >>> estimator.fit(["ab", "ba"] * 4, ["ba", "ab"] * 4).predict(["ab", ""]).shape
        (2,)
    """

    model_type: ClassVar = SequenceToSequence

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "SequenceToSequenceEstimator":  # noqa: N803
        """Train a new model on all rows.

        Args:
            X: texts.
            y: the answer to each, or a list of the right ones.
            sample_weight: float for each row, at least 0.

        Raises:
            DataError: for rows that cannot train the model.
            ConfigError: for a parameter out of range.
        """
        rows = self._rows(X, fitting=True)
        if y is None:
            raise ValueError("This estimator requires y to be passed, but the target y is None.")
        answers = AnswerHead.read(y)
        check_consistent_length(rows, answers)
        self._train(rows, answers, sample_weight)
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the answer to each text, an array of str."""
        found = self._outputs(self._rows(X))
        texts = np.empty(len(found), dtype=object)
        texts[:] = found
        return texts

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Return the share of the texts whose answer is exactly a right one, but for blanks between words."""
        found, right = self.predict(X), AnswerHead.read(y)
        check_consistent_length(found, right)
        same = cast(AnswerHead, self.model_.head).comparable
        exact = [same(text) in map(same, answers) for text, answers in zip(found, right, strict=True)]
        return float(np.average(exact, weights=ordered_rows(sample_weight)))

"""One answer of a model that writes texts, and the attention behind one.

Axes: S (symbols of a source), T (symbols of an answer).
"""

from dataclasses import dataclass

import numpy as np

from keras_selfattn.drawing.notebook import shown_alignment


@dataclass(frozen=True)
class Answer:
    """A text that a model wrote for a source, with the others that it considered.

    Args:
        text: the best candidate.
        score: mean log probability of its symbols, the end symbol included; 0 for an empty source.
        ended: False if it was cut at `max_new_tokens`.
        candidates: the texts that the search ended with, best first.
        candidate_scores: of each, the sum of its log probabilities by its length to the power of
            `length_penalty`.

    Example:

        >>> Answer("Hallo", -0.1, True, ("Hallo", "Hi"), (-0.1, -0.7)).text
        'Hallo'
    """

    text: str
    score: float
    ended: bool
    candidates: tuple[str, ...]
    candidate_scores: tuple[float, ...]


EMPTY = Answer("", 0.0, True, ("",), (0.0,))
"""The answer to an empty or blank source."""


@dataclass(frozen=True, eq=False)
class AnswerExplanation:
    """The attention from the symbols of an answer to those of its source. A notebook shows it as a matrix.

    Args:
        source: the symbols of the source `[S]`, as texts, the end symbol included.
        target: the symbols of the answer `[T]`, the end symbol included.
        weights: float32 `[T, S]`, rows sum to 1: of the last decoder block, mean of its heads. They say what
            the model read before it wrote each symbol, not why it did.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: np.ndarray

    def _repr_html_(self) -> str:
        return shown_alignment(self.source, self.target, self.weights)

"""Rules by which probabilities become labels: the largest, at a tie the first; or each of one half or more.

These are in NumPy. An exported graph has the same two rules in `export/signatures/answers.py`. Rows of labels
that mark spans are chosen whole, in both by `models/tokens/span_labels.py`.
"""

import numpy as np

THRESHOLD = 0.5
"""From this probability on, one of several labels of a row counts as predicted."""


def largest(probabilities: np.ndarray) -> np.ndarray:
    """Return the index of the largest of probabilities `[..., C]`, int `[...]`; at a tie the first.

    Example:

        >>> largest(np.array([[0.2, 0.4, 0.4]])).tolist()
        [1]
    """
    return np.argmax(probabilities, axis=-1)


def at_least_half(probabilities: np.ndarray) -> np.ndarray:
    """Return which of probabilities `[..., C]` are one half or more, bool `[..., C]`.

    Example:

        >>> at_least_half(np.array([[0.5, 0.4]])).tolist()
        [[True, False]]
    """
    return np.asarray(probabilities) >= THRESHOLD

"""Losses of vectors of texts: cosines against scores, and texts that belong together against all others.

Axes: B (rows of a batch), K (texts of a row), N (documents of a batch), D (features).
"""

from typing import Any, Literal

import keras
from keras import ops

Tensor = Any

ScoreLoss = Literal["order", "cosine"]
SCORE_LOSSES = ("order", "cosine")

# Factor of cosines, a temperature of 1/20, in both losses that compare: that of their authors' code.
_SCALE = 20.0
_NEVER = -1e9


def cosines_of_pairs(vectors: Tensor) -> Tensor:
    """Return the cosine of the first two vectors of each row, float32 `[B]`.

    Args:
        vectors: float `[B, K, D]`.
    """
    unit: Any = ops.normalize(ops.cast(vectors, "float32"), axis=-1)
    return ops.sum(unit[:, 0] * unit[:, 1], axis=-1)


def order_loss(scores: Tensor, vectors: Tensor) -> Tensor:
    """Return how far the order of cosines is from that of scores: a scalar.

    It is the logarithm of 1 plus the sum of exp(20 (a - b)) over all two pairs of which that with the cosine
    a has the smaller score. Only the order of scores counts, so they may have any range.

    Args:
        scores: float `[B]`.
        vectors: float `[B, 2, D]`.

    Reference: Su 2022, "CoSENT", https://kexue.fm/archives/8847; `CoSENTLoss` of sentence-transformers.
    """
    cosines = _SCALE * cosines_of_pairs(vectors)  # [B]
    differences = cosines[:, None] - cosines[None, :]  # [B, B]
    wrong = ops.where(scores[:, None] < scores[None, :], differences, _NEVER)
    return ops.logsumexp(ops.concatenate([ops.zeros((1,), "float32"), ops.reshape(wrong, (-1,))]))


def cosine_loss(scores: Tensor, vectors: Tensor) -> Tensor:
    """Return the squared error of each cosine against its score, float32 `[B]`.

    Args:
        scores: float `[B]`, in [-1, 1].
        vectors: float `[B, 2, D]`.

    Reference: Reimers and Gurevych 2019, "Sentence-BERT", section 3, "Regression Objective Function".
    """
    return ops.square(cosines_of_pairs(vectors) - scores)


def belonging_loss(numbers: Tensor, vectors: Tensor) -> Tensor:
    """Return the cross-entropy of each query's own document among the documents of all rows, float32 `[B]`.

    The first text of a row is its query, the second its document, and the others are documents that do not
    belong to it. All of them are candidates for every query of the batch, but for those that would be no
    error: the documents of rows with the same query, documents equal to one of these or to the query itself,
    and missing ones.

    Args:
        numbers: of the texts, `[B, K]`: the same for equal texts, negative for a missing one.
        vectors: float `[B, K, D]`.

    Reference: Henderson et al. 2017, "Efficient Natural Language Response Suggestion for Smart Reply", 4.4;
    `MultipleNegativesRankingLoss` of sentence-transformers.
    """
    unit: Any = ops.normalize(ops.cast(vectors, "float32"), axis=-1)
    documents = ops.reshape(ops.transpose(unit[:, 1:], (1, 0, 2)), (-1, unit.shape[-1]))  # [N, D]
    # The documents of all rows, in their order, then all first negatives, all second ones, ….
    names = ops.reshape(ops.transpose(numbers[:, 1:]), (-1,))  # [N]
    own = ops.eye(ops.shape(numbers)[0], ops.shape(names)[0], dtype="bool")  # [B, N]
    left_out = ops.logical_and(_no_errors(numbers, names), ops.logical_not(own))
    cosines: Any = ops.matmul(unit[:, 0], ops.transpose(documents))  # [B, N]
    logits = ops.where(left_out, _NEVER, _SCALE * cosines)
    return ops.logsumexp(logits, axis=-1) - ops.sum(ops.where(own, logits, 0.0), axis=-1)


def _no_errors(numbers: Tensor, names: Tensor) -> Tensor:
    """Return which documents would be no error for a query, or are missing, bool `[B, N]`."""
    queries, documents = numbers[:, 0], numbers[:, 1]  # [B] each
    alike = ops.cast(ops.equal(queries[:, None], queries[None, :]), "float32")  # [B, B]
    equal = ops.cast(ops.equal(documents[:, None], names[None, :]), "float32")  # [B, N]
    belong: Any = ops.matmul(alike, equal)  # how many documents of the same query equal each
    itself = ops.equal(queries[:, None], names[None, :])
    return ops.logical_or(belong > 0, ops.logical_or(itself, names[None, :] < 0))


@keras.saving.register_keras_serializable(package="keras_selfattn")
class VectorLoss(keras.losses.Loss):
    """The loss of the vectors of texts, by what is known of them.

    Args:
        score_loss: for scores, "order" (`order_loss`) or "cosine" (`cosine_loss`).
        reduction: as in `keras.losses.Loss`.
        name: of the loss.
        dtype: of the computation.

    Call arguments:
        y_true: scores of pairs `[B, 1]`; or the numbers of texts that belong together, `[B, K]`, K at least
            2: the same for equal texts, -1 for a missing one (`belonging_loss`). As float32 they are exact up
            to 16 million different texts.
        y_pred: vectors, float `[B, K, D]`.

    Returns:
        A scalar.

    Example:

        >>> import numpy as np
        >>> vectors = np.array([[[1, 0], [1, 0]], [[0, 1], [0, 1]]], "float32")
        >>> round(float(VectorLoss()(np.array([[0, 1], [2, 3]]), vectors)), 6)
        0.0
        >>> round(float(VectorLoss("cosine")(np.array([[1.0], [0.0]]), vectors)), 6)
        0.5
    """

    def __init__(
        self,
        score_loss: ScoreLoss = "order",
        reduction: str = "sum_over_batch_size",
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.score_loss = score_loss

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        if y_true.shape[-1] > 1:
            return belonging_loss(y_true, y_pred)
        scores = ops.reshape(y_true, (-1,))
        return (order_loss if self.score_loss == "order" else cosine_loss)(scores, y_pred)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "score_loss": self.score_loss}

"""The head of a model whose answers are texts: right answers as symbols, their loss and accuracy.

Axes: B (batch), T (symbols of an answer), V (vocabulary).
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_selfattn.errors import DataError
from keras_selfattn.models.batches.sample_weights import aligned
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.heads.many_logits import crossentropy, highest
from keras_selfattn.models.sequences.sequence_core import NEVER
from keras_selfattn.models.sequences.symbols import PADDING, Symbols
from keras_selfattn.rows.containers import ordered_rows, refuse_table
from keras_selfattn.rows.label_names import is_missing
from keras_selfattn.rows.targets import ANSWERS
from keras_selfattn.rows.texts import is_text

Tensor = Any
Answers = tuple[str, ...]


class AnswerHead(Head):
    """The head of a model whose answers are texts. A target is a tuple of right answers, the main one first.

    Args:
        symbols: of the answers; None before they are learned.
        max_new_tokens: symbols of an answer, the end symbol included; longer ones are cut.
    """

    task: ClassVar[str] = "to-text"
    target_kind = ANSWERS

    def __init__(self, symbols: Symbols | None = None, max_new_tokens: int = 0) -> None:
        self.symbols, self.max_new_tokens = symbols, max_new_tokens

    @property
    def state(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_targets(cls, targets: Sequence[Answers]) -> "AnswerHead":
        """Return the head without symbols, which the model learns from both sides.

        Raises:
            DataError: if all answers are blank.
        """
        if not any(text.strip() for answers in targets for text in answers):
            raise DataError(
                f"The answers of all {len(targets)} rows are empty, so there is nothing to learn. Name the "
                "column that holds them (--target), or give other targets."
            )
        return cls()

    def comparable(self, text: str) -> str:
        """Return an answer as it is compared; see `Symbols.comparable`."""
        return text if self.symbols is None else self.symbols.comparable(text)

    def out_of_reach(self, targets: Sequence[Answers], what: str = "rows") -> str:
        if self.symbols is None:
            return ""
        texts = [text for answers in targets for text in answers]
        unknown = self.symbols.unknown_in(texts, self.max_new_tokens)
        # A row whose alternatives are known can be answered.
        starts = np.cumsum([0, *map(len, targets[:-1])])
        rows = int(np.logical_and.reduceat(unknown.texts, starts).sum()) if len(targets) else 0
        if not rows:
            return ""
        return (
            f"The right answers of {rows:,} of {len(targets):,} {what} have {self.symbols.unit} that the "
            f"model does not know and never writes, such as {unknown.named}."
        )

    @staticmethod
    def read(y: Any) -> list[Answers]:
        """Return the right answers of each row, from texts, or lists of the right ones, in any container.

        Raises:
            DataError: for no targets, a table, or a row whose answers are no texts, with its number.
        """
        if y is None:
            raise DataError("Answers are needed with sources. Received None; give a text for each source.")
        if is_text(y):
            raise DataError("Answers come as a list. Received one string; wrap it in a list: [text].")
        y = ordered_rows(y)
        refuse_table("The answers", y)
        return [_answers(row, given) for row, given in enumerate(y)]

    def encoded(self, targets: Sequence[Answers]) -> list[np.ndarray]:
        """Return the symbols to learn of each row's main answer, int32 `[T]`; none before any are known."""
        if self.symbols is None:
            return [np.zeros(0, np.int32) for _ in targets]
        found = self.symbols.answers([answers[0] for answers in targets], self.max_new_tokens)[0]
        return [labels_of(answer) for answer in found]

    def outputs(self, x: Any, wide: Any = None, first: Any = None) -> Tensor:
        return x

    def loss(self, label_smoothing: float = 0.0) -> Any:
        return AnswerCrossentropy(label_smoothing)

    def metrics(self) -> list[Any]:
        return [SymbolAccuracy(name="accuracy")]

    @property
    def smooths_labels(self) -> bool:
        return True


def labels_of(answer: np.ndarray) -> np.ndarray:
    """Return the symbols to learn of an answer with its beginning, int32 `[T + 1]` to `[T]`.

    An unknown symbol stays: the loss leaves it out, since no answer can have it, and accuracy counts it as
    wrong.

    Example:

        >>> labels_of(np.array([2, 7, 1, 3], np.int32)).tolist()
        [7, 1, 3]
    """
    return answer[1:]


@keras.saving.register_keras_serializable(package="keras_selfattn")
class AnswerCrossentropy(keras.losses.Loss):
    """Cross-entropy of the symbols of answers, mean over those that answers can have.

    Padding and unknown symbols are left out: no logit of these is learned.

    Args:
        label_smoothing: share in [0, 1) of each symbol that is spread evenly over those that answers can
            have.
        reduction: as in `keras.losses.Loss`.
        name: of the loss.
        dtype: of the computation. Keras casts the labels to it, too: half precision would round them.

    Call arguments:
        y_true: int `[batch, length]`, 0 is padding, 1 an unknown symbol.
        y_pred: logits, float32 `[batch, length, vocabulary]`.
        sample_weight: float `[batch]`, `[batch, 1]` or `[batch, length]`, or None.

    Example:

        >>> logits = np.zeros((1, 2, 5), "float32")
        >>> logits[..., :3] = -1e9
        >>> round(float(AnswerCrossentropy(0.1)(np.array([[4, 0]]), logits)), 4)  # one of two
        0.6931

    Reference: Szegedy et al. 2016, "Rethinking the Inception Architecture", section 7.
    """

    def __init__(
        self,
        label_smoothing: float = 0.0,
        reduction: str = "sum_over_batch_size",
        name: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.label_smoothing = label_smoothing

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self.label_smoothing}

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        real: Any = ops.cast(ops.greater_equal(y_true, NEVER), self.dtype)  # [B, T]
        if self.reduction == "sum_over_batch_size":  # Keras divides by all positions
            count: Any = ops.cast(ops.size(real), self.dtype)
            real = real * count / ops.maximum(ops.sum(real), 1)
        if sample_weight is not None:
            real = real * ops.cast(aligned(sample_weight, y_pred), self.dtype)
        return super().__call__(y_true, y_pred, real)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        labels: Any = ops.maximum(ops.cast(y_true, "int32"), NEVER)  # of padding any, but none of -1e9
        size = y_pred.shape[-1]
        share = np.where(np.arange(size) < NEVER, 0, 1 / (size - NEVER)).astype(np.float32)
        return crossentropy(labels, y_pred, self.label_smoothing, share)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class SymbolAccuracy(keras.metrics.Mean):
    """Share of the symbols of answers that the model gives after the right ones before, without padding.

    An unknown symbol counts as wrong: no answer can have it.

    Call arguments:
        y_true, y_pred, sample_weight: as for `AnswerCrossentropy`.

    Example:

        >>> accuracy = SymbolAccuracy()
        >>> accuracy.update_state(np.array([[4, 3, 0]]), np.eye(5)[None, [4, 4, 0]])
        >>> float(accuracy.result())
        0.5
    """

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        chosen: Any = highest(y_pred)  # [B, T]
        known: Any = ops.cast(y_true, chosen.dtype)
        weights: Any = ops.cast(ops.not_equal(known, PADDING), self.dtype)
        if sample_weight is not None:
            weights = weights * ops.cast(aligned(sample_weight, y_pred), self.dtype)
        super().update_state(ops.reshape(ops.equal(chosen, known), [-1]), ops.reshape(weights, [-1]))


def _answers(row: int, given: Any) -> Answers:
    """Return the right answers of a row, each once."""
    several = given.tolist() if isinstance(given, np.ndarray) else given
    several = [several] if is_text(several) else several
    if isinstance(several, list | tuple) and several and all(map(is_text, several)):
        texts = (text.decode(errors="replace") if isinstance(text, bytes) else text for text in several)
        return tuple(dict.fromkeys(texts))
    one = not isinstance(several, list | tuple)
    hint = " Give '' for an empty answer, or leave the row out." if one and is_missing(given) else ""
    raise DataError(
        f"Answer {row} (counted from 0) must be a text, or a list of the right ones. Received "
        f"{given!r:.80}.{hint}"
    )

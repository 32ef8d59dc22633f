"""Pieces back to texts, byte for byte, in NumPy and as stock TensorFlow operations.

Axes: B (rows), L (pieces of a row), V (vocabulary).
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from keras_selfattn.errors import DataError
from keras_selfattn.models.subwords.learned_byte_pairs import END

Tensor = Any


class SpelledIds(Protocol):
    """Ids that each stand for bytes, as those of `LearnedBytePairs`."""

    @property
    def bytes_of_ids(self) -> Sequence[bytes]:
        """The bytes of each id `[V]`; none of a special one."""
        ...

    def id_of(self, token: str, /) -> int:
        """Return the id of a special symbol."""
        ...


class PieceTexts:
    """Write the texts of rows of pieces.

    The bytes of a row's pieces, up to the first end symbol, are its text. Special pieces have no bytes.
    Bytes that are not UTF-8, such as those of a character that was cut, become the replacement character
    U+FFFD, as in Python.

    Args:
        tokenizer: of the pieces, `LearnedBytePairs` or another with bytes of its ids.

    Call arguments:
        ids: int32 or int64 `[B, L]`, dense or ragged.

    Returns:
        string `[B]`.

    Example:

        >>> from keras_selfattn.models.subwords.learned_byte_pairs import LearnedBytePairs
        >>> tokenizer = LearnedBytePairs(["Ã ¼", "Ġ f"], max_tokens=32)
        >>> texts = PieceTexts(tokenizer)
        >>> ids = tokenizer(tf.constant(["für 🙂", ""]))
        >>> texts(ids).numpy().tolist() == ["für 🙂".encode(), b""], texts.of(ids.numpy())
        (True, ['für 🙂', ''])

    Reference: The Unicode Standard, section 3.9, "U+FFFD Substitution of Maximal Subparts".
    """

    def __init__(self, tokenizer: SpelledIds) -> None:
        spelled = list(tokenizer.bytes_of_ids)
        self._bytes, self._end = np.array(spelled, dtype=object), tokenizer.id_of(END)
        self._lengths = np.array([len(piece) for piece in spelled], np.int64)

    def __call__(self, ids: Tensor) -> Tensor:
        if isinstance(ids, tf.RaggedTensor):
            ids = ids.to_tensor(self._end)
        ended = tf.cumsum(tf.cast(ids == self._end, tf.int32), axis=1) > 0  # [B, L]
        pieces = tf.gather(tf.constant(self._bytes.tolist(), tf.string), ids)
        joined = tf.strings.reduce_join(tf.where(ended, "", pieces), axis=1)  # [B]
        return tf.strings.unicode_transcode(joined, "UTF-8", "UTF-8", errors="replace")

    def of(self, ids: Any) -> list[str]:
        """Return the text of each row of ids, int `[B, L]` or B rows of any lengths.

        Raises:
            DataError: for ids that are no integers, or of no piece.
        """
        return [
            b"".join(self._bytes[row[: self._length(row)]]).decode("utf-8", "replace")
            for row in map(self._checked, ids)
        ]

    def offsets(self, ids: Any) -> np.ndarray:
        """Return where each piece of a row begins and ends, in bytes of the row's text, int64 `[L, 2]`.

        Special pieces, and all from the first end symbol on, are empty. Bytes are those of the pieces: where
        they are not UTF-8, the text with its replacement characters is longer.

        Args:
            ids: int `[L]`.

        Raises:
            DataError: for ids that are no integers, or of no piece.

        Example:

            >>> from keras_selfattn.models.subwords.learned_byte_pairs import LearnedBytePairs
            >>> tokenizer = LearnedBytePairs(["i t"], max_tokens=8)
            >>> PieceTexts(tokenizer).offsets(tokenizer(tf.constant(["ä it"]))[0]).tolist()
            [[0, 0], [0, 1], [1, 2], [2, 3], [3, 5], [5, 5]]
        """
        row = self._checked(ids)
        lengths = self._lengths[row]
        lengths[self._length(row) :] = 0
        ends = np.cumsum(lengths)
        return np.stack([ends - lengths, ends], axis=-1)

    def _length(self, row: np.ndarray) -> int:
        """Return the number of pieces before the first end symbol."""
        (ends,) = np.nonzero(row == self._end)
        return int(ends[0]) if len(ends) else len(row)

    def _checked(self, row: Any) -> np.ndarray:
        found = np.asarray(row)
        if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
            raise DataError(
                "A row of pieces must be integers, one for each piece. "
                f"Received {found.dtype} of the shape {found.shape}."
            )
        if found.size and not 0 <= int(found.min()) <= int(found.max()) < len(self._bytes):
            raise DataError(
                f"Ids of pieces are 0 to {len(self._bytes) - 1}. Received {int(found.min())} to "
                f"{int(found.max())}."
            )
        return found.astype(np.int64)

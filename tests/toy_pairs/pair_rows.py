"""Step 1: the kind of rows. Two texts are a row."""

from typing import Any

from keras_selfattn.errors import DataError
from keras_selfattn.rows.containers import ordered_rows
from keras_selfattn.rows.kind import RowKind, Written
from keras_selfattn.rows.texts import letters_alone

Pair = tuple[str, str]


class PairRows(RowKind[Pair]):
    """Pairs of texts."""

    name, subject, plural, unit = "pair", "pair", "Pairs", "characters"
    alike_but_for = "case, spaces and punctuation"
    headings = ("text", "text_pair")

    def are_rows(self, x: Any) -> bool:
        return isinstance(x, list | tuple)

    def read(self, x: Any) -> list[Pair]:
        return [self._pair(row, given) for row, given in enumerate(ordered_rows(x))]

    def _pair(self, row: int, given: Any) -> Pair:
        texts = tuple(given) if isinstance(given, list | tuple) else ()
        if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
            raise DataError(f"Pair {row} (counted from 0) must be two texts. Received {given!r:.80}.")
        return texts

    def key(self, row: Pair) -> Pair:
        return row

    def loose_key(self, row: Pair) -> Pair:
        return letters_alone(row[0]), letters_alone(row[1])

    def length(self, row: Pair) -> int:
        return sum(map(len, row))

    def is_short(self, row: Pair) -> bool:
        return 0 < self.length(row) <= 300

    def shown(self, row: Pair) -> str:
        return " / ".join(row)

    def cells(self, row: Pair) -> tuple[str, ...]:
        return row

    def picture(self, row: Pair) -> Written:
        return Written(self.shown(row))


PAIRS = PairRows()

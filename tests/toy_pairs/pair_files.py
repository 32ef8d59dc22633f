"""Step 2: the reader. It returns rows that say their kind and their targets' kind."""

import csv
from pathlib import Path

from pair_rows import PAIRS

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.rows.targets import ONE_LABEL


def read_pairs(path: Path, text: str, label: str) -> LabelledRows:
    """Return the rows of a table whose second text is in the column `text_pair`."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    pairs = [(line[text], line["text_pair"]) for line in lines]
    where = range(2, 2 + len(lines))
    kinds = {"kind": PAIRS, "target_kind": ONE_LABEL}
    return LabelledRows(pairs, [line[label] for line in lines], str(path), where, **kinds)

"""A kind of rows is one class: splits, duplicates, reports and mistakes ask it, and never a Python type."""

import pickle

import numpy as np
import pandas as pd
import pytest

from keras_selfattn import models
from keras_selfattn.data import (
    cut_windows,
    read_images,
    read_regression,
    read_series,
    read_table,
    read_tagged,
)
from keras_selfattn.data.labelled import LabelledRows, as_rows
from keras_selfattn.metrics.evaluation import read_labelled_rows
from keras_selfattn.metrics.mistakes import mistakes_of
from keras_selfattn.models.heads.class_heads import ClassHead
from keras_selfattn.report.misread import misread_section
from keras_selfattn.report.rows import data_section
from keras_selfattn.report.sections import Table
from keras_selfattn.rows.images import IMAGES
from keras_selfattn.rows.kind import RowKind, Written
from keras_selfattn.rows.series import SERIES
from keras_selfattn.rows.targets import LABEL_PER_POSITION, LABEL_SET, NUMBERS, ONE_LABEL
from keras_selfattn.rows.texts import TEXTS
from keras_selfattn.rows.tokens import TOKENS


class Pairs(RowKind[tuple[str, str]]):
    """Two texts a row, in any order: a kind that the product knows nothing of."""

    name, subject, plural, unit = "pair", "pair", "Pairs", "characters of both"
    alike_but_for = "the case of letters"
    headings = ("first", "second")

    def are_rows(self, x):
        return isinstance(x, list)

    def read(self, x):
        return [tuple(row) for row in x]

    def key(self, row):
        return frozenset(row)

    def loose_key(self, row):
        return frozenset(map(str.casefold, row))

    def length(self, row):
        return sum(map(len, row))

    def is_short(self, row):
        return self.length(row) <= 300

    def shown(self, row):
        return " / ".join(row)

    def cells(self, row):
        return row

    def picture(self, row):
        return Written(self.shown(row))


PAIRS = Pairs()
ANSWERED = [("Is it good?", "Yes."), ("Is it long?", "No."), ("IS IT GOOD?", "yes."), ("Is it long?", "No.")]


def of(section, title):
    (found,) = [each for each in section.blocks if isinstance(each, Table) and each.title == title]
    return [list(row) for row in found.rows]


def pairs(chosen=slice(None), targets=("+", "-", "-", "+")):
    return LabelledRows(ANSWERED[chosen], list(targets)[chosen], "made up", kind=PAIRS)


def test_equal_rows_of_a_new_kind_stay_in_one_part():
    asked = [(f"question {n % 50}", f"answer {n % 50}")[:: 1 if n < 100 else -1] for n in range(200)]
    rows = LabelledRows(asked, ["+", "-"] * 100, "made up", kind=PAIRS)
    kept, held_out = rows.split(0.2, 0)
    assert set(map(frozenset, kept.inputs)).isdisjoint(map(frozenset, held_out.inputs))
    assert len(held_out) == 40
    assert (kept.kind, held_out.kind) == (PAIRS, PAIRS)


def test_a_report_asks_a_new_kind_for_lengths_duplicates_and_leaks():
    found = data_section({"train": pairs(slice(2)), "test": pairs(slice(2, 4))})
    assert of(found, "Lengths in characters of both") == [
        ["train", 14, 14.5, pytest.approx(14.95), 15],
        ["test", 14, 14.5, pytest.approx(14.95), 15],
    ]
    counted = dict(of(found, "Rows with the same input"))
    assert counted["test rows that are also training rows"] == 1
    assert counted["test rows that are training rows but for the case of letters"] == 1
    examples = of(found, "The first held-out rows that are also training rows")
    assert examples == [["test", "row 1", "row 1", "Is it long? / No."]]
    twice = dict(of(data_section({"train": pairs()}), "Rows with the same input"))
    assert twice["twice in the train rows"] == 1
    assert twice["of these, with another target in the train rows"] == 1


def test_mistakes_show_a_new_kind_in_its_own_columns():
    head, outputs = ClassHead(["+", "-"]), np.array([[0.1, 0.9], [0.2, 0.8], [0.3, 0.7], [0.9, 0.1]])
    found = mistakes_of(head, pairs(), outputs)
    assert list(found.header) == ["where", "first", "second", "label", "predicted", "probability"]
    assert found.rows == [("row 0", "Is it good?", "Yes.", "+", "-", 0.9)]
    shown = misread_section(head, pairs(), outputs)
    (table,) = [each for each in shown.blocks if isinstance(each, Table)]
    assert table.header[1:3] == ["first", "second"]
    assert table.rows[0][1:3] == ["<bdi>Is it good?</bdi>", "<bdi>Yes.</bdi>"]
    assert any("for a pair that two labels" in str(each) for each in shown.blocks)


def test_readers_say_what_they_read(tmp_path):
    def file(name, content):
        (tmp_path / name).write_text(content)
        return tmp_path / name

    series = "id,label,load\na,2.5,1\na,2.5,3\nb,4,7\n"
    np.savez(tmp_path / "grey.npz", x=np.zeros((2, 3, 3), np.uint8), y=[0, 1])
    told = {
        (TEXTS, ONE_LABEL): read_table(file("one.csv", "text,label\ngood,+\nbad,-\n")),
        (TEXTS, LABEL_SET): read_table(file("lists.jsonl", '{"text": "good", "label": ["+"]}\n')),
        (TOKENS, LABEL_PER_POSITION): read_tagged(file("rows.conll", "a DET\nfilm NOUN\n")),
        (SERIES, ONE_LABEL): read_series(file("named.csv", series)),
        (SERIES, NUMBERS): read_regression(file("numbers.csv", series)),
        (IMAGES, ONE_LABEL): read_images(tmp_path / "grey.npz"),
    }
    for kinds, rows in told.items():
        assert (rows.kind, rows.target_kind) == kinds
        assert (rows.take([0]).kind, rows.take([0]).target_kind) == kinds
    # Of fastText's form, where the first row has one label of a file of several.
    lines = read_table(file("films.txt", "__label__a good\n__label__a __label__b bad\n"))
    assert (lines.kind, lines.target_kind) == (TEXTS, LABEL_SET)
    windows = cut_windows([np.arange(5.0)], context=2, horizon=2)
    assert (windows.kind, windows.target_kind) == (SERIES, NUMBERS)


def test_a_pair_of_columns_has_the_kind_of_the_model_that_reads_it():
    assert as_rows((ANSWERED, ["+"] * 4), "training rows", PAIRS).kind == PAIRS
    given = LabelledRows(["a"], ["+"], "made up")
    assert as_rows(given, "training rows", PAIRS) is given


def test_a_model_that_reads_rows_gives_them_its_kinds():
    class Marked(type(TEXTS)):
        unit = "letters"

    class Reader(models.TextClassifier):
        row_kind = Marked()

    guessed = LabelledRows(["good"], [["+"]], "made up")
    read = read_labelled_rows(Reader(), guessed, ClassHead)
    assert (guessed.kind, guessed.target_kind) == (TEXTS, LABEL_SET)
    assert (read.kind, read.target_kind, read.targets) == (Marked(), ONE_LABEL, ["+"])


def test_kinds_are_the_same_in_another_process():
    rows = pickle.loads(pickle.dumps(LabelledRows([["a"]], [["x"]], "made up")))
    assert (rows.kind, rows.target_kind) == (TOKENS, LABEL_SET)
    assert TOKENS != TEXTS
    assert LABEL_PER_POSITION != LABEL_SET


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [
        (["a"], TEXTS),
        ([["a", "b"]], TOKENS),
        ([np.zeros(3)], SERIES),
        ([np.zeros((3, 1))], SERIES),
        ([np.zeros((2, 2, 1))], IMAGES),
        ([pd.Series([1.0, 2.0])], SERIES),
        ([], TEXTS),
    ],
)
def test_rows_made_by_hand_have_a_guessed_kind(inputs, kind):
    assert LabelledRows(inputs, ["x"] * len(inputs), "made up").kind == kind

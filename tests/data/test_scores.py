"""Texts with scores from tables: columns, lists, and cells that are no scores, with their lines."""

import json
import re

import pytest

from keras_selfattn.data.scores import read_scores
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.rows.targets import NUMBERS
from keras_selfattn.rows.text_pairs import TEXT_PAIRS
from keras_selfattn.rows.texts import TEXTS


def written(folder, content, name="rows.csv"):
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name


def numbers(rows):
    return [target.tolist() for target in rows.targets]


def test_a_column_or_several_are_read_in_the_order_they_are_named_in(tmp_path):
    file = written(tmp_path, 'text,a,b,"a,b"\ngood,4.5,1,7\nbad,-1e0, 2 ,8\n')
    rows = read_scores(file, label="a")
    assert (rows.inputs, numbers(rows)) == (["good", "bad"], [[4.5], [-1.0]])
    assert (rows.kind, rows.target_kind, rows.place(1)) == (TEXTS, NUMBERS, 3)
    assert numbers(read_scores(file, label="b, a")) == numbers(read_scores(file, label=["b", "a"]))
    assert numbers(read_scores(file, label="b,a")) == [[1.0, 4.5], [2.0, -1.0]]
    # A column of that name is one column.
    assert numbers(read_scores(file, label="a,b")) == [[7.0], [8.0]]


def test_a_list_of_json_is_several_scores(tmp_path):
    lines = [{"text": "x", "label": [1, 0.5], "c": 3}, {"text": "y", "label": [2, 1], "c": "4"}]
    file = written(tmp_path, "\n".join(map(json.dumps, lines)), "rows.jsonl")
    rows = read_scores(file, label="label,c")
    assert numbers(rows) == [[1.0, 0.5, 3.0], [2.0, 1.0, 4.0]]
    assert rows.take([0]).targets.columns == ["label_1", "label_2", "c"]


def test_columns_without_a_header_have_no_names(tmp_path):
    rows = read_scores(written(tmp_path, "good,1,2\nbad,3,5\n"), "1", "3,2", has_header=False)
    assert numbers(rows) == [[2.0, 1.0], [5.0, 3.0]]
    assert not hasattr(rows.targets, "columns")


def test_lists_of_other_lengths_do_not_shift_the_scores_of_the_next_column(tmp_path):
    lines = [{"text": "x", "a": [1, 2], "b": 3}, {"text": "y", "a": 1, "b": [2, 3]}]
    file = written(tmp_path, "\n".join(map(json.dumps, lines)), "rows.jsonl")
    with pytest.raises(DataError, match="the 'a' in line 2 has 1 scores, line 1 has 2. Give the same number"):
        read_scores(file, label="a,b")


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("", "is missing"),
        ("nan", "must be a score, a finite number. Received 'nan'"),
        ("inf", "must be a score, a finite number. Received 'inf'"),
        ("1e39", "must be a score, a finite number. Received '1e39'"),
        ("good", "Received 'good'. Names of classes are learned with the task text"),
        ('"4,5"', "Received '4,5'. Write decimals with a point."),
        ("1_000", "Received '1_000'"),
    ],
)
def test_a_cell_that_is_no_score_is_told_with_its_line_and_value(tmp_path, cell, said):
    file = written(tmp_path, f"text,label\nfine,1\nodd,{cell}\n")
    with pytest.raises(DataError, match=f"{re.escape(str(file))}: the 'label' in line 3 .*{re.escape(said)}"):
        read_scores(file)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("true", "Received True"),
        ("null", "is missing"),
        ("NaN", "is missing"),
        ("{}", "Received {}"),
        ("[]", r"Received \[\]"),
        ("[[1]]", r"Received \[1\]"),
        ("[1, 2]", "has 2 scores, line 1 has 1"),
    ],
)
def test_a_value_of_json_that_is_no_score_is_told_with_its_line(tmp_path, value, said):
    file = written(tmp_path, f'{{"text": "a", "label": 1}}\n{{"text": "b", "label": {value}}}\n', "r.jsonl")
    with pytest.raises(DataError, match=f"line 2 .*{said}"):
        read_scores(file)


def test_columns_that_are_not_there_or_named_twice_are_refused(tmp_path):
    file = written(tmp_path, "text,a\ngood,1\n")
    with pytest.raises(DataError, match="has no column 'label'. Its columns are 'text', 'a'. Name those"):
        read_scores(file)
    for label in ("a,a", "", "a,,a", []):
        with pytest.raises(ConfigError, match="must name a column of scores, or several that differ"):
            read_scores(file, label=label)
    with pytest.raises(DataError, match=r"another column than `text` \(--text\). Received 'a' for both"):
        read_scores(file, "a", "a")
    with pytest.raises(DataError, match="Give a file ending in"):
        read_scores(written(tmp_path, "__label__1 good\n", "rows.txt"))


def test_pairs_of_texts_have_scores_too_and_no_column_is_both(tmp_path):
    file = written(tmp_path, "a,b,close\nis it?,it is,4.5\nwhy,because,1\n")
    rows = read_scores(file, "a", "close", text_pair="b")
    assert (rows.inputs, numbers(rows)) == ([("is it?", "it is"), ("why", "because")], [[4.5], [1.0]])
    assert (rows.kind, rows.target_kind) == (TEXT_PAIRS, NUMBERS)
    with pytest.raises(DataError, match=r"another column than `label` \(--label\). Received 'b' for both"):
        read_scores(file, "a", "close,b", text_pair="b")
    with pytest.raises(DataError, match=r"no column 'c'. .*`text_pair` \(--text-pair\)"):
        read_scores(file, "a", "close", text_pair="c")

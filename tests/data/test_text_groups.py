"""Groups of texts from tables: scores, negatives, and what is refused with its line."""

import pytest

from keras_selfattn.data.text_groups import read_groups
from keras_selfattn.errors import DataError
from keras_selfattn.rows.targets import SIMILARITY
from keras_selfattn.rows.text_groups import TEXT_GROUPS

PAIRS = "text,text_pair,label\na film,a movie,4.5\na film,a song,1\n"


def written(folder, content, name="rows.csv"):
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name


def test_pairs_with_scores(tmp_path):
    rows = read_groups(written(tmp_path, PAIRS))
    assert (rows.inputs, rows.targets) == ([("a film", "a movie"), ("a film", "a song")], [4.5, 1.0])
    assert (rows.kind, rows.target_kind, rows.place(1)) == (TEXT_GROUPS, SIMILARITY, 3)
    assert rows.note.endswith("rows.csv: pairs of texts with scores, the column 'label'.")


@pytest.mark.parametrize(
    ("content", "reading"),
    [
        (PAIRS, {"label": ""}),
        ("text,text_pair\na film,a movie\na film,a song\n", {}),
        ("label,b\na film,a movie\na film,a song\n", {"text": "label", "text_pair": "b"}),
        (
            "a film;a movie\na film;a song\n",
            {"text": "1", "text_pair": "2", "separator": ";", "has_header": False},
        ),
    ],
)
def test_texts_that_belong_together(tmp_path, content, reading):
    rows = read_groups(written(tmp_path, content), **reading)
    assert rows.inputs == [("a film", "a movie"), ("a film", "a song")]
    assert rows.targets == [(0, 1), (0, 2)]
    assert rows.note.endswith("texts that belong together; there are no scores.")


def test_several_columns_of_negatives_of_which_cells_may_be_empty(tmp_path):
    lines = [
        '{"q": "a", "d": "b", "x": "c", "y": null, "label": 1}',
        '{"q": "d", "d": "e", "x": " ", "y": "b"}',
    ]
    file = written(tmp_path, "\n".join(lines), "rows.jsonl")
    rows = read_groups(file, "q", "d", negatives=["x", "y"])
    assert rows.inputs == [("a", "b", "c", None), ("d", "e", None, "b")]
    assert rows.targets == [(0, 1, 2, -1), (3, 4, -1, 1)]
    assert "beside negatives, 'x', 'y'" in rows.note


def test_empty_texts_of_some_rows_are_counted(tmp_path):
    file = written(tmp_path, "text,text_pair\na,b\nc,\n,d\n")
    with pytest.warns(
        UserWarning, match="1 of 3 rows have an empty 'text(_pair)?', the first at line [34]"
    ) as told:
        assert read_groups(file).inputs == [("a", "b"), ("c", ""), ("", "d")]
    assert len(told) == 2


def test_a_line_without_a_text_is_told_once(tmp_path):
    lines = '{"text": "a", "text_pair": "b"}\n{"text": "c"}\n'
    with pytest.warns(UserWarning, match="1 of 2 lines have no 'text_pair'") as told:
        read_groups(written(tmp_path, lines, "rows.jsonl"))
    assert len(told) == 1


@pytest.mark.parametrize(
    ("content", "reading", "said"),
    [
        ("text,label\na,1\n", {}, "has no column 'text_pair'. Its columns are 'text', 'label'.*--text-pair"),
        (PAIRS, {"label": "score"}, r"has no column 'score'.*scores with `label` \(--label '' for none\)"),
        (PAIRS, {"text_pair": "text"}, "'text' is named for two columns"),
        (PAIRS, {"label": "label", "negatives": ["x"]}, "scores .* are of two texts; with negatives"),
        ("text,text_pair\na,\nb, \n", {}, "the 'text_pair' is empty in all 2 rows"),
        ("text,text_pair,n\na,b,\nb,c,\n", {"negatives": ["n"]}, "the 'n' is empty in all 2 rows"),
        ("text,text_pair,label\na,b,1\nc,d,high\n", {}, "the 'label' in line 3 must be a score, .* 'high'"),
        (
            "text,text_pair,label\na,b,1\nc,d,\n",
            {},
            "the 'label' in line 3 is missing. .*, or '' if",
        ),
        ("text,text_pair,label\na,b,1e39\nc,d,1\n", {}, "the 'label' in line 2 must be a score, .* '1e39'"),
        ("text,text_pair\n", {}, "has no rows below its header"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, content, reading, said):
    with pytest.raises(DataError, match=said):
        read_groups(written(tmp_path, content), **reading)

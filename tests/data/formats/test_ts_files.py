"""`.ts` files of aeon and sktime, and UCR's lines, are read as they were written, or refused by line."""

import numpy as np
import pytest

from keras_selfattn.data.series import read_long_series, read_regression, read_series
from keras_selfattn.errors import DataError

NAN = float("nan")


def written(folder, content, name="g.ts"):
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


# `save_to_ts_file` of aeon 1.6.0 with [[[0, .5, 1, 1.5], [2, 2.5, NaN, 3.5]], [[4, …], [6, …]]].
AEON = """# Made by hand
@problemName multi
@timestamps false
@missing True
@univariate false
@dimension 2
@equalLength true
@seriesLength 4
@targetlabel false
@data
0.0,0.5,1.0,1.5:2.0,2.5,NaN,3.5:
4.0,4.5,5.0,5.5:6.0,6.5,7.0,7.5:
"""
# `write_panel_to_tsfile` of sktime 1.2.0 with the same.
SKTIME = """# Made by hand
@problemName multi
@timestamps false
@univariate false
@equalLength true
@seriesLength 4
@classLabel false
@data
0.0,0.5,1.0,1.5:2.0,2.5,NaN,3.5:
4.0,4.5,5.0,5.5:6.0,6.5,7.0,7.5:
"""
BOTH = [[[0, 0.5, 1, 1.5], [2, 2.5, NAN, 3.5]], [[4, 4.5, 5, 5.5], [6, 6.5, 7, 7.5]]]
# aeon 1.6.0, lists of [2, 3] and [2, 5]; then one channel. sktime 1.2.0 writes one channel without a ":".
AEON_UNEQUAL = """@problemName uneq
@timestamps false
@missing False
@univariate false
@dimension 2
@equalLength false
@targetlabel false
@data
0.0,1.0,2.0:3.0,4.0,5.0:
0.0,1.0,2.0,3.0,4.0:5.0,6.0,7.0,8.0,9.0:
"""
ONE = """@problemName uni
@timestamps false
@univariate true
@equalLength true
@seriesLength 4
@classLabel false
@data
0.0,0.5,1.0,1.5
2.0,2.5,3.0,3.5
"""


@pytest.mark.parametrize(
    ("content", "channels"),
    [
        (AEON, BOTH),
        (SKTIME, BOTH),
        (AEON_UNEQUAL, [[[0, 1, 2], [3, 4, 5]], [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]]),
        (ONE, [[[0, 0.5, 1, 1.5]], [[2, 2.5, 3, 3.5]]]),
        (ONE.replace(".5\n", ".5:\n"), [[[0, 0.5, 1, 1.5]], [[2, 2.5, 3, 3.5]]]),
    ],
    ids=["aeon", "sktime", "aeon, unequal", "sktime, one channel", "aeon, one channel"],
)
def test_rows_without_labels_have_the_channels_that_were_written(tmp_path, content, channels):
    found = read_long_series(written(tmp_path, content))
    assert len(found) == len(channels)
    for row, expected in zip(found, channels, strict=True):
        np.testing.assert_array_equal(row.T, expected)
    for read in (read_series, read_regression):
        with pytest.raises(DataError, match="rows have no labels"):
            read(written(tmp_path, content))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (AEON.replace("7.5:", "7.5"), "line 12 does not end with ':', and the rows before it do"),
        (ONE.replace("3.5", "3.5:"), "line 9 ends with ':', and the rows before it do not"),
    ],
)
def test_a_row_that_ends_otherwise_than_those_before_is_refused(tmp_path, content, said):
    with pytest.raises(DataError, match=said):
        read_long_series(written(tmp_path, content))


def with_labels(header, *labels):
    head = SKTIME.replace("@classLabel false", header).splitlines()[:-2]
    rows = [f"1,2,3,4:5,6,7,8:{label}" for label in labels]
    return "\n".join([*head, *rows]) + "\n"


@pytest.mark.parametrize("header", ["@classLabel true down going up", "@classLabel\ttrue\tdown\tgoing up"])
def test_labels_with_blanks_are_those_of_the_rows(tmp_path, header):
    # aeon 1.6.0 and sktime 1.2.0 write the labels "down" and "going up" like this, and read them back.
    assert read_series(written(tmp_path, with_labels(header, "down", "going up"))).targets == [
        "down",
        "going up",
    ]
    for label in ("up going", "going down", "dwon", "going up down", "Going up"):
        with pytest.raises(
            DataError, match=f"line 10 has the label '{label}'. @classLabel says that they are"
        ):
            read_series(written(tmp_path, with_labels(header, "down", label)))


def test_labels_keep_their_case_and_every_space_but_blanks_and_tabs(tmp_path):
    content = with_labels("@classLabel true Down UP\u00a0x", "Down", "\t UP\u00a0x ")
    assert read_series(written(tmp_path, content)).targets == ["Down", "UP\u00a0x"]
    content = with_labels("@classLabel true", "a", "\u00a0a\u2009")
    assert read_series(written(tmp_path, content)).targets == ["a", "\u00a0a\u2009"]


def test_numbers_to_predict_are_read_and_are_no_classes(tmp_path):
    # aeon 1.6.0 writes @targetlabel, sktime 1.2.0 @classLabel with all numbers.
    for header in ("@targetlabel true", "@targetLabel true", "@classLabel true 1.5 2.25"):
        file = written(tmp_path, with_labels(header, "1.5", "2.25"))
        assert [target.tolist() for target in read_regression(file).targets] == [[1.5], [2.25]]
    assert read_series(file).targets == ["1.5", "2.25"]
    with pytest.raises(
        DataError, match="@targetlabel true: .* a class each. Read it with the task regression"
    ):
        read_series(written(tmp_path, with_labels("@targetlabel true", "1.5", "2.25")))
    # `write_ndarray_to_tsfile` of sktime 1.2.0 writes NaN where labels are named, and rows have none.
    file = written(tmp_path, with_labels("@classLabel true a b", "NaN", "NaN"))
    with pytest.raises(DataError, match="line 9 has the label 'NaN'. @classLabel says that they are a, b"):
        read_series(file)
    assert [row.shape for row in read_long_series(file)] == [(4, 2), (4, 2)]


def test_lines_that_begin_with_a_percent_sign_are_comments(tmp_path):
    # As in UnitTest_TEST.ts of aeon 1.6.0, whose header also names the problem twice.
    content = "%# This is a cut down version\n% The Train set\n%\n@problemName UnitTest\n" + AEON
    assert len(read_long_series(written(tmp_path, content))) == 2


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("@dimension 2", "@dimension 3", "line 11 has 2 dimensions; @dimensions says 3"),
        ("@dimension 2", "@dimensions 3", "line 11 has 2 dimensions; @dimensions says 3"),
        ("@dimension 2", "@dimensions two", "line 6: @dimensions must be a whole number. Received 'two'"),
        ("@univariate false", "@univariate true", "line 11 has 2 dimensions; @univariate says true"),
        ("@univariate false", "@univariate no", "line 5: @univariate must be true or false. Received 'no'"),
        (
            "@seriesLength 4",
            "@seriesLength 5",
            "line 11 has 4 values in dimension 1; by @seriesLength they are 5",
        ),
        ("4.0,4.5", "4.5", "line 12 has 3 values in dimension 1; by @seriesLength they are 4"),
        ("7.5:", "7.5,8:", "line 12 has 5 values in dimension 2; by @seriesLength they are 4"),
        ("@timestamps false", "@timestamps maybe", "line 3: @timestamps must be true or false"),
        ("@targetlabel false", "@targetlabel", "line 9: @targetlabel must be true or false. Received ''"),
        ("@targetlabel false", "@classLabel up down", "line 9: @classLabel must be true or false"),
        (
            "@problemName multi",
            "@frequency daily",
            "line 2 has the tag @frequency, which is not known. Known are",
        ),
        ("@problemName multi", "@dimensions 3", "line 6: @dimension was '3' before, and is '2' here"),
        ("@data", "@data 1,2:3:", "line 10 has '1,2:3:' after @data: rows begin below it"),
        (
            "@equalLength true\n@seriesLength 4",
            "@equalLength true\n@equalLength false",
            "line 8: .* was 'true'",
        ),
    ],
)
def test_a_header_that_contradicts_itself_or_the_rows_is_refused(tmp_path, old, new, said):
    assert old in AEON
    with pytest.raises(DataError, match=said):
        read_long_series(written(tmp_path, AEON.replace(old, new)))


def test_lengths_are_checked_by_what_the_header_says_of_them(tmp_path):
    unequal = AEON_UNEQUAL.replace("@equalLength false", "@equalLength true")
    with pytest.raises(
        DataError, match="line 10 has 5 values in dimension 1; by @equalLength true they are 3"
    ):
        read_long_series(written(tmp_path, unequal))
    longest = AEON_UNEQUAL.replace("@equalLength false", "@equalLength false\n@seriesLength 5")
    assert [len(row) for row in read_long_series(written(tmp_path, longest))] == [3, 5]
    with pytest.raises(DataError, match="line 8 has 1 dimensions; @univariate says false"):
        read_long_series(written(tmp_path, ONE.replace("@univariate true", "@univariate false")))


def test_missing_values_in_a_file_that_has_none_are_a_warning(tmp_path):
    content = AEON.replace("@missing True", "@missing false")
    with pytest.warns(match="line 11 has missing values, though the header says @missing false"):
        found = read_long_series(written(tmp_path, content))
    assert np.isnan(found[0][2, 1])
    assert len(read_long_series(written(tmp_path, content.replace("NaN", "3")))) == 2


def test_a_row_of_a_label_alone_has_no_values(tmp_path):
    with pytest.raises(DataError, match="line 4 has no ':' between its values and its label. Received '1,2'"):
        read_series(written(tmp_path, "@classLabel true\n@data\n1,2:a\n1,2\n"))


@pytest.mark.parametrize("number", ["1_0", "\u0661", "1\u00a0", "?", "NaN", "", "inf"])
def test_numbers_to_predict_are_as_strict(tmp_path, number):
    files = {"g.ts": f"@targetlabel true\n@data\n1:{number}\n", "g.tsv": f"{number}\t1\n"}
    for name, content in files.items():
        with pytest.raises(DataError, match=r"must be a finite number|has no label"):
            read_regression(written(tmp_path, content, name))


FOREIGN = ["1_0", "\u0661", "1\u00a0", "\u20091", "1\x1c", "1\x85", "\uff11", "0x1", "1\u2028"]


@pytest.mark.parametrize("value", FOREIGN)
def test_numbers_are_those_of_other_libraries_with_blanks_and_tabs_around_them(tmp_path, value):
    """NumPy, pandas and aeon refuse most of these; Python's `float` takes them."""
    files = {
        "g.ts": f"@classLabel true\n@data\n1, 2\t:a\n1,{value}:a\n",
        "g.tsv": f"a\t1\t 2\n\nb\t1\t{value}\n\n",
        "g.txt": f"a 1  2\n \t \nb 1 {value}\n",
        "t.csv": f'id,label,x\na,u, 1\t\nb,u,"{value}"\n',
    }
    for name, content in files.items():
        file = tmp_path / name
        file.write_bytes(content.encode())
        with pytest.raises(DataError, match=r"line (4|3)\b.*(in place of a number|must be a number)"):
            read_series(file)


@pytest.mark.parametrize("space", ["\u00a0", "\u2009", "\x85", "\x1c", "\u3000"])
def test_only_blanks_and_tabs_part_the_columns_of_ucr_lines(tmp_path, space):
    file = written(tmp_path, f"  a{space}b 1   2 \nc 3 4\n", "g.txt")
    rows = read_series(file)
    assert rows.targets == [f"a{space}b", "c"]
    assert [row[:, 0].tolist() for row in rows.inputs] == [[1, 2], [3, 4]]
    rows = read_series(written(tmp_path, f"{space}a\t1\t2\nb{space}\t3\n", "g.tsv"))
    assert rows.targets == [f"{space}a", f"b{space}"]
    with pytest.raises(DataError, match="line 2 has .* in place of a number"):
        read_series(written(tmp_path, f"a 1 2\nb 1{space}2\n", "g.txt"))
    # A line of nothing else is no blank line.
    with pytest.raises(DataError, match="row 1 .* has no label"):
        read_series(written(tmp_path, f"a 1 2\n{space}\n", "g.txt"))


def test_lines_of_another_separator_are_refused(tmp_path):
    with pytest.raises(DataError, match="line 3 is separated by ' ', and lines before it by ','"):
        read_series(written(tmp_path, "a,1,2\nb\nc 1 2\n", "g.txt"))
    assert [len(row) for row in read_series(written(tmp_path, "a,1,2\nb\n", "g.txt")).inputs] == [2, 0]


def test_one_line_of_another_width_is_a_warning(tmp_path):
    with pytest.warns(match="line 4 has 1 values where all others have 3. .* see whether the line is whole"):
        rows = read_series(written(tmp_path, "a 1 2 3\na 4 5 6\n\nb 7\n", "g.txt"))
    assert [len(row) for row in rows.inputs] == [3, 3, 1]
    # Two kinds of lines, or a line of each length, are series of their own lengths.
    for content in ("a 1 2\nb 1\n", "a 1 2\na 1\nb 1 2\nb 1\n", "a 1\nb 1 2\nb 1 2 3\n", "a 1\nb 2\n"):
        assert len(read_series(written(tmp_path, content, "g.txt"))) == content.count("\n")

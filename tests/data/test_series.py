"""Files of series are read in each format, and bad files refused with the place."""

import numpy as np
import pytest

from keras_selfattn.data.series import read_long_series, read_regression, read_series
from keras_selfattn.errors import ConfigError, DataError

NAN = float("nan")
TS = """#a comment
@problemName Gestures
@timeStamps false
@univariate false
@dimensions 2
@equalLength false
@classLabel true up down
@data
1.5,?,3:0,0,1:up

5,3e0:1:down
"""
TABLE = "id,when,x,y,label\na,2,2,0.5,up\nb,1,7,,down\na,1,1,0,up\na,10,3,1,up\n"


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return path


def stored(tmp_path, **arrays):
    np.savez(tmp_path / "rows.npz", **arrays)
    return tmp_path / "rows.npz"


def test_a_ts_file_has_dimensions_missing_values_and_lengths_of_its_own(tmp_path):
    rows = read_series(written(tmp_path, "g.ts", TS))
    np.testing.assert_array_equal(rows.inputs[0], [[1.5, 0], [NAN, 0], [3, 1]])
    np.testing.assert_array_equal(rows.inputs[1], [[5, 1], [3, NAN]])
    assert rows.targets == ["up", "down"]


@pytest.mark.parametrize("name", ["g.tsv", "g.txt"])
def test_a_ucr_file_has_its_label_first_and_nan_at_the_end_of_shorter_series(tmp_path, name):
    separator = "\t" if name == "g.tsv" else "   "
    lines = [["-1.0000000e+00", "1.5", "NaN", "2"], ["7", "3", "NaN", "NaN"]]
    rows = read_series(written(tmp_path, name, "".join(f"  {separator.join(line)}\n" for line in lines)))
    np.testing.assert_array_equal(rows.inputs[0], [[1.5], [NAN], [2]])
    np.testing.assert_array_equal(rows.inputs[1], [[3]])
    assert rows.targets == ["-1", "7"]


def test_an_npz_has_rows_targets_and_lengths(tmp_path):
    x = np.arange(12.0).reshape(2, 3, 2)
    rows = read_series(stored(tmp_path, x=x, y=np.array([1, 2]), lengths=np.array([3, 1])))
    assert [row.shape for row in rows.inputs] == [(3, 2), (1, 2)]
    assert rows.targets == ["1", "2"]
    flat = read_regression(stored(tmp_path, x=x[:, :, 0], y=np.array([[0.5, 1.0], [2.0, 3.0]])))
    assert [row.shape for row in flat.inputs] == [(3, 1), (3, 1)]
    assert [target.tolist() for target in flat.targets] == [[0.5, 1.0], [2.0, 3.0]]


def test_a_table_has_a_frame_a_line_ordered_by_time(tmp_path):
    rows = read_series(written(tmp_path, "t.csv", TABLE), time="when")
    np.testing.assert_array_equal(rows.inputs[0], [[1, 0], [2, 0.5], [3, 1]])
    np.testing.assert_array_equal(rows.inputs[1], [[7, NAN]])
    assert rows.targets == ["up", "down"]
    as_they_come = read_series(written(tmp_path, "t.csv", TABLE), values="x")
    assert as_they_come.inputs[0].tolist() == [[2], [1], [3]]


def test_a_table_without_series_is_one(tmp_path):
    series = read_long_series(
        written(tmp_path, "t.csv", "day,load\n2020-01-02,5\n2020-01-01,4\n"), time="day"
    )
    assert [one.tolist() for one in series] == [[[4.0], [5.0]]]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("g.ts", TS.replace("@timeStamps false", "@timeStamps true"), "time stamps .*are not read"),
        ("g.ts", TS.replace("1.5,?,3", "(1,1.5),(2,3)"), "line 9 has time stamps"),
        ("g.ts", TS.replace("@classLabel true up down", "@classLabel false"), "rows have no label"),
        ("g.ts", TS.replace("3e0", "three"), "line 11 has 'three' in place of a number"),
        ("g.ts", TS.replace("5,3e0:1:down", "5:down"), "line 11 has 1 dimensions; the first row has 2"),
        ("g.ts", TS.replace("1:down", "1:"), "line 11 has no label"),
        (
            "g.ts",
            TS.replace("1:down", "1:dwon"),
            "line 11 has the label 'dwon'. @classLabel says that they are up, down",
        ),
        ("g.ts", "@problemName x\n", "no @data"),
        ("g.ts", "@data\n1:a\n", "neither @classLabel true nor"),
        ("g.ts", "@classLabel true a\n@data\n", "no rows after @data"),
        ("g.ts", "1,2,3:a\n", "line 1 comes before @data"),
        ("g.ts", "", "is empty"),
        ("g.txt", "1 2.0 x\n", "line 1 has 'x' in place of a number"),
        (
            "t.csv",
            TABLE.replace("a,1,1,0,up", "a,1,one,0,up"),
            "'x' in line 4 must be a number. Received 'o",
        ),
        (
            "t.csv",
            TABLE.replace("a,1,1,0,up", "a,1,1,0,down"),
            "series 'a', from line 2 on, must have",
        ),
        ("t.csv", TABLE.replace("a,1,1,0,up", "a,,1,0,up"), "line 4 has no 'when'"),
        ("t.csv", TABLE.replace("id,", "row,"), "no column 'id'"),
        ("t.parquet", "x", "no known ending"),
    ],
)
def test_bad_files_are_refused_with_the_place(tmp_path, name, content, said):
    with pytest.raises(DataError, match=said):
        read_series(written(tmp_path, name, content), time="when" if name == "t.csv" else None)


@pytest.mark.parametrize("name", ["g.ts", "g.tsv", "g.txt", "g.npz"])
@pytest.mark.parametrize(
    ("column", "said"),
    [
        ({"label": "label"}, "`label` names a column of a table.*Received 'label' for "),
        ({"row_id": "id"}, "`row_id` \\(--id\\) names a column of a table.*Received 'id' for "),
        ({"time": "when"}, "`time` names a column of a table.*Received 'when' for "),
        ({"values": "x,y"}, "`values` names a column of a table.*Received 'x,y' for "),
    ],
)
def test_columns_of_files_that_are_no_tables_are_refused_with_the_file(tmp_path, name, column, said):
    readers = [read_series, read_regression] + ([read_long_series] if "label" not in column else [])
    for reader in readers:
        with pytest.raises(ConfigError, match=f"{said}.*{name}: leave it out"):
            reader(tmp_path / name, **column)


def test_a_missing_file_is_named(tmp_path):
    for name in ("no.ts", "no.npz", "no.csv"):
        with pytest.raises(DataError, match=f"There is no file .*{name}"):
            read_series(tmp_path / name)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": np.zeros((2, 3))}, "no array 'y'. It holds 'x'"),
        ({"x": np.zeros(2), "y": np.zeros(2)}, "`x` must be numbers"),
        ({"x": np.zeros((2, 3)), "y": np.zeros(3)}, "`x` has 2 rows, `y` has 3"),
        ({"x": np.zeros((2, 3)), "y": np.zeros(2), "lengths": np.array([4, 1])}, "from 0 to 3"),
        ({"x": np.array([[1.0], [1.0, 2.0]], object), "y": np.zeros(2)}, "pickled objects.* `lengths`"),
        ({"x": np.zeros((2, 3)), "y": np.array(["a", ""])}, "row 1 .* has no label"),
    ],
)
def test_bad_arrays_are_refused(tmp_path, arrays, said):
    with pytest.raises(DataError, match=said):
        read_series(stored(tmp_path, **arrays))


def test_a_file_that_is_no_archive_and_targets_that_are_no_numbers_are_refused(tmp_path):
    with pytest.raises(DataError, match="not a readable .npz file"):
        read_series(written(tmp_path, "rows.npz", "text"))
    with pytest.raises(DataError, match="target of row 0 .* must be a finite number. Received 'up'"):
        read_regression(written(tmp_path, "g.ts", TS))


@pytest.mark.parametrize("sign", ["\t", ",", ";"])
def test_nothing_between_two_separators_is_a_missing_value(tmp_path, sign):
    rows = read_series(written(tmp_path, "g.txt", f"up{sign}1{sign}{sign}3\n#2{sign}4{sign}5\n"))
    np.testing.assert_array_equal(rows.inputs[0], [[1], [NAN], [3]])
    assert rows.targets == ["up", "#2"]
    with pytest.raises(DataError, match="line 1 has no label before its values"):
        read_series(written(tmp_path, "g.txt", f"{sign}1{sign}2\n"))


def test_a_column_that_is_named_is_not_left_out(tmp_path):
    file = written(tmp_path, "t.csv", "day,load\n1,5\n2,4\n")
    assert [one.shape for one in read_long_series(file, values="load")] == [(2, 1)]
    with pytest.raises(DataError, match="has no column 'id'. Its columns are 'day', 'load'"):
        read_long_series(file, row_id="id", values="load")


def test_labels_that_nobody_asks_for_are_not_checked(tmp_path):
    file = written(tmp_path, "g.ts", "@classLabel true a b\n@data\n1,2:?\n")
    assert [one.tolist() for one in read_long_series(file)] == [[[1.0], [2.0]]]
    file = written(tmp_path, "r.ts", "@classLabel false a\n@targetlabel true\n@data\n1,2:1.5\n")
    assert read_regression(file).targets[0].tolist() == [1.5]


def test_arrays_that_nobody_asks_for_are_not_read(tmp_path):
    file = stored(tmp_path, x=np.zeros((2, 3)), y=np.zeros(2), notes=np.array([{}], object))
    assert len(read_regression(file)) == 2


@pytest.mark.parametrize(
    "values", [["load", "wind"], ("load", "wind"), np.array(["load", "wind"]), "load,wind"]
)
def test_columns_of_values_come_in_a_list_or_in_a_text(tmp_path, values):
    file = tmp_path / "rows.csv"
    file.write_text("load,other,wind\n1,9,2\n3,9,4\n")
    assert [series.tolist() for series in read_long_series(file, values=values)] == [[[1.0, 2.0], [3.0, 4.0]]]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], "`values` has no column"),
        (["load", 3], r"must be names of columns, in a list.* Received \['load', 3\]"),
        ({"load"}, "A set has no order"),
        (7, "must be names of columns"),
    ],
)
def test_values_that_name_no_columns_are_refused(tmp_path, values, said):
    file = tmp_path / "rows.csv"
    file.write_text("load,other\n1,9\n")
    with pytest.raises((ConfigError, DataError), match=said):
        read_long_series(file, values=values)


def test_a_label_among_the_values_is_refused(tmp_path):
    (tmp_path / "frames.csv").write_text("id,label,load\n1,1,0.5\n2,2,1.5\n")
    with pytest.raises(DataError, match=r"`values` \(--values\) must be another column than `label`"):
        read_series(tmp_path / "frames.csv", values="label,load")

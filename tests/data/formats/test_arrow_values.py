"""Columns of Arrow, of any type and writer, are read without a loss, or refused by name."""

import datetime
import decimal

import pandas as pd
import pyarrow as pa
import pytest

from keras_selfattn.data.formats.arrow_values import held_values, plain_views

NS = 1_700_000_000_123_456_789


@pytest.mark.parametrize("count", [NS, NS // 1000 * 1000, 0, -1, -1500, -86_400_000_000_000 * 40_000 - 7])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "UTC"])
def test_a_time_of_nanoseconds_has_all_of_them(count, zone):
    """In the words of pandas, which need not be installed."""
    column = pa.array([count, None], pa.timestamp("ns", zone))
    (found, missing), refused = held_values(column)
    written = found if isinstance(found, str) else found.isoformat()
    wanted = pd.Timestamp(count, unit="ns", tz=zone)
    assert written == wanted.isoformat()
    assert isinstance(found, datetime.datetime) == (count % 1000 == 0)
    assert (missing, refused) == (None, {})


@pytest.mark.parametrize("count", [1, 1000, 1_500_000_000, 86_400_000_000_000, -1, 90_061_000_000_001, 0])
def test_a_duration_of_nanoseconds_is_written_as_pandas_writes_it(count):
    found, _ = held_values(pa.array([count], pa.duration("ns")))
    assert found == [pd.Timedelta(count, "ns").isoformat()]


def test_nanoseconds_within_lists_and_structs_are_kept_and_other_values_are_those_of_arrow():
    kind = pa.struct([("at", pa.list_(pa.time64("ns"))), ("id", pa.int8())])
    column = pa.array(
        [{"at": [1_500, None, 2_000], "id": 1}, None, {"at": None, "id": 2}, {"at": [], "id": None}], kind
    )
    wanted = [
        {"at": ["00:00:00.000001500", None, datetime.time(0, 0, 0, 2)], "id": 1},
        None,
        {"at": None, "id": 2},
        {"at": [], "id": None},
    ]
    assert held_values(column) == (wanted, {})
    assert held_values(column.slice(1)) == (wanted[1:], {})
    assert held_values(pa.chunked_array([column.slice(2), column.slice(0, 1)]))[0] == [*wanted[2:], wanted[0]]
    numbers = pa.array([decimal.Decimal("1.25"), None])
    assert held_values(numbers)[0] == numbers.to_pylist()


def test_a_value_that_python_cannot_hold_is_told_and_the_others_are_read():
    far = pa.array([2**30, 0, None], pa.date32())
    values, refused = held_values(far)
    assert values == [None, datetime.date(1970, 1, 1), None]
    assert refused == {0: "as date32[day] it is out of range: dates are in the years 1 to 9999"}
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"a", b"\xff"]).buffers())
    assert held_values(broken) == (
        ["a", None],
        {1: "it is not UTF-8 (invalid start byte). Write it again as text, or as binary"},
    )


VIEWS = {
    "text": (["a", None, "a text of more than twelve bytes"], pa.string_view()),
    "bytes": ([b"a", None, b"\xff"], pa.binary_view()),
    "list": ([["a"], None, []], pa.list_(pa.string_view())),
    "lists": ([["a"], None, []], pa.list_view(pa.string_view())),
    "fields": (
        [{"a": "x", "b": 1}, None, {"a": None, "b": 2}],
        pa.struct([("a", pa.string_view()), ("b", pa.int8())]),
    ),
    "map": ([[("k", "v")], None, []], pa.map_(pa.string_view(), pa.string())),
}


@pytest.mark.parametrize("values", VIEWS.values(), ids=VIEWS)
def test_views_become_what_functions_of_arrow_take(values):
    column, kept = pa.array(*values), pa.array([2, 0])
    batch = pa.record_batch({"x": column, "n": [1, 2, 3]}, metadata={"huggingface": "{}"})
    plain = plain_views(batch)
    assert plain.column("x").take(kept).to_pylist() == [values[0][2], values[0][0]]
    assert plain.to_pylist() == batch.to_pylist()
    assert plain.schema.metadata == batch.schema.metadata
    assert plain.column("n").type == pa.int64()


def test_names_of_classes_may_be_views():
    names = pa.array(["a", "b"], pa.string_view())
    column = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), names)
    plain = plain_views(pa.record_batch({"x": column})).column("x")
    assert plain.type == pa.dictionary(pa.int8(), pa.string())
    assert plain.to_pylist() == ["b", None, "a"]

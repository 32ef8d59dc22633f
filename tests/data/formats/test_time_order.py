"""Times are ordered as moments, or refused with their lines; steps that are not the usual one are named."""

import json
import warnings
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from keras_selfattn.data.formats.time_order import read_times
from keras_selfattn.data.series import read_long_series, read_regression, read_series
from keras_selfattn.data.windows import cut_windows
from keras_selfattn.errors import ConfigError, DataError

FILE = Path("load.csv")
BERLIN = ZoneInfo("Europe/Berlin")


def column(times, form=None):
    return read_times(FILE, "at", range(2, 2 + len(times)), times, form)


def order_of(times, form=None):
    return column(times, form).ordered(range(len(times)))


def gaps_of(times, form=None):
    read = column(times, form)
    return read.gaps([read.ordered(range(len(times)))])


# What these wrote for rising moments: `to_csv` and `to_json(orient="records", lines=True)`, with and without
# `date_format="iso"`, of pandas 3.0.6; `write_csv` and `write_ndjson` of polars 2.1.0; COPY of DuckDB 2.0.1.
WRITTEN = {
    "pandas csv, end of summer time": [
        "2024-10-27 02:00:00+02:00", "2024-10-27 02:30:00+02:00", "2024-10-27 02:00:00+01:00",
        "2024-10-27 02:30:00+01:00", "2024-10-27 03:00:00+01:00",
    ],
    "pandas csv, days": ["2024-01-01", "2024-01-02", "2024-01-03"],
    "pandas csv, milliseconds": ["2024-01-01 00:00:00.000", "2024-01-01 00:00:00.500"],
    "pandas csv, nanoseconds": ["2024-01-01 00:00:00.000000001", "2024-01-01 00:00:00.000000002"],
    "pandas csv, UTC": ["2024-01-01 00:00:00+00:00", "2024-01-01 01:00:00+00:00"],
    "pandas csv, months": ["2020-09", "2020-10"],
    "pandas csv, years": ["2020", "2021"],
    "pandas csv, hours": ["2020-01-01 00:00", "2020-01-01 01:00"],
    "pandas json, iso": ["2024-10-27T00:30:00.000Z", "2024-10-27T01:00:00.000Z"],
    "pandas json, iso, naive": ["2024-01-01T00:00:00.000", "2024-01-01T00:30:00.000"],
    "pandas json": [1729987200000, 1729989000000],
    "pandas json, before 1970": [-2208988800000, -2208902400000],
    "polars csv, ms": ["2024-01-01T00:00:00.000", "2024-01-01T00:30:00.000"],
    "polars csv, us, Berlin": ["2024-10-27T02:30:00.000000+0200", "2024-10-27T02:00:00.000000+0100"],
    "polars csv, ns": ["2024-01-01T00:00:00.000000001", "2024-01-01T00:00:00.000000002"],
    "polars json": ["2024-01-01 00:00:00", "2024-01-01 00:30:00"],
    "polars json, Berlin": ["2024-10-27T02:30:00+02:00", "2024-10-27T02:00:00+01:00"],
    "polars json, ns": ["2024-01-01 00:00:00.000000001", "2024-01-01 00:00:00.000000002"],
    "duckdb, Berlin": ["2024-10-27 02:30:00+02", "2024-10-27 02:00:00+01"],
    "duckdb, Kolkata": ["2024-10-27 06:00:00+05:30", "2024-10-27 06:30:00+05:30"],
    "duckdb, local mean time": ["1890-01-01 00:53:28+00:53:28", "1890-01-01 00:53:29+00:53:28"],
    "duckdb, fraction": ["2024-01-01 00:00:00", "2024-01-01 00:00:00.5"],
}  # fmt: skip


@pytest.mark.parametrize("times", WRITTEN.values(), ids=WRITTEN)
def test_times_that_other_libraries_write_are_in_their_order(times):
    count = len(times)
    assert order_of(times[::-1]) == list(range(count))[::-1]


# The same libraries' other types, which are refused by name.
REFUSED = {
    "pandas csv, quarters": "2020Q1",
    "pandas csv, weeks": "2019-12-30/2020-01-05",
    "pandas csv, durations": "0 days 12:00:00",
    "pandas csv, times of a day": "09:00:00",
    "pandas json, durations": "P0DT12H0M0S",
    "polars csv, times of a day": "09:00:00.000000000",
    "polars json, durations": "PT3600S",
    "duckdb, before Christ": "0044-03-15 (BC)",
    "duckdb, far years": "12024-01-01 00:00:00",
    "duckdb, durations": "1 day",
    "German": "25.01.2024",
    "American": "12/31/2023",
    "a list": [1],
    "true": True,
    "a letter between": "2024-01-25x10:30",
    "a fraction of a minute": "2024-01-25 10:30.5",
    "no day": "2024-02-30",
    "no number": "1_000",
    "digits of another script": "١",
    "another blank": "2024-01-25\u00a0",
}


@pytest.mark.parametrize("time", REFUSED.values(), ids=REFUSED)
def test_other_forms_are_refused_with_line_forms_and_the_option(time):
    with pytest.raises(
        DataError, match=r"load.csv: 'at' in line 3 is no time.*Read are numbers, and ISO 8601"
    ):
        column(["2024-01-25", time])
    with pytest.raises(DataError, match=r"line 2 is no time .* `time_format` \(--time-format\)"):
        column([time, time])


@pytest.mark.parametrize(
    "time", ["nan", "inf", "-Infinity", float("nan"), float("inf"), "1e9999999999999999999999"]
)
def test_a_time_is_a_finite_number(time):
    with pytest.raises(DataError, match="'at' in line 3 must be a finite number, or a date"):
        column([1, time])


@pytest.mark.parametrize("time", [None, "", "  "])
def test_a_time_is_not_missing(time):
    with pytest.raises(DataError, match="line 3 has no 'at'"):
        column(["1", time])


def test_numbers_are_ordered_by_value_and_exactly():
    assert order_of(["10", "9", "-1.5e1", " 9.5\t", ".5"]) == [2, 4, 1, 3, 0]
    assert order_of([2**53 + 1, 2**53, 10**400]) == [1, 0, 2]
    assert order_of(["9007199254740993", "9007199254740992.5"]) == [1, 0]
    assert order_of(["1" + "0" * 5000, "9" * 5000]) == [1, 0]
    assert order_of(["20240201", "20240125"]) == [1, 0]


def test_instants_are_those_of_the_standard_library():
    """An oracle without shared code: rising instants, written in three zones and a dozen forms."""
    start = datetime(2024, 10, 26, 23, tzinfo=UTC)
    zones = [BERLIN, UTC, ZoneInfo("America/St_Johns")]
    texts = []
    for number in range(300):
        local = (start + number * timedelta(minutes=7, seconds=13)).astimezone(zones[number % 3])
        text = local.isoformat(sep=" T"[number % 2])
        if number % 5 == 0:
            text = text[:-6] + text[-6:].replace(":", "")
        texts.append(text.replace("+00:00", "Z") if number % 4 < 2 else text)
    shuffled = np.random.default_rng(0).permutation(300)
    found = order_of([texts[place] for place in shuffled])
    assert [shuffled[place] for place in found] == list(range(300))


def test_fractions_of_a_second_count_to_their_last_digit():
    times = [
        f"2024-01-25T09:30:00{end}"
        for end in ("", ".000000001", ".00000000100000000000000001", ".1", ",10001")
    ]
    assert order_of(times[::-1]) == [4, 3, 2, 1, 0]
    with pytest.raises(DataError, match="line 2 and line 3 have one 'at'"):
        order_of(["2024-01-25 09:30:00.5", "2024-01-25 09:30:00.500000000"])


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (["1", "2024-01-25"], "'at' is a date in line 3, '2024-01-25', and a number in line 2, '1'"),
        (["2024-01-25", "20240126"], "is a date in line 2, .* and a number in line 3, '20240126'"),
        (
            ["2024-01-25T00:00Z", "2024-01-25"],
            "is a time with an offset from UTC in line 2, '2024-01-25T00:00Z', and one without in line 3",
        ),
    ],
)
def test_forms_without_a_common_order_are_refused_with_both_lines(times, said):
    with pytest.raises(DataError, match=said):
        column(times)


@pytest.mark.parametrize(
    ("times", "form", "order"),
    [
        (["25.01.2024", "02.02.2024", "31.12.2023"], "%d.%m.%Y", [2, 0, 1]),
        (["12/31/2023", "1/1/2024"], "%m/%d/%Y", [0, 1]),
        (["10:00", "9:00"], "%H:%M", [1, 0]),
        (["1.1.24 12:00 PM", "1.1.24 12:00 AM"], "%d.%m.%y %I:%M %p", [1, 0]),
        (["27.10.2024 02:00 +0100", "27.10.2024 02:30 +0200"], "%d.%m.%Y %H:%M %z", [1, 0]),
        (["0.000002", "0.0000015", "0.000001"], "%S.%f", None),
        (["0.2", "0.15", "0.000001"], "%S.%f", [2, 1, 0]),
        ([20240125, 20230126], "%Y%d%m", None),
        ([20240112, 20231212], "%Y%m%d", [1, 0]),
    ],
)
def test_a_format_names_any_other_form(times, form, order):
    if order is None:
        with pytest.raises(DataError, match=r"'at' in line . is not of the format .*--time-format.*Received"):
            column(times, form)
    else:
        assert order_of(times, form) == order


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("DD.MM.YYYY", "no part such as %Y"),
        ("100%%", "no part such as %Y"),
        ("%Y-%m-%d %H:%M %Z", "%Z, are read without effect: write offsets, %z"),
        ("%I:%M", "%I and %p need each other"),
        ("%H:%M %p", "%I and %p need each other"),
        ("%d.%m.", "Without a year, %Y, the order over New Year is lost"),
        ("%Y %W", "%U and %W, are read only with %Y and a day of the week"),
    ],
)
def test_a_format_that_loses_a_part_of_the_time_is_refused(tmp_path, form, said):
    with pytest.raises(ConfigError, match=said):
        read_long_series(table(tmp_path, [1, 2]), time="at", time_format=form)
    with pytest.raises(DataError, match="line 2 is not of the format"):
        column(["2024"], "%Q")


def table(folder, times, **columns):
    """A file with the times as `at`, and 0, 1, … as `x`, in the order of the file."""
    rows = [{"at": time, "x": float(place)} for place, time in enumerate(times)]
    for name, values in columns.items():
        rows = [{**row, name: value} for row, value in zip(rows, values, strict=True)]
    file = folder / "t.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


SUMMER = [
    "2024-10-27T02:30+02:00",
    "2024-10-27T02:00+01:00",
    "2024-10-27T02:30+01:00",
    "2024-10-27T03:00+01:00",
]


def test_frames_of_forecasts_series_and_regression_are_in_order_of_their_moments(tmp_path):
    times = [SUMMER[place] for place in (3, 1, 0, 2)]
    assert read_long_series(table(tmp_path, times), time="at")[0][:, 0].tolist() == [2, 1, 3, 0]
    file = table(tmp_path, 2 * times, who=[*"aaaabbbb"], label=[*"11112222"])
    for read in (read_series, read_regression):
        rows = read(file, time="at", row_id="who")
        assert [row[:, 0].tolist() for row in rows.inputs] == [[2, 1, 3, 0], [6, 5, 7, 4]]
    series = read_long_series(file, time="at", row_id="who", values="x")
    assert [one[:, 0].tolist() for one in series] == [[2, 1, 3, 0], [6, 5, 7, 4]]
    german = table(tmp_path, ["01.02.2024", "31.01.2024"])
    assert read_long_series(german, time="at", time_format="%d.%m.%Y")[0][:, 0].tolist() == [1, 0]


def test_a_csv_is_ordered_like_lines_of_json(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("at,x\n" + "".join(f"{SUMMER[place]},{place}\n" for place in (2, 0, 3, 1)))
    assert read_long_series(file, time="at")[0][:, 0].tolist() == [0, 1, 2, 3]


def test_two_frames_of_a_series_at_one_moment_are_refused_with_both_lines(tmp_path):
    file = table(tmp_path, ["2024-01-01T00:00Z", "2024-01-02T00:00Z", "2024-01-01T01:00+01:00"], who=[*"aba"])
    with pytest.raises(
        DataError, match="line 1 and line 3 of the series 'a' have one 'at', .*\\+01:00'.*Remove one"
    ):
        read_long_series(file, time="at", row_id="who", values="x")
    file = table(tmp_path, [1, 2.0, "1"])
    with pytest.raises(DataError, match=r"line 1 and line 3 have one 'at', '1'.*`row_id` \(--id\)"):
        read_long_series(file, time="at")
    file = table(tmp_path, [1, 1], who=[*"ab"])
    assert len(read_long_series(file, time="at", row_id="who", values="x")) == 2


def test_an_hour_that_repeats_without_offsets_asks_for_them():
    start = datetime(2024, 10, 26, 22, tzinfo=UTC)
    hours = [(start + timedelta(hours=n)).astimezone(BERLIN).strftime("%Y-%m-%d %H:%M") for n in range(30)]
    with pytest.raises(DataError, match=r"line 4 and line 5 .*'2024-10-27 02:00'.* needs offsets, as in"):
        order_of(hours)
    for twice in (
        ["2024-10-27 02:00"] * 2,
        ["2024-10-27"] * 2,
        [*hours[:3], *hours[:3]],
        [*hours[5:], hours[7], hours[9]],
    ):
        with pytest.raises(DataError) as refused:
            order_of(twice)
        assert "offsets" not in str(refused.value)


def days(*numbers):
    return [str(date(2024, 1, 1) + timedelta(days=number)) for number in numbers]


def local_midnights(count, hour=0):
    first = datetime(2024, 10, 20, hour)
    return [str((first + timedelta(days=n)).replace(tzinfo=BERLIN)) for n in range(count)]


def month_ends(step):
    firsts = [date(2023 + month // 12, month % 12 + 1, 1) for month in range(1, 30, step)]
    return [str(first - timedelta(days=1)) for first in firsts]


REGULAR = {
    "days": days(*range(60)),
    "firsts of months": [f"{2023 + month // 12}-{month % 12 + 1:02}-01" for month in range(30)],
    "month ends": month_ends(1),
    "quarters": month_ends(3),
    "years": [f"{year}-02-28" for year in range(1999, 2009)],
    "months alone": [f"2023-{month:02}" for month in range(1, 13)],
    "first working days": [
        "2024-01-01",
        "2024-02-01",
        "2024-03-01",
        "2024-04-01",
        "2024-05-01",
        "2024-06-03",
    ],
    "four weeks": days(*range(0, 400, 28)),
    "compact dates": ["20240130", "20240131", "20240201", "20240202", "20240203"],
    "compact months": [202311, 202312, 202401, 202402, 202403],
    "compact minutes": ["20240130235800", "20240130235900", "20240131000000", "20240131000100"],
    "local midnights": local_midnights(14),
    "noon and midnight": sorted([*local_midnights(14), *local_midnights(14, 12)]),
    "instants over the clock change": [
        str((datetime(2024, 10, 26, 20, tzinfo=UTC) + timedelta(hours=n)).astimezone(BERLIN))
        for n in range(12)
    ],
    "numbers": list(range(0, 90, 3)),
    "decimal years": [f"{1749 + month / 12:.3f}" for month in range(40)],
    "nanoseconds": [1704067200000000000 + 10 * n for n in range(9)],
    "tenths": [n / 10 for n in range(30)],
    "two steps": [1, 2, 9],
}


@pytest.mark.parametrize("times", REGULAR.values(), ids=REGULAR)
def test_regular_steps_and_steps_of_the_calendar_are_no_gaps(times):
    assert gaps_of(times) == ""


IRREGULAR = {
    "weekends": (
        days(*[n for n in range(28) if n % 7 < 5]), r"3 of 19 .* 1 day. The first is 3 days, from line 6 to",
    ),
    "a missing hour": (
        [f"2024-01-01T{hour:02}:00" for hour in range(24) if hour != 7],
        r"1 of 22 .* by 'at' are not the usual one, 1 hour. The first is 2 hours, from line 8 to line 9\.",
    ),
    "a missing month": (
        [f"2023-{month:02}-01" for month in (1, 2, 3, 5, 6)], r"1 of 4 .* 1 month. .* 2 months",
    ),
    "a missing number": ([1, 2, 3, 5, 6], r"1 of 4 .* one, 1. The first is 2, from line 4 to line 5\."),
    "the missing hour of spring": (
        [f"2024-03-31 {hour:02}:00:00" for hour in range(24) if hour != 2], "1 hour. The first is 2 hours",
    ),
    "half seconds": ([f"2024-01-01T00:00:0{n / 2}" for n in (0, 1, 2, 4)], "0.5 seconds. .* 1 second, from"),
    "a missing decimal": (["0.1", "0.2", "0.4", "0.5"], "usual one, 0.1. The first is 0.2, from line 3"),
}  # fmt: skip


@pytest.mark.parametrize(("times", "said"), IRREGULAR.values(), ids=IRREGULAR)
def test_other_steps_are_counted_and_the_first_is_named(times, said):
    with pytest.warns(match=said):
        warnings.warn(gaps_of(times), stacklevel=1)


def test_a_file_with_gaps_gives_one_warning_and_the_frames_on_both_sides_are_neighbours(tmp_path):
    times = days(0, 1, 2, 6, 7, 8, 12, 13)
    file = table(tmp_path, [*times, *times], who=[*"aaaaaaaabbbbbbbb"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        series = read_long_series(file, time="at", row_id="who", values="x")
    assert [str(each.message).split(": ", 1)[1] for each in caught] == [
        "4 of 14 steps between frames by 'at' are not the usual one of their series. The first is 4 days "
        "where 1 day is usual, from line 3 to line 4. Nothing is filled in: the frames on both sides are "
        "neighbours."
    ]
    windows = cut_windows(series, context=3, horizon=1)
    assert windows.inputs[1][:, 0].tolist() == [1, 2, 3], "line 4 follows line 3, four days later"
    assert windows.targets[0].tolist() == [3]


def test_each_series_has_a_usual_step_of_its_own(tmp_path):
    hours = [f"2024-01-01T{hour:02}" for hour in range(12)]
    file = table(tmp_path, [*hours, *days(*range(9))], who=["a"] * 12 + ["b"] * 9)
    assert len(read_long_series(file, time="at", row_id="who", values="x")) == 2
    file = table(tmp_path, [*hours, *days(0, 1, 2, 4)], who=["a"] * 12 + ["b"] * 4)
    with pytest.warns(UserWarning, match="1 of 14 .* 2 days where 1 day is usual, from line 15 to line 16"):
        read_long_series(file, time="at", row_id="who", values="x")


def test_times_of_a_day_that_change_places_are_told(tmp_path):
    file = table(tmp_path, ["9:00", "9:30", "10:00"])
    (series,) = read_long_series(file, time="at", time_format="%H:%M", values="x")
    assert series[:, 0].tolist() == [0, 1, 2]
    file = table(tmp_path, ["23:58", "23:59", "0:00"])
    with pytest.warns(
        UserWarning, match="no date, so .* as of one day: line 3 before line 1. .* write dates"
    ):
        (series,) = read_long_series(file, time="at", time_format="%H:%M", values="x")
    assert series[:, 0].tolist() == [2, 0, 1]


@pytest.mark.parametrize("ids", [["a", " a", "a"], [1, 1, 1]])
def test_ids_are_read_as_labels_are(tmp_path, ids):
    assert len(read_long_series(table(tmp_path, [1, 2, 3], who=ids), row_id="who", values="x")) == 1


@pytest.mark.parametrize("ids", [[1, 1.0, 2], [1, "1", 2], [1, True, 2]])
def test_ids_of_several_types_are_an_error(tmp_path, ids):
    with pytest.raises(DataError, match="'who' in line 2 is .*, where others are .*: .*'who' in line 1 is 1"):
        read_long_series(table(tmp_path, [1, 2, 3], who=ids), row_id="who", values="x")


def test_steps_between_series_are_none(tmp_path):
    file = table(tmp_path, [1, 2, 3, 4, 90, 91, 92, 93], who=[*"aaaabbbb"])
    assert len(read_long_series(file, time="at", row_id="who", values="x")) == 2


def test_a_format_needs_the_column_and_a_table(tmp_path):
    with pytest.raises(ConfigError, match=r"`time_format` \(--time-format\).*name it with `time` \(--time\)"):
        read_series(table(tmp_path, [1], label=["a"], id=["a"]), time_format="%Y")
    with pytest.raises(ConfigError, match=r"`time_format` \(--time-format\) is for the times of a table"):
        read_series(tmp_path / "g.ts", time_format="%Y")


def test_a_frame_without_a_series_is_refused(tmp_path):
    file = table(tmp_path, [1, 2], who=["a", None])
    with pytest.raises(DataError, match="line 2 has no 'who', so its series is unknown"):
        read_long_series(file, row_id="who", values="x")

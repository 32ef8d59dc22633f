"""The tasks whose answers are known exactly have the right answers."""

import datetime

import pytest

from benchmarks.sequences.exact_tasks import DATE_FORMS, EXACT_TASKS, exact_rows, in_words, iso_date

ORDINALS = ("1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd", "30th")


def test_dates_are_written_in_the_twenty_forms():
    """29 February 2024 was a Thursday."""
    written = [iso_date(2024, 2, 29, form) for form in DATE_FORMS]
    assert [source for source, _ in written] == [
        "2024-02-29",
        "20240229",
        "2024/2/29",
        "2024.02.29",
        "29.2.2024",
        "29.02.2024",
        "2/29/2024",
        "02/29/2024",
        "29 February 2024",
        "29 Feb 2024",
        "February 29, 2024",
        "Feb 29, 2024",
        "February 29th, 2024",
        "29th February 2024",
        "the 29th of February, 2024",
        "Thursday, 29 February 2024",
        "Thursday, February 29, 2024",
        "29-Feb-2024",
        "29 FEBRUARY 2024",
        "2024 February 29",
    ]
    assert {answer for _, answer in written} == {"2024-02-29"}


@pytest.mark.parametrize(
    ("day", "ordinal"),
    list(zip((1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 30), ORDINALS, strict=True)),
)
def test_days_have_their_ordinals(day, ordinal):
    assert iso_date(1999, 12, day, "{ordinal}") == (ordinal, f"1999-12-{day:02}")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (7, "seven"),
        (10, "ten"),
        (19, "nineteen"),
        (20, "twenty"),
        (99, "ninety-nine"),
        (100, "one hundred"),
        (101, "one hundred one"),
        (115, "one hundred fifteen"),
        (999, "nine hundred ninety-nine"),
        (1000, "one thousand"),
        (1_001, "one thousand one"),
        (20_300, "twenty thousand three hundred"),
        (999_999, "nine hundred ninety-nine thousand nine hundred ninety-nine"),
        (1_000_000, "one million"),
        (10_000_040, "ten million forty"),
        (
            123_456_789,
            "one hundred twenty-three million four hundred fifty-six thousand seven hundred eighty-nine",
        ),
    ],
)
def test_numbers_have_their_words(number, words):
    assert in_words(number) == words


@pytest.mark.parametrize("task", EXACT_TASKS)
def test_rows_are_the_same_for_a_seed_and_none_is_in_two_parts(task):
    rows = exact_rows(task, train=300, test=50)
    assert rows == exact_rows(task, train=300, test=50)
    assert rows != exact_rows(task, train=300, test=50, seed=1)
    sources = [source for part in (rows.train, rows.test, rows.longer) for source, _ in part]
    assert len(set(sources)) == len(sources)
    assert [len(part) for part in (rows.train, rows.test, rows.longer)] == [
        300,
        50,
        0 if task == "dates" else 50,
    ]


def test_dates_are_real_ones_and_all_forms_occur():
    rows = exact_rows("dates", train=2000, test=1).train
    dates = [datetime.date.fromisoformat(answer) for _, answer in rows]
    assert (min(dates).year, max(dates).year) == (1900, 2099)
    assert sum(source.startswith("the ") for source, _ in rows) == pytest.approx(100, abs=40)  # a twentieth


@pytest.mark.parametrize(
    ("task", "lengths", "longer"), [("numbers", (1, 7), (8, 9)), ("reversal", (1, 40), (41, 50))]
)
def test_longer_rows_are_longer_by_a_quarter_at_most(task, lengths, longer):
    rows = exact_rows(task, train=500, test=300)
    found = [{len(source) for source, _ in part} for part in (rows.train, rows.test, rows.longer)]
    assert [(min(each), max(each)) for each in (found[0], found[2])] == [lengths, longer]
    assert found[1] <= found[0]  # the shortest sources are few, and all of them in training


def test_reversals_are_reversed():
    for source, answer in exact_rows("reversal", train=20, test=1).train:
        assert answer == "".join(reversed(source))

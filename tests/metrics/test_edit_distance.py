"""Edit distances against the plain table of distances, and pairs whose distance is known."""

import random

import pytest

from keras_selfattn.metrics.edit_distance import edit_distance


def by_table(one, other):
    """The textbook's table: row by row, each cell from its three neighbours."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        last, row = row, [i]
        for j, b in enumerate(other, 1):
            row.append(min(last[j] + 1, row[-1] + 1, last[j - 1] + (a != b)))
    return row[-1]


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ("", "", 0),
        ("", "ab", 2),
        ("ab", "", 2),
        ("kitten", "sitting", 3),
        ("flaw", "lawn", 2),
        ("abc", "abc", 0),
        (["HH", "AH0", "L"], ["HH", "EH1", "L", "OW1"], 2),
        ("x" * 200, "x" * 130 + "y", 70),
    ],
)
def test_known_distances(one, other, distance):
    assert edit_distance(one, other) == edit_distance(other, one) == distance


def test_distances_are_those_of_the_table():
    draw = random.Random(3)
    for _ in range(400):
        letters = "ab" if draw.random() < 0.5 else "abcdefg"
        one, other = ("".join(draw.choices(letters, k=draw.randrange(90))) for _ in range(2))
        assert edit_distance(one, other) == by_table(one, other), (one, other)

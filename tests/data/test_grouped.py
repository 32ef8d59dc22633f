"""Rows of one group are held out together, and every label stays in training."""

import pytest

from keras_selfattn.data.grouped import GroupedRows
from keras_selfattn.errors import DataError


def grouped(groups, targets):
    texts = [f"text {row}" for row in range(len(groups))]
    return GroupedRows(texts, targets, "t.csv", groups=groups, group="speaker")


MANY = grouped([f"speaker {row % 40}" for row in range(200)], ["+" if row % 3 else "-" for row in range(200)])


@pytest.mark.parametrize(("share", "count"), [(0.2, 8), (0.1, 4), (0.01, 1), (0.5, 20), (0.99, 39)])
def test_a_split_holds_out_a_share_of_the_groups_whole(share, count):
    kept, held = MANY.split(share, seed=0)
    assert set(kept.groups).isdisjoint(held.groups)
    assert len(set(held.groups)) == count
    assert sorted([*kept.inputs, *held.inputs]) == sorted(MANY.inputs)
    assert set(kept.targets) == {"+", "-"}


def test_rows_keep_their_group_target_and_place():
    group_of = dict(zip(MANY.inputs, MANY.groups, strict=True))
    target_of = dict(zip(MANY.inputs, MANY.targets, strict=True))
    for part in MANY.split(0.2, seed=3):
        assert list(part.groups) == [group_of[text] for text in part.inputs]
        assert part.targets == [target_of[text] for text in part.inputs]
        assert [part.place(row) for row in range(3)] == [f"row {text[5:]}" for text in part.inputs[:3]]


def test_a_split_is_reproducible_by_its_seed():
    assert MANY.split(0.2, seed=1) == MANY.split(0.2, seed=1)
    held = {frozenset(MANY.split(0.2, seed)[1].groups) for seed in range(5)}
    assert len(held) == 5


@pytest.mark.parametrize("seed", range(10))
def test_a_group_stays_if_a_label_is_in_no_other(seed):
    """The rare label is in both groups x and y: one of them may go, not both."""
    rows = grouped(["a", "a", "x", "y", "b", "b", "c"], ["+", "-", "rare", "rare", "+", "-", "only"])
    kept, held = rows.split(0.6, seed)
    assert kept.labels() == {"+", "-", "rare", "only"}
    assert "c" not in held.groups
    assert len({"x", "y"} & set(held.groups)) == 1
    assert len({"a", "b"} & set(held.groups)) == 1


@pytest.mark.parametrize("seed", range(5))
def test_each_of_several_labels_of_a_row_stays(seed):
    rows = grouped(list("aabbcd"), [["+"], ["-", "rare"], ["+", "-"], [], ["+"], ["-"]])
    kept, held = rows.split(0.9, seed)
    assert kept.labels() == {"+", "-", "rare"}
    assert "a" not in held.groups
    assert len(held) > 0


def test_numbers_have_no_labels_to_keep():
    rows = GroupedRows(list("abcd"), [0.5, 1.5, 2.5, 3.5], "t.csv", groups=[1, 1, 2, 2])
    kept, held = rows.split(0.9, seed=0)
    assert (len(kept), len(held)) == (2, 2)


@pytest.mark.parametrize(
    ("groups", "targets", "count"),
    [("aaaa", "+-+-", 1), ("ab", "+-", 2), ("aabbcc", "++--00", 3)],
)
def test_groups_none_of_which_can_be_held_out_say_so(groups, targets, count):
    said = rf"^t.csv: none of its {count} groups \(speaker\) can be held out, because each label .* Give"
    with pytest.raises(DataError, match=said):
        grouped(list(groups), list(targets)).split(0.5, seed=0)


@pytest.mark.parametrize("share", [0, 1, -0.1, 2])
def test_the_share_must_be_one(share):
    with pytest.raises(DataError, match=f"`held_out` must be between 0 and 1. Received {share}"):
        MANY.split(share, seed=0)


def test_taken_rows_keep_their_groups_and_all_else():
    rows = GroupedRows(
        ["a", "b", "c"],
        ["+", "-", "+"],
        "t.csv",
        [2, 3, 5],
        groups=["x", "y", "z"],
        group="patient",
        note="n",
    )
    taken = rows.take([2, 0])
    assert isinstance(taken, GroupedRows)
    assert (taken.inputs, taken.targets, taken.where) == (["c", "a"], ["+", "+"], [5, 2])
    assert (taken.groups, taken.group, taken.note, taken.kind) == (["z", "x"], "patient", "n", rows.kind)
    assert rows.take([1]).groups == ["y"]


def test_many_groups_are_split_in_no_time():
    """Each step asks only for the labels of its own group."""
    groups = [row // 2 for row in range(20_000)]
    kept, held = grouped(groups, [str(row % 7) for row in range(20_000)]).split(0.1, seed=0)
    assert (len(kept), len(held)) == (18_000, 2_000)

"""Kinds of targets: classes, names beside sets of names."""

import numpy as np
import pytest

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.drawing.figures import Histogram
from keras_selfattn.report.rows import data_section
from keras_selfattn.rows.targets import LABEL_SET, TargetKind


class Ranks(TargetKind):
    """A target that is a text and no class: "4th", "5th" and so on, of which a report shows the number."""

    def numbers(self, target):
        return np.array([float(target[:-2])])


def test_a_target_that_is_a_text_is_a_class_only_if_its_kind_says_so():
    ranked = [f"{n}th" for n in (4, 5, 6, 7)]
    rows = LabelledRows(list("abcd"), ranked, "made up", target_kind=Ranks())
    assert rows.labels() == set()
    assert LabelledRows(list("abcd"), ranked, "made up").labels() == set(ranked), "as guessed without a kind"
    kept, held_out = rows.split(0.25, 0)  # four classes of one row each could not be split
    assert (len(kept), len(held_out)) == (3, 1)
    assert kept.target_kind == Ranks()
    blocks = data_section({"train": rows}).blocks
    assert [each.title for each in blocks if isinstance(each, Histogram)] == ["Targets"]


@pytest.mark.parametrize("targets", [["ab"] * 10 + [["c", "d"]] * 10, [["c", "d"]] * 10 + ["ab"] * 10])
def test_names_beside_lists_of_them_are_sets_of_one(targets):
    rows = LabelledRows([f"text {n}" for n in range(20)], targets, "made up")
    assert (rows.target_kind, rows.labels()) == (LABEL_SET, {"ab", "c", "d"})
    kept, held_out = rows.split(0.3, 0)
    assert (len(kept), held_out.targets.count("ab"), len(held_out)) == (14, 3, 6)

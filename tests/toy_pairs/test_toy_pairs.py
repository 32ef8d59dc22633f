"""A task from outside: pairs of texts, in the five files beside this one, go the way of all tasks.

CONTRIBUTING.md lists the steps. Nothing of the product is changed for it.
"""

import dataclasses

import pair_front  # noqa: F401  registers the front
import pytest
import test_task_contract as contract
from pair_files import read_pairs
from pair_rows import PAIRS
from pair_task import PAIR_TASK
from test_task_contract import (  # noqa: F401  run again, on the walk below
    test_the_run_holds_figures_and_a_report_of_the_rows,
    test_the_saved_model_answers_as_before_and_is_measured_alike,
    test_the_server_answers_as_the_model_and_explains_it,
)

from keras_selfattn import tasks
from keras_selfattn.data.labelled import split_rows
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.metrics.evaluation import examine


def write(folder):
    texts = ("a film", "a song", "a play")
    lines = [
        f"{text} {n},{answer} {text},{label}"
        for n in range(8)
        for text in texts
        for answer, label in (("yes, it is", "same"), ("no, it was", "other"))
    ]
    lines = [line.replace(", ", " ") for line in lines]
    path = folder / "pairs.csv"
    path.write_text("\n".join(["text,text_pair,label", *lines]) + "\n", encoding="utf-8")
    return path


SAMPLE = contract.Sample(write, "probabilities", {"width": 8, "num_layers": 1, "num_heads": 2, "members": 1})


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    return contract.walk_of(PAIR_TASK, SAMPLE, tmp_path_factory.mktemp("pairs"))


@pytest.mark.slow
def test_report_and_mistakes_show_both_texts(walk):
    page = (walk.run.path / "report.html").read_text()
    assert "training rows but for case, spaces and punctuation" in page
    wrong = walk.rows.take(range(4))
    wrong = dataclasses.replace(wrong, targets=["other", "same"] * 2)
    mistakes = examine(walk.run.model, wrong).mistakes()
    assert mistakes.header[:3] == ["line", "text", "text_pair"]
    assert mistakes.rows[0][2] in {second for _, second in wrong.inputs}


@pytest.mark.slow
def test_texts_that_are_no_pair_are_refused_by_the_model(walk):
    with pytest.raises(DataError, match=r"Pair 1 \(counted from 0\) must be two texts"):
        walk.run.model.predict([("a", "b"), "c"])


def test_equal_pairs_stay_in_one_part_and_their_halves_need_not(tmp_path):
    rows = read_pairs(write(tmp_path), "text", "label")
    assert rows.kind == PAIRS
    twice = rows.take([*range(len(rows)), *range(len(rows))])
    kept, held_out = split_rows(twice, 0.25, 0)
    assert not set(map(PAIRS.key, kept.inputs)) & set(map(PAIRS.key, held_out.inputs))
    assert len(kept) + len(held_out) == 2 * len(rows)


def test_its_options_are_told_and_those_of_others_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(tasks, "TASKS", (*tasks.TASKS, PAIR_TASK))
    assert "pairs" in tasks.tasks_of("text")
    assert any(line.startswith("pairs ") for line in tasks.tasks_in_words().splitlines())
    with pytest.raises(ConfigError, match=r"--horizon is for the task forecast. The task is pairs"):
        tasks.check_task(PAIR_TASK, {"horizon": 3})
    assert tasks.task_named("pairs", tmp_path) is PAIR_TASK

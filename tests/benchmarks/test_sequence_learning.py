"""Trainings of the benchmark `sequences` are done once, and their rows are those that were asked for."""

import gzip
import json
from functools import partial

import pytest

from benchmarks.accuracy.store import Store
from benchmarks.peers.sequence_models import SequenceRows, UsedTime, _figures, _lexicon
from benchmarks.rounds import Settings
from benchmarks.sequences import learning
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import TrainingError

ROWS = LabelledRows(["a b", "c"], [("X Y", "X"), ("Z",)], "made up")


def test_an_answer_that_equals_one_of_the_right_ones_is_exact():
    """The second answer has two symbols instead of one: the right one is changed, and one is added."""
    assert _figures("test", ROWS, ["X", "Q Q"]) == {"test exact": 0.5, "test symbol errors": 1.0}
    assert _figures("test", ROWS, ["X Y", "Z"]) == {"test exact": 1.0, "test symbol errors": 0.0}


def test_sources_are_spelled():
    rows = learning.spelled(LabelledRows(["it's", "ok"], [("IH1 T S",), ("OW2 K EY1",)], "made up"), 1)
    assert (list(rows.inputs), list(rows.targets)) == (["i t ' s"], [("IH1 T S",)])


def test_rows_of_pronunciations_have_alternatives_where_they_are_measured(tmp_path):
    folder = tmp_path / "cmudict"
    folder.mkdir()
    for part, line in (("train", "hi\tHH AY1"), ("valid", "a\tAH0|EY1"), ("test", "b\tB IY1")):
        (folder / f"{part}.tsv.gz").write_bytes(gzip.compress(f"word\tphonemes\n{line}\n".encode()))
    rows = learning._rows("cmudict", tmp_path, quick=True)
    assert (list(rows.train.inputs), list(rows.train.targets)) == (["h i"], [("HH AY1",)])
    assert rows.development is not None
    assert list(rows.development.targets) == [("AH0", "EY1")]
    assert list(rows.test["test"].targets) == [("B IY1",)]


def test_a_training_that_is_in_the_results_is_not_repeated(tmp_path, monkeypatch):
    done = []

    def own_process(train, rows, config, given, seed, beams, folder):
        assert folder.is_dir()
        done.append((config["position"], given["epochs"], seed))
        return {"test exact": 0.5 + seed / 4, "cpu s": 1.0}

    monkeypatch.setattr(learning, "in_own_process", own_process)
    file = tmp_path / "results.jsonl"
    measure = partial(learning.run, Settings(only=("reversal", "rotary")), None, 3)
    table = measure(2, Store(file, learning.FIGURE))
    assert done == [("rotary", 2, seed) for seed in range(3)]
    [result] = table.results
    assert (result.row, result.contestant, result.figures["test exact"]) == ("reversal", "rotary", 0.75)
    assert result.note == "exact 50.00% to 100.00%"
    assert list(tmp_path.iterdir()) == [file]  # no folders of trainings that are done
    assert measure(2, Store(file, learning.FIGURE)).results == table.results
    assert len(done) == 3
    measure(5, Store(file, learning.FIGURE))
    assert len(done) == 6


def test_a_contestant_that_fails_leaves_the_others_their_rows(monkeypatch):
    def own_process(train, rows, config, given, seed, beams, folder):
        assert folder is None
        if config["position"] == "alibi":
            raise TrainingError("no memory")
        return {"test exact": 1.0}

    monkeypatch.setattr(learning, "in_own_process", own_process)
    results = learning.run(Settings(only=("numbers",), quick=True), None, 1, None).results
    assert {result.contestant: result.skipped for result in results} == {
        **dict.fromkeys(learning.POSITIONS, ""),
        "alibi": "no memory",
    }


@pytest.mark.parametrize("task", ["dates", "numbers", "reversal"])
def test_rows_of_exact_tasks_have_a_part_of_longer_ones(task):
    rows = learning._rows(task, None, quick=True)
    assert isinstance(rows, SequenceRows)
    assert set(rows.test) == ({"test"} if task == "dates" else {"test", "longer"})
    assert all(type(answers) is tuple and len(answers) == 1 for answers in rows.train.targets)


def test_the_time_of_a_stopped_training_counts(tmp_path):
    file = tmp_path / "used.json"
    first = UsedTime(file)
    assert first.before == {"seconds": 0.0, "cpu s": 0.0}
    first.keep()
    kept = json.loads(file.read_text())
    assert kept["seconds"] > 0
    second = UsedTime(file)
    assert second.before == kept
    second.keep()
    assert json.loads(file.read_text())["seconds"] > kept["seconds"]


def test_the_lexicon_of_the_peer_has_a_line_for_each_answer():
    """Its package writes the lexicon without a flush, so that the last 8 kB of it are not learned."""
    assert _lexicon(ROWS) == "ab\tX Y\nab\tX\nc\tZ\n"

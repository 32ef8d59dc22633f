"""Trainings of the benchmark `sequences` are done once, and their rows are those that were asked for."""

import csv
import gzip
import importlib.util
import json
from functools import partial

import pytest
from click.testing import CliRunner

from benchmarks.accuracy.store import Key, Store
from benchmarks.commands import main
from benchmarks.peers.sequence_models import SequenceRows, UsedTime, _figures, _lexicon, corpus_metrics
from benchmarks.rounds import Settings
from benchmarks.sequences import learning
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import TrainingError

SENTENCES = LabelledRows(["a man walks home"], [("Ein Mann geht heim.",)], "made up")
ROWS = LabelledRows(["a b", "c"], [("X Y", "X"), ("Z",)], "made up")


def test_an_answer_that_equals_one_of_the_right_ones_is_exact():
    """The second answer has two symbols instead of one: the right one is changed, and one is added."""
    assert _figures("test", ROWS, ["X", "Q Q"]) == {"test exact": 0.5, "test symbol errors": 1.0}
    assert _figures("test", ROWS, ["X Y", "Z"]) == {"test exact": 1.0, "test symbol errors": 0.0}


def test_sentences_are_compared_without_case():
    pytest.importorskip("sacrebleu")
    found = _figures("test", SENTENCES, ["ein mann geht heim."], sentences=True)
    assert found["test exact"] == 0
    assert (found["test BLEU"], found["test chrF"]) == (pytest.approx(100), pytest.approx(100))
    signatures = [str(each.get_signature()) for each in corpus_metrics(SENTENCES).values()]
    assert signatures[0].startswith("nrefs:1|case:lc|eff:no|tok:13a|")
    assert "case:lc" in signatures[1]


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


def write_translations(folder, rows):
    """Write the parts of Multi30k, each with so many rows."""
    (folder / "multi30k").mkdir()
    words = {"en": ["man", "dog", "house"], "de": ["Mann", "Hund", "Haus"]}
    for part in ("train", "val", "test_2016_flickr"):
        for language, of_language in words.items():
            lines = "".join(f"{of_language[row % 3]} {row}\n" for row in range(rows))
            (folder / "multi30k" / f"{part}.{language}.gz").write_bytes(gzip.compress(lines.encode()))


def test_development_rows_of_translations_are_from_all_over_their_file(tmp_path):
    write_translations(tmp_path, 1100)
    rows = learning._rows("multi30k", tmp_path, quick=False)
    assert rows.sentences
    assert rows.development is not None
    assert [len(rows.train), len(rows.development), len(rows.test["test"])] == [1100, 500, 1100]
    assert list(rows.development.inputs[:2]) == ["man 0", "house 2"]
    assert list(rows.train.targets[:2]) == [("Mann 0",), ("Hund 1",)]
    quick = learning._rows("multi30k", tmp_path, quick=True)
    assert quick.development is not None
    assert len(quick.train) == len(quick.development) == 64


def test_the_main_figure_of_translations_is_bleu(tmp_path, monkeypatch):
    pytest.importorskip("sacrebleu")
    write_translations(tmp_path, 2)

    def own_process(train, rows, config, given, seed, beams, folder):
        assert beams == (4,)
        return {"test exact": 0.0, "test BLEU": 40.0 + seed}

    monkeypatch.setattr(learning, "in_own_process", own_process)
    table = learning.run(Settings(only=("multi30k", "ours")), tmp_path, 3, None)
    [result] = table.results
    assert (result.figures["test BLEU"], result.note) == (41.0, "BLEU 40.0 to 42.0")
    assert "tok:13a" in table.notes[-1]


def test_a_set_that_is_missing_and_a_peer_that_is_not_installed_are_skipped_rows(tmp_path, monkeypatch):
    pytest.importorskip("sacrebleu")
    write_translations(tmp_path, 2)
    monkeypatch.setattr(learning, "in_own_process", lambda *_: {"test exact": 0.0})
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))
    skipped = {
        (each.row, each.contestant): each.skipped
        for name in ("multi30k", "cmudict")
        for each in learning.run(Settings(only=(name,)), tmp_path, 1, None).results
    }
    assert skipped["multi30k", "nn.Transformer on torch"] == "torch is not installed"
    assert not skipped["multi30k", "ours"]
    assert "train.tsv.gz" in skipped["cmudict", "ours"]


@pytest.mark.process
def test_translations_are_learned_by_both_and_known_afterwards(tmp_path, monkeypatch):
    for module in ("torch", "sacrebleu"):
        pytest.importorskip(module)
    write_translations(tmp_path, 12)
    tiny = {"width": 8, "num_heads": 2, "num_layers": 1, "decoder_layers": 1, "max_new_tokens": 8}
    monkeypatch.setattr(learning, "_TRANSLATION", tiny)
    results, table = tmp_path / "results.jsonl", tmp_path / "table.csv"
    asked = ["sequences", "--quick", "--data", str(tmp_path), "--only", "multi30k", "--epochs", "2"]
    asked += ["--results", str(results), "--csv", str(table)]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    with table.open() as lines:
        found = list(csv.DictReader(lines))
    assert [each["contestant"] for each in found] == ["ours", "nn.Transformer on torch"]
    for each in found:
        assert not each["skipped"], each
        assert float(each["cpu s"]) > 0
        assert 0 <= float(each["4 beams chrF"]) <= 100
    assert CliRunner().invoke(main, asked).exit_code == 0
    assert len(results.read_text().splitlines()) == 2


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


def test_contestants_of_one_configuration_leave_what_they_need_in_folders_of_their_own(tmp_path):
    """The one that is done first removes its folder."""
    store = Store(tmp_path / "results.jsonl", "test exact")
    folders = {store.folder(Key("multi30k", name, 0, 0, "abc")) for name in ("ours", "nn.Transformer")}
    assert len(folders) == 2
    assert folders == {*tmp_path.iterdir()}


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

"""`benchmarks accuracy` runs, and no wrong figure comes into its table: files, peers, folds, kept results."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse
from sklearn.svm import LinearSVC

from benchmarks.accuracy import kernels, linear_models, ours, peer, run
from benchmarks.accuracy.peer import Peer
from benchmarks.accuracy.sets import FOLDS, SETS, Split
from benchmarks.accuracy.store import Store
from benchmarks.accuracy.table import HEADER, cells
from benchmarks.commands import main
from keras_selfattn import training
from keras_selfattn.cli.main import main as keras_selfattn
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import TrainingError
from keras_selfattn.tasks import task_named


def write(folder, files, encoding="utf-8"):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode(encoding))
    return folder


def read(name, folder):
    found = next(each for each in SETS if each.name == name)
    return found.read(folder, task_named(found.task, folder))


def columns(rows):
    return list(zip(rows.targets, rows.inputs, strict=True))


# What is read.


def test_mr_is_divided_into_ten_folds_that_test_each_row_once_with_both_classes_alike(tmp_path):
    lines = "".join(f"{row % 2} review {row} é\n" for row in range(40))
    splits = read("mr", write(tmp_path, {"rt-polarity.all": lines}, "latin-1"))
    assert [split.fold for split in splits] == list(range(FOLDS))
    tested = [text for split in splits for text in split.test.inputs]
    assert sorted(tested) == sorted(f"review {row} é" for row in range(40))
    for split in splits:
        assert sorted(split.test.targets) == ["0", "0", "1", "1"]
        assert set(split.train.inputs).isdisjoint(split.test.inputs)
        assert len(split.train) == 36
    again = read("mr", tmp_path)
    assert [split.test.inputs for split in again] == [split.test.inputs for split in splits]


def test_imdb_is_read_without_the_rating_that_its_second_column_gives_away(tmp_path):
    files = {"train.tsv": '0\t0_3\ta "bad" one\n1\t1_9\tgood\n', "test.tsv": "1\t5_10\tfine\n"}
    (split,) = read("imdb", write(tmp_path, files))
    assert columns(split.train) == [("0", 'a "bad" one'), ("1", "good")]
    assert columns(split.test) == [("1", "fine")]


def test_clinc150_is_read_without_what_is_out_of_scope(tmp_path):
    parts = {part: [[f"say {part}", "greet"]] for part in ("train", "val", "test")}
    parts |= {f"oos_{part}": [["unrelated", "oos"]] for part in ("train", "val", "test")}
    (split,) = read("clinc150", write(tmp_path, {"data_full.json": json.dumps(parts)}))
    assert [columns(rows) for rows in (split.train, split.dev, split.test)] == [
        [("greet", f"say {part}")] for part in ("train", "val", "test")
    ]


# What the peers compute.


def test_the_log_count_ratio_is_that_of_the_paper():
    """By hand: counts of class and rest, plus one each, over their sums: (3, 1, 2) / 6 and (1, 3, 1) / 5."""
    present = sparse.csr_matrix([[1.0, 0, 0], [1.0, 0, 1.0], [0, 1.0, 0], [0, 1.0, 0]])
    ratio = linear_models.log_count_ratio(present, np.array([True, True, False, False]), 1.0)
    np.testing.assert_allclose(ratio, np.log([(3 / 6) / (1 / 5), (1 / 6) / (3 / 5), (2 / 6) / (1 / 5)]))


def test_nb_svm_weighs_as_the_paper_does_and_tells_classes_apart():
    """β of the SVM's weights and 1 - β of their mean size, times the ratio; counts above 1 are 1."""
    counts = np.array([[2.0, 0, 1], [3, 0, 0], [0, 1, 1], [0, 4, 0]])
    targets = ["a", "a", "b", "b"]
    model = linear_models.NaiveBayesSVM(beta=0.25).fit(sparse.csr_matrix(counts), targets)
    inside = np.array([False, False, True, True])
    ratio = linear_models.log_count_ratio(sparse.csr_matrix((counts > 0) * 1.0), inside, 1.0)
    machine = LinearSVC(C=1.0, random_state=0).fit((counts > 0) * ratio, inside)
    expected = ratio * (0.75 * np.abs(machine.coef_[0]).mean() + 0.25 * machine.coef_[0])
    np.testing.assert_allclose(model.weights_[:, 0], expected, rtol=1e-5)
    assert model.predict(counts).tolist() == targets
    three = linear_models.NaiveBayesSVM().fit(np.eye(3), ["a", "b", "c"])
    assert three.predict(np.eye(3)[[2, 0, 1]]).tolist() == ["c", "a", "b"]


def naive_features(kernel, series):
    """Both features of one series, a tap at a time."""
    frames = len(series)
    values = []
    for start in range(-kernel.padding, frames + kernel.padding):
        places = [start + tap * kernel.dilation for tap in range(kernel.weights.shape[1])]
        if places[-1] >= frames + kernel.padding:
            break
        values.append(
            kernel.bias
            + sum(
                kernel.weights[row, tap] * series[place, channel]
                for row, channel in enumerate(kernel.channels)
                for tap, place in enumerate(places)
                if 0 <= place < frames
            )
        )
    return [np.mean(np.array(values) > 0), max(values)] if values else [0.0, 0.0]


def test_random_kernels_give_what_a_loop_gives_for_series_of_any_length():
    random = np.random.default_rng(0)
    series = [random.normal(size=(length, 3)) for length in (23, 29, 4, 1)]
    drawn = kernels.draw_kernels(60, 29, 3, seed=1)
    assert {kernel.padding > 0 for kernel in drawn} == {True, False}
    assert len({len(kernel.channels) for kernel in drawn}) > 1
    assert max(kernel.dilation for kernel in drawn) > 1
    expected = [[value for k in drawn for value in naive_features(k, row)] for row in series]
    np.testing.assert_allclose(kernels.transformed(drawn, series), expected, atol=1e-5)


def few_texts(count, words):
    labels = [("a", "b")[row % 2] for row in range(count)]
    return LabelledRows(
        [f"{words[label]} thing {row}" for row, label in enumerate(labels)], labels, "made up"
    )


def test_the_best_text_model_is_chosen_on_dev_rows_and_trained_on_them_too():
    """The final model knows words that only dev rows hold; the test rows are not read."""
    train, dev = few_texts(20, {"a": "good", "b": "bad"}), few_texts(20, {"a": "lovely", "b": "awful"})
    fitted = linear_models.fit(Split(train, dev, LabelledRows([None], [None], "must not be read")), 0)
    assert len(fitted.choices) == 8
    assert fitted.choices[fitted.name] == max(fitted.choices.values())
    assert fitted.predict(["lovely", "awful", "good", "bad"]) == ["a", "b", "a", "b"]


def test_a_single_row_is_timed_fifty_times_after_five_and_less_often_where_it_takes_long(monkeypatch):
    def rows_asked(seconds):
        asked = []
        monkeypatch.setattr(peer, "timed", lambda work: (work(), (9.9, next(seconds))))
        return peer.cpu_ms_of_one(asked.append, range(100)), asked

    assert rows_asked(iter([0.5] * 5 + [0.004] * 50)) == (4.0, [[row] for row in range(55)])
    assert rows_asked(iter([0.8] * 50)) == (800.0, [[row] for row in range(7)])
    assert rows_asked(iter([6.0])) == (6000.0, [[0]])


# What ours is.


def test_calibration_error_before_is_that_of_the_logits_undivided():
    logits = np.random.default_rng(0).normal(size=(5, 3))
    soft = [np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True) for x in (logits / 1.7, logits)]
    np.testing.assert_allclose(ours.without_temperature(soft[0], 1.7), soft[1])


SERIES = "@classLabel true 0 1\n@data\n" + "".join(f"1,2,{n}:{n % 2}\n" for n in range(20))

TOKENS = "".join(f"word{n} {n % 2}\n\n" for n in range(20))


@pytest.mark.parametrize(
    ("task", "name", "content"),
    [
        ("text", "rows.csv", "text,label\n" + "".join(f"t{n},{n % 2}\n" for n in range(20))),
        ("series", "rows.ts", SERIES),
        ("tokens", "rows.conll", TOKENS),
    ],
)
def test_ours_is_trained_as_the_command_trains_without_a_flag(tmp_path, monkeypatch, task, name, content):
    asked = {}

    def stop(rows, output, **arguments):
        asked.update(arguments, rows=rows)
        raise TrainingError("far enough")

    monkeypatch.setattr(training, "train", stop)
    write(tmp_path, {name: content})
    CliRunner().invoke(keras_selfattn, ["train", str(tmp_path / name), "--output", str(tmp_path / "run")])
    found = task_named(task, tmp_path)
    assert asked["config"] == ours.config_of(found, len(asked["rows"]), quick=False)
    assert asked["model"].config == found.model({}).config
    assert type(asked["model"]).__name__ == found.kind


# What is kept, and shown.


def figures(accuracy, **more):
    return {"figures": {"accuracy": accuracy, "seconds": 1.0, **more}, "note": "n", "choices": {}}


class Counted:
    """Contestants that train nothing, and count how often they are asked."""

    def __init__(self, monkeypatch):
        self.asked = []
        self.stop_at = None
        self.error = KeyboardInterrupt()
        monkeypatch.setattr(run, "measure_peer", lambda peer, split, seed: self.measure(peer.name, seed))
        monkeypatch.setattr(
            ours, "measure_ours", lambda task, split, seed, *, quick: self.measure("ours", seed)
        )

    def measure(self, name, seed):
        if len(self.asked) == self.stop_at:
            raise self.error
        self.asked.append((name, seed))
        return figures(0.9)

    def run(self, tmp_path, **settings):
        """Returns what was found, and what had to be measured for it."""
        self.asked.clear()
        store = Store(tmp_path / "rows.jsonl")
        settings = {"only": ["trec"], "progress": list, "after_set": id, **settings}
        return run.run(tmp_path / "sets", store, **settings), list(self.asked)


TREC = {"trec/TREC.train.all": "0 a b\n1 c d\n" * 20, "trec/TREC.test.all": "0 a\n1 c\n"}


@pytest.fixture
def counted(tmp_path, monkeypatch):
    write(tmp_path / "sets", TREC)
    return Counted(monkeypatch)


def test_another_configuration_of_model_peer_data_or_version_is_measured_anew(tmp_path, counted, monkeypatch):
    counted.run(tmp_path, seeds=1)
    with monkeypatch.context() as changed:
        changed.setattr(ours, "config_of", lambda *_, **__: training.TrainConfig(epochs=7))
        assert counted.run(tmp_path, seeds=1)[1] == [("ours", 0)]
    with monkeypatch.context() as changed:
        other = Peer("linear", {"C": 3}, False, linear_models.fit)
        changed.setitem(run.PEERS, "text", other)
        assert counted.run(tmp_path, seeds=1)[1] == [("linear", 0)]
    with monkeypatch.context() as changed:
        changed.setattr(run, "__version__", "9.9")
        assert counted.run(tmp_path, seeds=1)[1] == [("linear", 0), ("ours", 0)]
    assert counted.run(tmp_path, seeds=1)[1] == []
    write(tmp_path / "sets", {"trec/TREC.test.all": "0 another\n1 c\n"})
    assert counted.run(tmp_path, seeds=1)[1] == [("linear", 0), ("ours", 0)]


def row(contestant, seed, fold, note="SVM", **found):
    return {"contestant": contestant, "seed": seed, "fold": fold, "note": note, "figures": found}


def test_the_table_has_the_median_of_seeds_each_the_mean_of_its_folds():
    accuracies = {0: (0.80, 0.90), 1: (0.70, 0.72), 2: (0.94, 0.96)}  # means 0.85, 0.71, 0.95
    rows = [
        row(
            *("ours", seed, fold),
            accuracy=value,
            seconds=40.0,
            bytes=2.5e6,
            **{"cpu ms of one": 1.25, "int8 accuracy": value - 0.01},
        )
        for seed, values in accuracies.items()
        for fold, value in enumerate(values)
    ]
    rows += [
        row("linear", 0, 0, accuracy=0.9, seconds=4.0, bytes=250e6),
        row("linear", 0, 1, "NB-SVM", accuracy=0.8),
    ]
    found = dict(zip(HEADER, cells(run.SetResult("mr", 1000, 200, 9, rows)), strict=True))
    assert found == {
        "set": "mr",
        "rows: train / test": "1,000 / 200",
        "ours": "85.0 % (71.0–95.0)",
        "in int8": "84.0 % (70.0–94.0)",
        "best linear": "85.0 %",
        "which": "SVM (1 of 2)",
        "seconds": "40.0 / 4",
        "calibration error": "—",
        "MB": "2.5 / 250",
        "CPU ms": "1.2 / —",
        "runs": "8 of 9",
    }


@pytest.mark.slow
def test_the_command_prints_its_table_and_then_knows_every_row(tmp_path):
    lines = "".join(f"{n % 2} {('who', 'where')[n % 2]} is thing {n} ?\n" for n in range(60))
    write(tmp_path / "sets", {"trec/TREC.train.all": lines, "trec/TREC.test.all": lines})
    asked = ["accuracy", "--data", str(tmp_path / "sets"), "--only", "trec", "--seeds", "1", "--quick"]
    asked += ["--output", str(tmp_path / "table.md")]
    first = CliRunner().invoke(main, asked)
    assert first.exit_code == 0, first.output
    assert "| trec | 60 / " in (tmp_path / "table.md").read_text()
    rows = [json.loads(line) for line in (tmp_path / "table.jsonl").read_text().splitlines()]
    assert [each["contestant"] for each in rows] == ["linear", "ours"]
    assert rows[0]["figures"]["accuracy"] == 1.0
    assert rows[1]["figures"]["bytes"] > 10_000
    assert CliRunner().invoke(main, asked).stderr.count("(known)") == 2

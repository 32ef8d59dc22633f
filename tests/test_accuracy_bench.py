"""`bench accuracy` reads published files, its peers compute their definitions, and results are kept."""

import dataclasses
import json
import signal
from collections import Counter

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse
from sklearn.svm import LinearSVC

from benchmarks.accuracy import kernels, linear_models, ours, peer, run, tagging
from benchmarks.accuracy.own_process import in_own_process
from benchmarks.accuracy.peer import Peer, choosing
from benchmarks.accuracy.sets import FOLDS, SETS, Split, few, shortened
from benchmarks.accuracy.store import Key, Store, data_digest
from benchmarks.accuracy.table import HEADER, cells, markdown
from benchmarks.commands import main
from keras_selfattn import training
from keras_selfattn.cli.main import main as keras_selfattn
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.series import read_series
from keras_selfattn.errors import ConfigError, DataError, TrainingError
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


# What is read


def test_trec_is_read_label_first_in_latin_1_where_only_a_line_feed_ends_a_line(tmp_path):
    files = {"TREC.train.all": "0 Who is Renée ?\n1 What\x85then ?\n", "TREC.test.all": "1 Why ?\n"}
    (split,) = read("trec", write(tmp_path, files, "latin-1"))
    assert columns(split.train) == [("0", "Who is Renée ?"), ("1", "What\x85then ?")]
    assert (split.dev, columns(split.test)) == (None, [("1", "Why ?")])


def test_sst2_has_rows_to_choose_on(tmp_path):
    files = {f"stsa.binary.{part}": f"1 good {part}\n0 brûlée .\n" for part in ("train", "dev", "test")}
    (split,) = read("sst2", write(tmp_path, files))
    assert columns(split.dev) == [("1", "good dev"), ("0", "brûlée .")]
    assert split.train.inputs[0] == "good train"
    assert split.test.inputs[0] == "good test"


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


def test_banking77_is_read_by_its_columns(tmp_path):
    files = {"train.csv": 'text,category\n"a, b",card\nhow?,top_up\n', "test.csv": "text,category\nx,card\n"}
    (split,) = read("banking77", write(tmp_path, files))
    assert columns(split.train) == [("card", "a, b"), ("top_up", "how?")]


def test_clinc150_is_read_without_what_is_out_of_scope(tmp_path):
    parts = {part: [[f"say {part}", "greet"]] for part in ("train", "val", "test")}
    parts |= {f"oos_{part}": [["unrelated", "oos"]] for part in ("train", "val", "test")}
    (split,) = read("clinc150", write(tmp_path, {"data_full.json": json.dumps(parts)}))
    assert [columns(rows) for rows in (split.train, split.dev, split.test)] == [
        [("greet", f"say {part}")] for part in ("train", "val", "test")
    ]


def test_snips_is_read_from_two_files_whose_lines_belong_together(tmp_path):
    files = {}
    for part in ("train", "valid", "test"):
        files |= {f"{part}.seq.in": "play é \nadd it\n", f"{part}.label": "PlayMusic\nAdd\n"}
    (split,) = read("snips", write(tmp_path, files))
    assert columns(split.dev) == [("PlayMusic", "play é"), ("Add", "add it")]
    write(tmp_path, {"valid.label": "PlayMusic\n"})
    with pytest.raises(DataError, match=r"valid.seq.in has 2 lines and the labels have 1"):
        read("snips", tmp_path)


@pytest.mark.parametrize(("name", "ending"), [("ucr_GunPoint", "ts"), ("ucr_ECG200", "txt")])
def test_series_are_read_in_both_forms_of_the_archive(tmp_path, name, ending):
    forms = {"ts": "#made up\n@classLabel true 1 2\n@data\n1.5,2.5:1\n{},4.0:2\n"}
    forms["txt"] = "   1.0000000e+00   1.5   2.5\n   2.0000000e+00   {}   4.0\n"
    files = {f"any_{part}.{ending}": forms[ending].format(x) for part, x in (("TRAIN", 3.0), ("TEST", 9.0))}
    write(tmp_path, {**files, "about.txt": "not this one", "SOURCE.txt": "nor this"})
    (split,) = read(name, tmp_path)
    assert [row.tolist() for row in split.train.inputs] == [[[1.5], [2.5]], [[3.0], [4.0]]]
    assert [row.tolist() for row in split.test.inputs] == [[[1.5], [2.5]], [[9.0], [4.0]]]
    assert (split.train.targets, split.dev) == (["1", "2"], None)
    (tmp_path / f"any_TRAIN.{ending}").unlink()
    with pytest.raises(DataError, match=r"has 0 files \*_TRAIN"):
        read(name, tmp_path)


def test_ud_ewt_is_read_as_words_and_their_universal_tags(tmp_path):
    def tokens(*words):
        lines = [f"{n}\t{word}\t_\t{tag}" + "\t_" * 6 for n, (word, tag) in enumerate(words, start=1)]
        return "# text = any\n" + "\n".join(lines) + "\n\n"

    parts = {"train": [("It", "PRON"), ("ran", "VERB")], "dev": [("Up", "ADP")], "test": [("Go", "VERB")]}
    write(tmp_path, {f"en_ewt-ud-{part}.conllu": tokens(*words) for part, words in parts.items()})
    (split,) = read("ud_ewt", tmp_path)
    assert (split.train.inputs, split.train.targets) == ([["It", "ran"]], [["PRON", "VERB"]])
    assert [columns(rows) for rows in (split.dev, split.test)] == [[(["ADP"], ["Up"])], [(["VERB"], ["Go"])]]


@pytest.mark.parametrize(
    ("name", "files", "message"),
    [
        ("trec", {}, "There is no file .*TREC.train.all"),
        ("trec", {"TREC.train.all": "\n", "TREC.test.all": "0 a"}, "has no rows"),
        ("sst2", {"stsa.binary.train": "\xe9"}, "is not utf-8: byte 0"),
        ("mr", {"rt-polarity.all": "0 a\n1 b\n"}, "cannot be divided into 10 parts"),
        ("imdb", {"train.tsv": "0\ta b\n"}, "row 1 has fewer than 3 columns"),
        ("clinc150", {"data_full.json": '{"train": [["a"]]}'}, "does not hold lists of texts and labels"),
    ],
)
def test_files_that_are_not_those_of_the_set_are_named(tmp_path, name, files, message):
    write(tmp_path, files, "latin-1")
    with pytest.raises(DataError, match=message):
        read(name, tmp_path)


def test_few_rows_are_as_many_of_each_class_and_others_for_another_seed():
    texts, labels = [f"text {place}" for place in range(30)], ["a"] * 20 + ["b"] * 7 + ["c"] * 3
    whole = Split(
        LabelledRows(texts, labels, "train"),
        LabelledRows(["x"], ["a"], "dev"),
        LabelledRows(["y"], ["b"], "test"),
        4,
    )
    first, again, other = (few(whole, 5, seed) for seed in (0, 0, 1))
    assert Counter(first.train.targets) == {"a": 5, "b": 5, "c": 3}
    assert len(set(first.train.inputs)) == 13
    assert first.train.inputs == again.train.inputs != other.train.inputs
    assert (first.dev, first.test, first.fold) == (None, whole.test, 4)


def test_the_short_form_keeps_few_rows_and_folds_and_no_label_that_training_lacks():
    rows = LabelledRows([f"t{n}" for n in range(900)], [str(n % 450) for n in range(900)], "made up")
    short = shortened([Split(rows, None, rows, fold) for fold in range(5)])
    assert [split.fold for split in short] == [0, 1]
    assert len(short[0].train) == 240
    assert 0 < len(short[0].test) <= 80
    assert set(short[0].test.targets) <= set(short[0].train.targets)


# What the peers compute


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


def test_random_kernels_tell_slow_waves_from_fast_ones():
    random = np.random.default_rng(0)
    frames = np.arange(31)[:, None]

    def waves(count):
        labels = ["slow", "fast"] * count
        speeds = [0.3 if label == "slow" else 0.9 for label in labels]
        return LabelledRows(
            [np.sin(speed * frames + random.uniform(0, 6)) for speed in speeds], labels, "made up"
        )

    fitted = kernels.fit(Split(waves(10), None, waves(10)), 0, count=100)
    assert fitted.predict(waves(10).inputs) == ["slow", "fast"] * 10


def test_the_token_model_learns_from_the_word_and_from_its_neighbour():
    """ "run" is a noun behind "the", a verb behind "to"; a word never seen is known by its ending."""
    rows = [["the", "run"], ["to", "run"], ["the", "walk"], ["to", "walk"], ["quickly"], ["slowly"]]
    targets = [["DET", "NOUN"], ["PART", "VERB"], ["DET", "NOUN"], ["PART", "VERB"], ["ADV"], ["ADV"]]
    held_out = LabelledRows([["to", "jog"], ["sadly"], []], [["PART", "VERB"], ["ADV"], []], "made up")
    fitted = tagging.fit(Split(LabelledRows(rows, targets, "made up"), held_out, held_out), 0)
    assert fitted.predict([["the", "run"], ["to", "run"], [], ["boldly"]]) == [
        ["DET", "NOUN"],
        ["PART", "VERB"],
        [],
        ["ADV"],
    ]


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


def test_without_dev_rows_a_tenth_of_the_training_rows_is_chosen_on():
    rows = few_texts(40, {"a": "good", "b": "bad"})
    train, dev, both = choosing(Split(rows, None, rows))
    assert len(train) + len(dev) == 40
    assert 2 <= len(dev) <= 6
    assert both is rows


def test_a_single_row_is_timed_fifty_times_after_five_and_less_often_where_it_takes_long(monkeypatch):
    def rows_asked(seconds):
        asked = []
        monkeypatch.setattr(peer, "timed", lambda work: (work(), (9.9, next(seconds))))
        return peer.cpu_ms_of_one(asked.append, range(100)), asked

    assert rows_asked(iter([0.5] * 5 + [0.004] * 50)) == (4.0, [[row] for row in range(55)])
    assert rows_asked(iter([0.8] * 50)) == (800.0, [[row] for row in range(7)])
    assert rows_asked(iter([6.0])) == (6000.0, [[0]])


def test_calibration_error_before_is_that_of_the_logits_undivided():
    logits = np.random.default_rng(0).normal(size=(5, 3))
    soft = [np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True) for x in (logits / 1.7, logits)]
    np.testing.assert_allclose(ours.without_temperature(soft[0], 1.7), soft[1])


@pytest.mark.process
def test_a_training_that_ends_its_process_is_named_and_others_go_on():
    assert in_own_process(divmod, 7, 2) == (3, 1)
    with pytest.raises(TrainingError, match="the process that trained was killed by signal 9"):
        in_own_process(signal.raise_signal, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="ended with status 1"):
        in_own_process(divmod, 7, 0)
    with pytest.raises(DataError, match="There is no file"):
        in_own_process(read_series, "no.ts")


def test_ours_is_trained_in_a_process_of_its_own(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(ours, "in_own_process", lambda *call: asked.append(call))
    task, split = task_named("text", tmp_path), object()
    ours.measure_ours(task, split, 3, quick=True)
    assert asked == [(ours.measure_here, task, split, 3, True)]


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


# What is kept


def key(seed=0, configuration="c", fold=0, contestant="ours"):
    return Key("trec", contestant, seed, fold, configuration)


def figures(accuracy, **more):
    return {"figures": {"accuracy": accuracy, "seconds": 1.0, **more}, "note": "n", "choices": {}}


def test_rows_outlive_the_process_and_a_torn_last_line_costs_that_row_alone(tmp_path):
    path = tmp_path / "deep" / "rows.jsonl"
    Store(path).add(key(0), figures(0.5))
    Store(path).add(key(1), figures(0.6))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    store = Store(path)
    assert store.get(key(0))["figures"]["accuracy"] == 0.5
    assert store.get(key(1)) is None
    store.add(key(1), figures(0.7))
    again = Store(path)
    assert [again.get(key(seed))["figures"]["accuracy"] for seed in (0, 1)] == [0.5, 0.7]
    assert {"time", "machine", "versions"} <= set(again.get(key(1)))


@pytest.mark.parametrize("content", ["hello", "# Accuracy\n", '{"a": 1}\n', "[1]\n"])
def test_a_file_of_anything_else_is_not_added_to(tmp_path, content):
    path = tmp_path / "rows.jsonl"
    path.write_text(content)
    with pytest.raises(DataError, match="is no file of results: line 1"):
        Store(path)


def test_a_digest_tells_texts_series_and_their_parts_apart():
    one = LabelledRows(["a", "b"], ["x", "y"], "here")
    series = LabelledRows([np.zeros((2, 1))], ["x"], "here")
    longer = LabelledRows([np.zeros((3, 1))], ["x"], "here")
    wider = LabelledRows([np.zeros((1, 2))], ["x"], "here")
    parts = [[one, None], [one, one], [one.take([1, 0]), None], [series], [longer], [wider]]
    assert len({data_digest(each) for each in parts}) == len(parts)
    assert data_digest([one]) == data_digest([dataclasses.replace(one, source="elsewhere")])


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


def test_what_is_known_is_not_measured_again(tmp_path, counted):
    outcome, asked = counted.run(tmp_path, seeds=2)
    assert asked == [("linear", 0), ("ours", 0), ("ours", 1)]
    assert [(result.name, result.wanted, len(result.rows)) for result in outcome.sets] == [("trec", 3, 3)]
    again, asked = counted.run(tmp_path, seeds=2)
    assert asked == []
    assert again == outcome
    assert counted.run(tmp_path, seeds=3)[1] == [("ours", 2)]


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, counted):
    counted.stop_at = 2
    with pytest.raises(KeyboardInterrupt):
        counted.run(tmp_path, seeds=3)
    counted.stop_at = None
    assert counted.run(tmp_path, seeds=3)[1] == [("ours", 1), ("ours", 2)]


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


def test_a_training_that_came_to_nothing_is_named_and_tried_again(tmp_path, counted):
    counted.stop_at, counted.error = 1, TrainingError("the loss is no number")
    outcome, _ = counted.run(tmp_path, seeds=1)
    assert outcome.skipped == {"trec  ours  seed 0": "the loss is no number"}
    assert [len(result.rows) for result in outcome.sets] == [1]
    counted.stop_at = None
    assert counted.run(tmp_path, seeds=1)[1] == [("ours", 0)]


def test_sets_that_are_missing_or_broken_are_named_and_the_others_run(tmp_path, counted, monkeypatch):
    monkeypatch.setattr(run, "SETS", [*SETS[:2], SETS[3]])
    write(tmp_path / "sets", {"imdb/train.tsv": "x"})
    outcome, _ = counted.run(tmp_path, only=[], seeds=1)
    assert [result.name for result in outcome.sets] == ["trec"]
    assert outcome.skipped == {
        "sst2": f"there is no folder {tmp_path / 'sets' / 'sst2'}",
        "imdb": f"{tmp_path / 'sets' / 'imdb' / 'train.tsv'}: row 1 has fewer than 3 columns between tabs.",
    }


def test_a_name_of_no_set_is_an_error_that_lists_them(tmp_path, counted):
    with pytest.raises(ConfigError, match=r"'nothing' in its name. The sets are trec, sst2"):
        counted.run(tmp_path, only=["nothing"])


# What is shown


def row(contestant, seed, fold, note="SVM", **found):
    return {"contestant": contestant, "seed": seed, "fold": fold, "note": note, "figures": found}


def test_the_table_has_the_median_of_seeds_each_the_mean_of_its_folds():
    accuracies = {0: (0.80, 0.90), 1: (0.70, 0.72), 2: (0.94, 0.96)}  # means 0.85, 0.71, 0.95
    rows = [
        row("ours", seed, fold, accuracy=value, seconds=40.0, bytes=2.5e6, **{"cpu ms of one": 1.25})
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
        "best linear": "85.0 %",
        "which": "SVM (1 of 2)",
        "seconds": "40.0 / 4",
        "calibration error": "—",
        "MB": "2.5 / 250",
        "CPU ms": "1.2 / —",
        "runs": "8 of 9",
    }


def test_the_markdown_says_how_where_and_when_it_was_measured_and_what_is_left_out(tmp_path, counted):
    outcome, _ = counted.run(tmp_path, only=["trec", "snips"], seeds=1)
    text = markdown(outcome, "python -m benchmarks accuracy --data sets")
    lines = text.splitlines()
    assert "`python -m benchmarks accuracy --data sets`" in lines
    assert sum(line.startswith("| trec | 40 / 2 | 90.0 % |") for line in lines) == 1
    assert all(line.count("|") == len(HEADER) + 1 for line in lines if line.startswith("|"))
    assert f"- snips: there is no folder {tmp_path / 'sets' / 'snips'}" in lines
    assert any("keras-selfattn 0." in line and "cores" in line for line in lines)


@pytest.mark.slow
def test_the_command_measures_for_real_writes_the_table_and_then_knows_every_row(tmp_path):
    questions = {"0": "who is", "1": "where is", "2": "how many"}
    lines = "".join(f"{label} {words} thing {n} ?\n" for n in range(20) for label, words in questions.items())
    write(tmp_path / "sets", {"trec/TREC.train.all": lines, "trec/TREC.test.all": lines[:300]})
    asked = [
        "accuracy",
        "--data",
        str(tmp_path / "sets"),
        "--only",
        "trec",
        "--seeds",
        "1",
        "--quick",
    ]
    asked += ["--output", str(tmp_path / "table.md")]
    first = CliRunner().invoke(main, asked)
    assert first.exit_code == 0, first.output
    rows = [json.loads(line) for line in (tmp_path / "table.jsonl").read_text().splitlines()]
    assert [each["contestant"] for each in rows] == ["linear", "ours"]
    shared = {"accuracy", "seconds", "cpu seconds", "bytes", "cpu ms of one"}
    assert set(rows[0]["figures"]) == shared
    mine = {"best epoch", "calibration error", "calibration error before"}
    assert set(rows[1]["figures"]) == shared | mine
    assert rows[0]["figures"]["accuracy"] == 1.0
    assert rows[1]["figures"]["bytes"] > 10_000
    assert "| trec | 60 / " in (tmp_path / "table.md").read_text()
    again = CliRunner().invoke(main, asked)
    assert again.stderr.count("(known)") == 2
    assert len((tmp_path / "table.jsonl").read_text().splitlines()) == 2


def test_the_command_says_why_nothing_was_measured(tmp_path):
    missing = CliRunner().invoke(main, ["accuracy", "--data", str(tmp_path / "none")])
    assert (missing.exit_code, "There is no folder" in missing.stderr) == (1, True)
    empty = CliRunner().invoke(main, ["accuracy", "--data", str(tmp_path), "--only", "trec"])
    assert empty.exit_code == 1
    assert f"trec: there is no folder {tmp_path / 'trec'}" in empty.stderr
    both = ["--output", "one.jsonl", "--results", "one.jsonl"]
    same = CliRunner().invoke(main, ["accuracy", "--data", str(tmp_path), *both])
    assert "--output and --results must be two files" in same.stderr

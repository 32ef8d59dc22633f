"""`predict` writes spans of raw texts as doccano does, and `train` reads the file back."""

import json
import re
import shutil
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from batch_models import save_spans

from keras_selfattn import batch, models
from keras_selfattn.batch.journal import DraftWriter
from keras_selfattn.data import read_tagged
from keras_selfattn.rows.text_tokens import split_text

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def labeller(tmp_path_factory):
    return save_spans(tmp_path_factory.mktemp("models") / "names" / "1")


@pytest.fixture
def spans(predict, labeller, tmp_path):
    """Runs the command on a file of some content; gives its result and the rows of its output."""

    def run(name, content, *options, output="out.jsonl"):
        source = tmp_path / name
        source.write_bytes(content.encode()) if isinstance(content, str) else pq.write_table(content, source)
        done = predict(source, tmp_path / output, *options, of=labeller)
        if not output.endswith(".jsonl") or not (tmp_path / output).exists():
            return done, []
        return done, list(map(json.loads, (tmp_path / output).read_text(encoding="utf-8").splitlines()))

    return run


# ADA at 0 to 3; behind an emoji, which is two units of UTF-16; behind CRLF; nothing.
TEXTS = ["ADA wrote.", "😀 EU and\r\nROME, 🏳️‍🌈 X!", "", "none"]
LABELS = [[[0, 3, "NAME"]], [[3, 5, "NAME"], [11, 15, "NAME"], [24, 25, "NAME"]], [], []]
CHARACTERS = [[[0, 3, "NAME"]], [[2, 4, "NAME"], [10, 14, "NAME"], [21, 22, "NAME"]], [], []]


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(("offsets", "expected"), [((), LABELS), (("--offsets", "characters"), CHARACTERS)])
def test_spans_are_written_as_doccano_does_and_read_back(spans, tmp_path, offsets, expected):
    rows = [{"id": number, "text": text, "from": "a"} for number, text in enumerate(TEXTS)]
    done, found = spans("in.jsonl", lines(rows), *offsets)
    assert done.exit_code == 0, done.output
    assert found == [{**row, "label": label} for row, label in zip(rows, expected, strict=True)]
    for text, own in zip(TEXTS, CHARACTERS, strict=True):  # the oracle: Python's own characters
        assert all(text[start:end].isupper() for start, end, _ in own)
    read = read_tagged(tmp_path / "out.jsonl")
    marked = [
        [token for token, label in zip(*row, strict=True) if label == "B-NAME"]
        for row in zip(read.inputs, read.targets, strict=True)
    ]
    assert marked == [["ADA"], ["EU", "ROME", "X"], [], []]


@pytest.mark.parametrize(
    "record",
    [
        {"text": "ADA", "label": [[0, 1, "OLD"]], "Comments": ["kept"]},
        {
            "text": "ADA",
            "entities": [{"id": 1, "label": "OLD", "start_offset": 0, "end_offset": 1}],
            "relations": [],
        },
        {
            "text": "ADA",
            "spans": [{"start": 0, "end": 1, "label": "OLD"}],
            "tokens": [{"text": "ADA"}],
            "answer": "accept",
        },
    ],
)
def test_spans_of_a_tool_are_replaced_and_other_values_kept(spans, tmp_path, record):
    done, (found,) = spans("in.jsonl", lines([record]))
    assert done.exit_code == 0, done.output
    others = {name: value for name, value in record.items() if name in ("Comments", "tokens", "answer")}
    assert found == {"text": "ADA", **others, "label": [[0, 3, "NAME"]]}
    assert read_tagged(tmp_path / "out.jsonl").targets == [["B-NAME"]]


def test_files_of_tools_that_are_no_rows_are_refused_with_the_next_step(spans, predict, labeller, tmp_path):
    """The command of the message makes rows of both forms of Label Studio, whose texts are then read."""
    whole = [{"id": 7, "data": {"text": "ADA wrote."}, "annotations": []}]
    least = [{"id": 7, "text": "ADA wrote.", "label": [{"start": 0, "end": 1, "labels": ["OLD"]}]}]
    for tasks in (whole, least):
        done, _ = spans("tasks.json", json.dumps(tasks))
        assert done.exit_code == 1
        command = re.search(r"jq -c '.*' tasks.json > tasks.jsonl", " ".join(done.output.split()))
        assert command is not None, done.output
        if shutil.which("jq"):
            subprocess.run(command[0], shell=True, check=True, cwd=tmp_path)
            made = (tmp_path / "tasks.jsonl").read_text()
        else:
            made = lines([{"id": each["id"]} | each.get("data", each) for each in tasks])
        done, (found,) = spans("tasks.jsonl", made, "--overwrite")
        assert found == {"id": 7, "text": "ADA wrote.", "label": [[0, 3, "NAME"]]}
    folder = tmp_path / "brat"
    folder.mkdir()
    for name in ("1.txt", "1.ann"):
        (folder / name).write_text("ADA")
    done = predict(folder, tmp_path / "parts", of=labeller)
    assert "1.ann is no table of rows" in done.output
    assert '{"id": "1.txt", "text": "Ada wrote."}' in " ".join(done.output.split())


def test_a_label_that_is_no_text_leaves_its_row_without_an_answer(spans, tmp_path):
    """Another label in its place would be read back as if the model had said it."""
    done, found = spans("in.jsonl", lines([{"text": "ADA"}, {"text": "CAPITALISED"}, {"text": "EU"}]))
    assert done.exit_code == 6, done.output
    assert [row["text"] for row in found] == ["ADA", "EU"]
    (error,) = map(json.loads, (tmp_path / "out.jsonl.errors.jsonl").read_text().splitlines())
    assert error["line"] == 2
    assert "the label b'\\xff', which is no UTF-8" in error["reason"]
    done, found = spans("in.jsonl", lines([{"text": "CAPITALISED"}]), "--outputs", "label", "--overwrite")
    assert found == [{"text": "CAPITALISED", "predicted_label": [{"b64": "/w=="}]}]


def test_lines_of_a_txt_are_texts(spans):
    done, found = spans("in.txt", "\ufeffADA wrote.\r\n\r\nto ROME")
    assert done.exit_code == 0, done.output
    assert [row["text"] for row in found] == ["ADA wrote.", "", "to ROME"]
    assert [row["label"] for row in found] == [[[0, 3, "NAME"]], [], [[3, 7, "NAME"]]]


def test_files_of_lines_in_a_folder_become_json_lines(predict, labeller, tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "in" / name).write_text("ADA wrote.\n")
    done = predict(tmp_path / "in", tmp_path / "out", of=labeller)
    assert done.exit_code == 0, done.output
    found = {each.name: json.loads(each.read_text()) for each in (tmp_path / "out").iterdir()}
    row = {"text": "ADA wrote.", "label": [[0, 3, "NAME"]]}
    assert found == dict.fromkeys(("a.txt.jsonl", "b.txt.jsonl"), row)
    (tmp_path / "in" / "a.txt.jsonl").write_text(lines([row]))
    done = predict(tmp_path / "in", tmp_path / "again", of=labeller)
    assert "two files whose answers would be a.txt.jsonl. Rename one." in done.output


def test_lists_of_names_are_no_spans_of_a_tool_and_kept(spans, tmp_path):
    rows = [{"text": "ADA", "labels": ["news"], "entities": ["Ada"]}, {"text": "EU", "label": ["news"]}]
    done, found = spans("in.jsonl", lines(rows))
    assert (done.exit_code, found) == (6, [{**rows[0], "label": [[0, 3, "NAME"]]}])
    told = (tmp_path / "out.jsonl.errors.jsonl").read_text()
    assert "it has a column 'label', which is that of an answer" in told


def test_a_text_that_is_missing_or_a_number_is_written_as_the_model_read_it(spans):
    done, found = spans("in.jsonl", lines([{"text": None}, {"text": 5}]))
    assert (done.exit_code, found) == (0, [{"text": "", "label": []}, {"text": "5", "label": []}])


def test_columns_of_csv_and_parquet_are_kept(spans, tmp_path):
    expected = [{"id": "7", "text": "ADA", "label": [[0, 3, "NAME"]]}]
    assert spans("in.csv", "id,text\n7,ADA\n")[1] == expected
    table = pa.table({"id": ["7"], "text": ["ADA"], "label": [[0]]})
    assert spans("in.parquet", table, output="out2.jsonl")[1] == expected
    spans("in.csv", "id,text\n7,ADA\n", output="out.csv")
    assert (tmp_path / "out.csv").read_text() == 'id,text,label\n7,ADA,"[[0, 3, ""NAME""]]"\n'


def test_tokens_are_labelled_as_before(spans):
    done, found = spans("in.jsonl", lines([{"tokens": ["a", "bc"], "text": "a bc"}]))
    assert (done.exit_code, found[0]["predicted_label"]) == (0, ["A", "BC"])
    done, found = spans("in.csv", "review\na bc\n", "--signature", "serving_default", output="out2.jsonl")
    assert (done.exit_code, found[0]["predicted_label"]) == (0, ["A", "BC"])


def test_named_outputs_are_cut_to_the_number_of_spans(spans):
    content = lines([{"text": "ADA, EU"}, {"text": "no"}])
    done, found = spans("in.jsonl", content, "--outputs", "start", "--outputs", "score")
    assert done.exit_code == 0, done.output
    assert [(row["start"], row["score"]) for row in found] == [([0, 5], [1.0, 1.0]), ([], [])]


def test_the_callable_gives_spans_without_what_is_behind_them(labeller):
    found = batch.predictor(labeller, signature="spans")({"text": ["ADA, EU", "no", "X"]})
    assert [list(starts) for starts in found["start"]] == [[0, 5], [], [0]]
    assert [list(labels) for labels in found["predicted_label"]] == [["NAME"] * 2, [], ["NAME"]]
    named = batch.predictor(labeller, signature="spans", outputs=["end"])({"text": ["ADA, EU", "X"]})
    assert (list(named), [list(ends) for ends in named["end"]]) == (["text", "end"], [[3, 7], [1]])
    assert batch.predictor(labeller, signature="spans")({"text": []})["start"].shape == (0,)


@pytest.mark.parametrize(
    ("name", "content", "options", "words"),
    [
        ("in.csv", "review\nADA wrote\n", (), "texts that could be raw, or tokens between blanks"),
        ("in.csv", "a,b\nADA,1\n", ("--column", "a"), "--signature spans for raw texts"),
        ("in.csv", "text,label\nADA,+\n", (), "has a column 'label' already"),
        ("in.jsonl", lines([{"tokens": ["a"]}]), ("--offsets", "utf-16"), "these answers are none"),
        ("in.jsonl", lines([{"text": "a"}]), ("--offsets", "utf-16", "--outputs", "end"), "count characters"),
    ],
)
def test_what_rows_do_not_tell_is_refused_with_the_next_step(spans, name, content, options, words):
    done, _ = spans(name, content, *options)
    assert done.exit_code == 1
    assert words in " ".join(done.output.split())


def test_a_row_whose_label_is_no_list_of_spans_is_told(spans, tmp_path):
    done, found = spans("in.jsonl", lines([{"text": "ADA"}, {"text": "EU", "label": "+"}]))
    assert (done.exit_code, [row["text"] for row in found]) == (6, ["ADA"])
    (told,) = map(json.loads, (tmp_path / "out.jsonl.errors.jsonl").read_text().splitlines())
    assert (told["line"], "column 'label'" in told["reason"]) == (2, True)


def test_a_row_of_tokens_among_raw_texts_is_told(spans, tmp_path):
    """Its text is missing, so that it would be an empty one without spans."""
    done, found = spans("in.jsonl", lines([{"text": "ADA"}, {"tokens": ["EU"]}, {"id": 7}]))
    assert (done.exit_code, [row["text"] for row in found]) == (6, ["ADA", ""])
    (told,) = map(json.loads, (tmp_path / "out.jsonl.errors.jsonl").read_text().splitlines())
    reason = "it has tokens and no 'text', where the first rows are raw texts: give them a file of their own"
    assert told == {"line": 2, "reason": reason}


def test_files_of_a_folder_hold_rows_of_one_kind(predict, labeller, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text(lines([{"text": "ADA"}]))
    (tmp_path / "in" / "b.jsonl").write_text(lines([{"tokens": ["a"]}]))
    done = predict(tmp_path / "in", tmp_path / "out", of=labeller)
    assert (done.exit_code, "raw texts in some files" in " ".join(done.output.split())) == (1, True)


def test_a_run_that_an_earlier_version_began_goes_on_with_its_signature(
    predict, labeller, tmp_path, monkeypatch
):
    """Those versions wrote the default down, so half of the answers are of tokens."""
    commit = DraftWriter.commit

    def killed(self, *place, **counts):
        commit(self, *place, **counts)
        raise SystemError("killed")

    rows = [{"text": f"ADA {number}"} for number in range(9000)]
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(lines(rows))
    monkeypatch.setattr(DraftWriter, "commit", killed)
    predict(source, output, "--signature", "serving_default", of=labeller)
    monkeypatch.undo()
    state = json.loads((tmp_path / ".out.jsonl.partial" / "state.json").read_text())
    assert set(state["made_of"]["options"]) == {"column", "separator", "has_header", "outputs", "signature"}
    assert 0 < state["rows"] < len(rows)
    done = predict(source, output, of=labeller)
    assert done.exit_code == 0, done.output
    assert "Going on with --signature serving_default, with which the run began." in done.output
    found = map(json.loads, output.read_text().splitlines())
    assert [row["predicted_label"] for row in found] == [row["text"].split() for row in rows]


@pytest.mark.slow
def test_spans_of_a_trained_model_are_read_back(predict, tmp_path):
    model = models.TokenClassifier(models.TokenConfig(width=8, num_layers=1, num_heads=2, hash_buckets=64))
    model.compile()
    tokens = [["😀", "Ada", "King", "wrote"], ["no", "one", "."]]
    labels = [["O", "B-PER", "I-PER", "O"], ["O"] * 3]
    model.fit(tokens * 20, labels * 20, epochs=12, verbose=0)
    model.save(tmp_path / "model.keras")
    texts = ["😀 Ada King wrote", "no one.", "", "\r\n😀Ada\u00a0King wrote."]
    (tmp_path / "in.txt.jsonl").write_text(lines([{"text": text} for text in texts]), encoding="utf-8")
    done = predict(tmp_path / "in.txt.jsonl", tmp_path / "out.jsonl", of=tmp_path / "model.keras")
    assert done.exit_code == 0, done.output
    read = read_tagged(tmp_path / "out.jsonl")
    assert read.inputs == list(map(split_text, texts))
    assert read.targets == model.label(list(map(split_text, texts)))
    assert [len(found) for found in model.spans(texts)] == [1, 0, 0, 1]

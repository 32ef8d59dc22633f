"""A table of sources and answers becomes a run that is measured, reported and asked, by commands."""

import csv
import json

import pytest
from click.testing import CliRunner
from html_pages import read_page, section

from keras_selfattn.cli.main import main

pytestmark = [pytest.mark.slow, pytest.mark.process]

LETTERS = "abc"
WORDS = [a + b + c for a in LETTERS for b in LETTERS for c in LETTERS]
TINY = ["--tokens", "characters", "--max-new-tokens", 5, "--width", 16, "--layers", 1, "--heads", 2]
TINY += ["--decoder-layers", 1]


def invoke(*arguments):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.output


def lines_of(file):
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("seq2seq")
    lines = [f"{word},{word[::-1]}|{word.upper()}" for word in WORDS]
    (found / "train.csv").write_text("word,backwards\n" + "\n".join(lines * 8)[:1700].rpartition("\n")[0])
    (found / "test.csv").write_text("word,backwards\n" + "\n".join(lines[:9]))
    columns = ["--source", "word", "--target", "backwards", "--alternatives", "|"]
    said = invoke(
        "train",
        found / "train.csv",
        "--task",
        "seq2seq",
        *columns,
        *TINY,
        "--epochs",
        1,
        "--output",
        found / "run",
    )
    assert "the model" in said
    return found


def test_a_run_has_its_figures_and_a_report(folder):
    figures = json.loads((folder / "run" / "metrics.json").read_text())
    assert {"exact_match", "chrf", "word_error_rate", "character_error_rate", "unfinished"} <= figures.keys()
    answers = [line["answers"] for line in lines_of(folder / "run" / "errors.csv")]
    assert answers == ["model", "copying", "constant"]
    page = read_page((folder / "run" / "report.html").read_text(encoding="utf-8"))
    assert section(page, f"Answers on {figures['rows']} validation rows")
    assert "validation rows that are also training rows" in page.text


def test_evaluate_reads_the_columns_of_the_training_and_writes_the_wrong_rows(folder):
    said = invoke(
        "evaluate",
        folder / "run",
        folder / "test.csv",
        "--mistakes",
        folder / "m.jsonl",
        "--report",
        folder / "e.html",
    )
    assert "On 9 " in said
    assert "The worst answers" in said
    lines = [json.loads(line) for line in (folder / "m.jsonl").read_text().splitlines()]
    assert all(line["predicted"] not in line["target"] for line in lines)
    assert lines[0].keys() == {"line", "text", "target", "predicted", "error"}
    assert "Best answers" in (folder / "e.html").read_text(encoding="utf-8")


def test_training_goes_on_from_a_run_with_other_rows(folder):
    (folder / "more.csv").write_text("source,target\n" + "\n".join(f"{w}d,{w[::-1]}" for w in WORDS[:20]))
    said = invoke(
        "train",
        folder / "more.csv",
        "--task",
        "seq2seq",
        "--from",
        folder / "run",
        "--epochs",
        1,
        "--no-refit",
        "--output",
        folder / "next",
    )
    words = " ".join(said.split())
    assert "20 of 20 sources ('d') and 0 of 20 answers have characters that it does not know" in words
    first, second = (json.loads((folder / name / "config.json").read_text()) for name in ("run", "next"))
    assert second["model"] == first["model"]
    assert first["model"]["decoder_layers"] == 1
    assert second["start"]["path"] == str(folder / "run")
    assert second["start"]["figures"]["rows"] > 0


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--from", "run", "--width", 32], "--width contradicts"),
        (["--from", "nowhere"], "There is no model at nowhere. Give a run folder"),
        (["--from", "marian"], "MarianMTModel of the family 'marian' (config.json)"),
    ],
)
def test_a_start_that_does_not_fit_is_refused_by_name(folder, monkeypatch, given, told):
    monkeypatch.chdir(folder)
    (folder / "marian").mkdir(exist_ok=True)
    (folder / "marian" / "config.json").write_text(
        '{"model_type": "marian", "architectures": ["MarianMTModel"]}'
    )
    asked = ["train", "train.csv", "--task", "seq2seq", "--source", "word", "--target", "backwards"]
    done = CliRunner().invoke(main, [str(each) for each in [*asked, *given, "--output", "other"]])
    assert done.exit_code == 1
    assert told in " ".join(done.output.split())
    assert "Hugging Face" not in done.output
    assert not (folder / "other").exists()


def test_predict_writes_answers_beside_the_rows(folder):
    invoke("predict", folder / "run", "--file", folder / "test.csv", "--output", folder / "out.csv")
    rows = lines_of(folder / "out.csv")
    assert [row["word"] for row in rows] == WORDS[:9]
    assert {"predicted_text", "score", "ended"} <= rows[0].keys()
    assert all(float(row["score"]) < 0 and len(row["predicted_text"]) <= 5 for row in rows)

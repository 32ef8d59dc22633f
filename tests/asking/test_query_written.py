"""`query` and `metadata` of a model that writes texts, by both commands: tables, files and a warning."""

import csv
import io
import json

import pandas as pd
import pytest
from click.testing import CliRunner
from serving_texts import backwards
from stock_serving import StockServing

from keras_selfattn.asking import client_command
from keras_selfattn.cli.main import main


@pytest.fixture
def serving(stock_server):
    serving = StockServing(backwards())
    serving.target = stock_server(serving)
    return serving


@pytest.fixture(params=["whole", "client"])
def ask(serving, request, capsys):
    """Runs one of both commands; gives its status, output, and what it says beside it in one line."""

    def asked(name, *words, stdin=None):
        arguments = [name, "m", "--target", serving.target, *map(str, words)]
        if request.param == "whole":
            done = CliRunner().invoke(main, arguments, input=stdin)
            return done.exit_code, done.stdout, " ".join(done.stderr.split())
        status = client_command.main(arguments)
        out, err = capsys.readouterr()
        return status, out, " ".join(err.split())

    asked.kind = request.param
    return asked


def test_a_table_has_the_text_its_score_and_whether_it_ended(ask):
    status, out, said = ask("query", "abc", "123456789")
    if ask.kind == "whole":
        rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "│" in line]
        scores = "-0.250"
        assert "probability" not in out
    else:
        rows = [line.split() for line in out.splitlines()[1:]]
        scores = "-0.25"
    assert status == 0
    assert [name in out for name in ("predicted_text", "score", "ended")] == [True] * 3
    assert rows == [["abc", "cba", scores, "true"], ["123456789", "98765432", scores, "false"]]
    assert said.startswith(
        "1 text was cut: the model's bound of symbols came before the end (ended is false)."
    )


def test_texts_that_are_whole_are_no_reason_to_warn(ask):
    assert ask("query", "abc", "de")[2] == ""


def test_json_has_flags_and_numbers_of_json(ask):
    status, out, said = ask("query", "--format", "json", "--", "abc", "123456789", "987654321x")
    assert (status, [json.loads(line) for line in out.splitlines()]) == (
        0,
        [
            {"text": "abc", "predicted_text": "cba", "score": -0.25, "ended": True},
            {"text": "123456789", "predicted_text": "98765432", "score": -0.25, "ended": False},
            {"text": "987654321x", "predicted_text": "x1234567", "score": -0.25, "ended": False},
        ],
    )
    assert said.startswith("2 texts were cut:")
    assert "train it with a larger --max-new-tokens" in said


def test_a_file_keeps_its_columns_and_pandas_reads_the_flags(ask, tmp_path):
    (tmp_path / "in.csv").write_text('id,de\n1,"a, b"\n2,123456789\n')
    answers = tmp_path / "out.csv"
    status, _, said = ask("query", "--file", tmp_path / "in.csv", "--column", "de", "--output", answers)
    assert status == 0
    assert list(csv.reader(io.StringIO(answers.read_text()))) == [
        ["id", "de", "text", "score", "ended"],
        ["1", "a, b", "b ,a", "-0.25", "true"],
        ["2", "123456789", "98765432", "-0.25", "false"],
    ]
    assert pd.read_csv(answers)["ended"].tolist() == [True, False]
    assert "1 text was cut" in said


def test_candidates_are_lists_and_a_cut_text_is_told_even_if_ended_is_not_shown(ask, serving):
    outputs = ["--outputs", "text", "--outputs", "candidates", "--outputs", "candidate_scores"]
    _, out, said = ask("query", "123456789", *outputs, "--format", "json")
    assert json.loads(out) == {
        "text": "123456789",
        "predicted_text": "98765432",
        "candidates": ["98765432", "98765432", "98765432?"],
        "candidate_scores": [-0.25, -0.5, -0.75],
    }
    assert "1 text was cut" in said
    _, out, said = ask("query", "123456789", "--outputs", "score", "--format", "csv")
    assert (out.splitlines(), said) == (["text,score", "123456789,-0.25"], "")
    assert list(serving.received("Predict")[-1].output_filter) == ["score"]


def test_many_rows_are_asked_in_batches(ask, serving, tmp_path):
    (tmp_path / "in.txt").write_text("".join(f"row {number}\n" for number in range(300)))
    _, out, _ = ask("query", "--file", tmp_path / "in.txt", "--format", "csv", "--batch-size", 128)
    assert len(out.splitlines()) == 301
    assert len(serving.received("Predict")) == 3


def test_metadata_shows_what_it_takes_and_answers(ask):
    _, out, _ = ask("metadata")
    for part in ("text: string [None]", "ended: bool [None]", "candidates: string [None, 3]"):
        assert part in " ".join(out.split()), part
    _, out, _ = ask("metadata", "--json")
    outputs = json.loads(out)["signatures"]["serving_default"]["outputs"]
    assert outputs["ended"] == {"dtype": "bool", "shape": [None]}

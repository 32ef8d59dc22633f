"""`keras-selfattn query` and `metadata`, against a server of stock stubs."""

import contextlib
import csv
import io
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

import grpc
import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner
from serving_texts import WRITTEN, backwards, reversed_texts, stock_texts
from stock_serving import StockServing, StockSignature

from keras_selfattn.asking import exit_status
from keras_selfattn.asking.query import write_file
from keras_selfattn.cli.main import main
from keras_selfattn.serving import errors


@pytest.fixture
def texts(stock_server):
    serving = stock_texts()
    serving.target = stock_server(serving)
    return serving


@pytest.fixture
def pairs(stock_server):
    """Both texts of a row as one."""
    inputs = dict.fromkeys(("text", "text_pair"), (tf.string, (None,)))
    joined = StockSignature(
        inputs,
        lambda arrays: {"both": arrays["text"] + b"|" + arrays["text_pair"]},
        {"both": (tf.string, (None,))},
    )
    serving = StockServing({"serving_default": joined})
    serving.target = stock_server(serving)
    return serving


@pytest.fixture
def numbers(stock_server):
    """`sum` of a vector and a scale that has a default."""
    inputs = {"x": (tf.float32, (None, 2)), "scale": (tf.float32, (None,))}
    spec = {"sum": (tf.float32, (None,)), "x": (tf.float32, (None, 2))}

    def function(arrays):
        return {"sum": arrays["x"].sum(-1) * arrays["scale"], "x": arrays["x"]}

    signature = StockSignature(inputs, function, spec, defaults={"scale": np.float32(1)})
    serving = StockServing({"serving_default": signature})
    serving.target = stock_server(serving)
    return serving


def invoke(serving, command, *arguments, stdin=None):
    target = getattr(serving, "target", serving)
    return CliRunner().invoke(main, [command, "m", *map(str, arguments), "--target", target], input=stdin)


def test_settings_of_a_search_are_columns_of_the_signature_for_them(stock_server, tmp_path):
    inputs = {"text": (tf.string, (None,)), "prefix": (tf.string, (None,)), "beams": (tf.int32, (None,))}
    asked = []

    def function(arrays):
        asked.append(arrays)
        joined = np.array([*map(bytes.__add__, arrays["prefix"], arrays["text"])], object)
        return reversed_texts(arrays) | {"text": joined}

    defaults = {"prefix": np.array([b""], object), "beams": np.int32([0])}
    generate = StockSignature(inputs, function, WRITTEN, defaults=defaults)
    (tmp_path / "in.csv").write_text("text,prefix\nab,z\nc,\n")
    target = stock_server(StockServing({**backwards(), "generate": generate}))
    done = invoke(
        target, "query", "--file", tmp_path / "in.csv", "--signature", "generate", "--format", "json"
    )
    assert done.exit_code == 0, done.output
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["predicted_text"] for line in found] == ["zab", "c"]
    assert asked[0]["beams"].tolist() == [0]


def test_texts_are_answered_in_a_table(texts):
    done = invoke(texts, "query", "a", "quite long")
    assert done.exit_code == 0, done.output
    lines = [line.split("│")[1:-1] for line in done.stdout.splitlines() if "│" in line]
    assert [[cell.strip() for cell in line] for line in lines] == [
        ["a", "short", "70.0%"],
        ["quite long", "long", "70.0%"],
    ]


def test_standard_input_is_answered_line_by_line(texts):
    done = invoke(texts, "query", "--format", "json", "--batch-size", 2, stdin="a\nünlike\n\nyes\n")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"text": "a", "label": "short", "score": 0.7},
        {"text": "ünlike", "label": "long", "score": 0.7},
        {"text": "", "label": "short", "score": 0.7},
        {"text": "yes", "label": "short", "score": 0.7},
    ]
    assert len(texts.received("Predict")) == 2
    done = invoke(texts, "query", "--format", "json", stdin="")
    assert (done.exit_code, done.stdout) == (0, "")


def test_a_csv_file_keeps_its_columns(texts, tmp_path):
    (tmp_path / "in.csv").write_text('id,text,label\n1,"a, quoted\ntext",x\n2,b,y\n')
    done = invoke(texts, "query", "--file", tmp_path / "in.csv", "--format", "csv")
    assert done.exit_code == 0, done.output
    assert list(csv.reader(io.StringIO(done.stdout))) == [
        ["id", "text", "label", "predicted_label", "score"],
        ["1", "a, quoted\ntext", "x", "long", "0.7"],
        ["2", "b", "y", "short", "0.7"],
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("in.tsv", "id\treview\n1\tabcd\n2\tb\n"),
        ("in.jsonl", '{"id": "1", "review": "abcd"}\n{"id": "2", "review": "b"}\n'),
    ],
)
def test_a_column_of_another_name_is_named(texts, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    done = invoke(texts, "query", "--file", tmp_path / name, "--column", "review", "--format", "json")
    assert [json.loads(line)["label"] for line in done.stdout.splitlines()] == ["long", "short"]
    done = invoke(texts, "query", "--file", tmp_path / name)
    assert done.exit_code == 1
    assert "has the columns 'id', 'review'; the model takes 'text'" in " ".join(done.output.split())


def test_a_file_of_one_column_that_looks_like_two_is_refused(texts, tmp_path):
    (tmp_path / "in.csv").write_text("id;text\n1;a film\n")
    done = invoke(texts, "query", "--file", tmp_path / "in.csv")
    assert (done.exit_code, "';' in its name" in " ".join(done.output.split())) == (1, True)
    done = invoke(texts, "query", "--file", tmp_path / "in.csv", "--column", "id;text", "--format", "json")
    assert json.loads(done.stdout)["label"] == "long"


def test_a_column_that_is_not_there_is_named(texts, tmp_path):
    (tmp_path / "in.csv").write_text("review,n\nabcd,1\n")
    done = invoke(texts, "query", "--file", tmp_path / "in.csv", "--column", "reveiw")
    assert done.exit_code == 1
    assert "has no column 'reveiw'. Its columns are 'review', 'n'." in " ".join(done.output.split())


def test_each_two_texts_are_a_pair_or_two_columns_of_a_file(pairs, tmp_path):
    done = invoke(pairs, "query", "a", "b", "c", "", "--pair", "--format", "csv")
    assert done.exit_code == 0, done.output
    assert list(csv.reader(io.StringIO(done.output))) == [
        ["text", "text_pair", "both"],
        ["a", "b", "a|b"],
        ["c", "", "c|"],
    ]
    table = tmp_path / "rows.jsonl"
    table.write_text('{"premise": "a", "hypothesis": "b"}\n')
    named = ["--column", "premise", "--text-pair", "hypothesis"]
    done = invoke(pairs, "query", "--file", table, *named, "--format", "json")
    assert json.loads(done.output) == {"premise": "a", "hypothesis": "b", "both": "a|b"}


def test_what_is_no_pair_for_the_model_is_named(pairs, texts, tmp_path):
    table = tmp_path / "rows.csv"
    table.write_text("text,b\na,b\n")
    for serving, arguments, said in (
        (pairs, ["a", "b"], "takes pairs of texts: give --pair and the two texts of each row, or --file"),
        (
            pairs,
            ["a", "b", "c", "--pair"],
            "--pair takes an even number of texts: the two of each row. Received 3",
        ),
        (pairs, ["--pair", "--file", table], "--pair is for texts"),
        (pairs, ["a", "--text-pair", "b"], "--text-pair is for a --file"),
        (pairs, ["--file", table], "Name the columns of both texts with --column and --text-pair"),
        (texts, ["a", "b", "--pair"], "--pair is for a model of pairs of texts. The model takes 'text'"),
        (texts, ["--file", table, "--text-pair", "b"], "(--text-pair) names the column of the second texts"),
    ):
        done = invoke(serving, "query", *arguments)
        assert done.exit_code, arguments
        assert said in " ".join(done.output.split()), done.output


def test_a_file_of_one_column_needs_no_name(texts, tmp_path):
    (tmp_path / "in.csv").write_text("whatever\nabcd\n")
    done = invoke(texts, "query", "--file", tmp_path / "in.csv", "--format", "json")
    assert json.loads(done.stdout) == {"whatever": "abcd", "label": "long", "score": 0.7}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("in.jsonl", '{"x": [1, 2], "scale": 10}\n{"x": [3, 4], "scale": 0.5}\n'),
        ("in.csv", 'x,scale\n"[1, 2]",10\n"[3, 4]",0.5\n'),
    ],
)
def test_numbers_and_lists_of_them_are_json(numbers, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    done = invoke(numbers, "query", "--file", tmp_path / name, "--format", "json", "--outputs", "sum")
    assert [json.loads(line)["sum"] for line in done.stdout.splitlines()] == [30, 3.5]


def test_an_input_with_a_default_may_be_no_column(numbers, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"x": [1, 2]}\n')
    done = invoke(numbers, "query", "--file", tmp_path / "in.jsonl", "--format", "json")
    assert json.loads(done.stdout) == {"x": [1, 2], "sum": 3, "predicted_x": [1, 2]}


def test_an_output_file_appears_when_all_is_written(texts, tmp_path):
    (tmp_path / "in.csv").write_text("text\na\nabcd\n")
    out = tmp_path / "new" / "out.csv"
    done = invoke(texts, "query", "--file", tmp_path / "in.csv", "--output", out)
    assert (done.exit_code, done.stdout) == (0, "")
    assert out.read_text() == "text,label,score\na,short,0.7\nabcd,long,0.7\n"
    (tmp_path / "bad.csv").write_text("text\na\nb,c\n")
    done = invoke(texts, "query", "--file", tmp_path / "bad.csv", "--output", out, "--format", "json")
    assert done.exit_code == 1
    assert "line 3 has 2 fields" in done.output
    assert "out.csv was not written." in done.output
    assert [file.name for file in out.parent.iterdir()] == ["out.csv"]
    assert out.read_text().startswith("text,label"), "what was there before stays"


def test_where_answers_cannot_be_written_is_one_line(texts, tmp_path):
    (tmp_path / "file").write_text("kept")
    (tmp_path / "circle").symlink_to("circle")
    for output, said in (
        (tmp_path, "--output must be a file"),
        ("", "--output must be a file"),
        (tmp_path / "file" / "x.csv", "is not a folder"),
        ("/proc/x.csv", "cannot be written"),
        (tmp_path / ("x" * 300), "cannot be written: File name too long"),
        (tmp_path / "circle", "cannot be written"),
    ):
        done = invoke(texts, "query", "a", "--output", output)
        assert said in " ".join(done.output.split())
        assert (done.exit_code, "Traceback" in done.output) == (1, False)
    assert texts.received("Predict") == [], "said before anything was asked"
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.slow
def test_an_answer_that_does_not_come_is_no_fault_of_the_file(tmp_path):
    done = invoke("127.0.0.1:1", "query", "a", "--output", tmp_path / "x.csv")
    assert done.exit_code == exit_status.NOT_NOW
    assert "cannot be written" not in done.output

    def stops():
        yield {"label": "a"}
        raise errors.DeadlineExceededError("no answer in 10 s")

    with pytest.raises(errors.DeadlineExceededError):
        write_file(tmp_path / "x.csv", stops(), "csv")
    assert list(tmp_path.iterdir()) == []


def test_standard_output_by_its_name_goes_on_where_it_is(texts, tmp_path):
    log = tmp_path / "log"
    log.write_text("before\n")
    words = ["query", "m", "abcd", "--target", texts.target, "--output", "/dev/stdout"]
    program = f"from keras_selfattn.cli.main import main; main({words!r})"
    with log.open("a") as opened:
        subprocess.run([sys.executable, "-c", program], check=True, stdout=opened, timeout=120)
    assert log.read_text() == "before\ntext,label,score\nabcd,long,0.7\n"


def test_a_link_stays_a_link_and_a_device_a_device(texts, tmp_path):
    (tmp_path / "real.csv").write_text("old")
    link = tmp_path / "link.csv"
    link.symlink_to("real.csv")
    assert invoke(texts, "query", "abcd", "--output", link).exit_code == 0
    assert link.is_symlink()
    assert (tmp_path / "real.csv").read_text() == "text,label,score\nabcd,long,0.7\n"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    assert invoke(texts, "query", "abcd", "--output", pipe).exit_code == 0
    reader.join(20)
    assert found == ["text,label,score\nabcd,long,0.7\n"]


@pytest.fixture
def series(stock_server):
    """The frames of a series, and the sum of its values."""

    def function(arrays):
        frames = ~np.isnan(arrays["values"]).all(-1)
        return {"frames": frames.sum(-1), "sum": np.nansum(arrays["values"], axis=(1, 2))}

    inputs = {"values": (tf.float32, (None, None, 1))}
    outputs = {"frames": (tf.int64, (None,)), "sum": (tf.float32, (None,))}
    serving = StockServing({"serving_default": StockSignature(inputs, function, outputs)})
    serving.target = stock_server(serving)
    return serving


def test_series_come_as_numbers_and_from_files_and_are_padded(series, tmp_path):
    done = invoke(series, "query", "[1, 2, null]", "[[4]]", "--format", "json", "--outputs", "sum")
    assert [json.loads(line)["sum"] for line in done.stdout.splitlines()] == [3, 4], done.output
    (tmp_path / "g.ts").write_text("@classLabel true a b\n@data\n1,2,3:a\n5:b\n")
    np.savez(tmp_path / "g.npz", x=np.array([[1.0, 2, 3], [5, 9, 9]]), lengths=np.array([3, 1]))
    for name in ("g.ts", "g.npz"):
        done = invoke(series, "query", "--file", tmp_path / name, "--format", "csv")
        assert done.stdout == "row,frames,sum\n0,3,6.0\n1,1,5.0\n", done.output
    done = invoke(series, "query", "--file", tmp_path / "g.ts", "--column", "x")
    assert (done.exit_code, "--column is that of a table" in done.output) == (2, True)


def test_a_long_table_is_cut(texts, tmp_path):
    (tmp_path / "in.csv").write_text("text\n" + "abcd\n" * 1234)
    done = invoke(texts, "query", "--file", tmp_path / "in.csv")
    assert done.stdout.count("│ abcd") == 100
    assert "These are the first 100 rows; --format csv or json writes all." in done.stdout
    asked = sum(request.inputs["text"].tensor_shape.dim[0].size for request in texts.received("Predict"))
    assert asked < 600, "what is not shown is not asked"


def test_the_version_its_label_the_signature_and_headers_are_passed_on(texts, tmp_path):
    (tmp_path / "headers").write_text("authorization: Bearer from-file\n\n")
    headers = ("--header", f"@{tmp_path / 'headers'}", "--header", "X-Key: 1")
    assert invoke(texts, "query", "a", "--version", 3, *headers).exit_code == 0
    assert texts.received("Predict")[-1].model_spec.version.value == 3
    assert texts.metadata_of_calls[-1]["authorization"] == "Bearer from-file"
    assert texts.metadata_of_calls[-1]["x-key"] == "1"
    assert invoke(texts, "query", "a", "--label", "stable").exit_code == 0
    assert texts.received("Predict")[-1].model_spec.version_label == "stable"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--signature", "nope", "a"), 3, "has no signature 'nope'"),
        (("--outputs", "nope", "a"), 2, "has no output 'nope'"),
        (("--timeout", "0", "a"), 2, "timeout must be a positive"),
        (("--version", "1", "--label", "x", "a"), 2, "give version or label, not both"),
        (("--header", "nope", "a"), 2, "write it as 'name: value'"),
        (("--header", "@/no/such", "a"), 2, "/no/such cannot be read"),
        (("--file", "nope.csv"), 1, "There is no file nope.csv"),
        (("--file", "nope.csv", "a"), 2, "Give texts or --file, not both"),
        (("--insecure", "--tls", "a"), 2, "not both"),
        (("--column", "x", "a"), 2, "--column is for a --file"),
    ],
)
def test_what_a_user_can_mend_is_one_line_with_a_status(texts, arguments, status, said):
    done = invoke(texts, "query", *arguments)
    assert said in " ".join(done.output.split())
    assert done.exit_code == status
    assert "Traceback" not in done.output


def test_what_is_no_row_for_the_model_is_named(numbers, texts, tmp_path):
    done = invoke(numbers, "query", "1")
    assert (done.exit_code, "for one input only" in " ".join(done.output.split())) == (2, True)
    (tmp_path / "in.csv").write_text("x,scale\noops,1\n")
    done = invoke(numbers, "query", "--file", tmp_path / "in.csv")
    assert (done.exit_code, "line 2: 'x' must be one row of float32 [None, 2]" in done.output) == (1, True)
    (tmp_path / "in.jsonl").write_text('{"x": [1, 2]}\n{"x": null}\n')
    done = invoke(numbers, "query", "--file", tmp_path / "in.jsonl")
    assert (done.exit_code, "line 2 has no 'x'" in done.output) == (1, True)
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n{"text": ["b"]}\n')
    done = invoke(texts, "query", "--file", tmp_path / "in.jsonl")
    assert (done.exit_code, "line 2: 'text' must be a text. Received a list" in done.output) == (1, True)


def test_a_missing_text_is_asked_as_an_empty_one(texts, tmp_path):
    rows = ['{"text": null, "id": 1}', '{"text": "", "id": NaN}', '{"id": 3}', '{"text": NaN}', '{"text": 7}']
    (tmp_path / "in.jsonl").write_text("\n".join(rows))
    done = invoke(texts, "query", "--file", tmp_path / "in.jsonl", "--format", "json")
    assert done.exit_code == 0, done.output
    found = [json.loads(line, parse_constant=pytest.fail) for line in done.stdout.splitlines()]
    assert [row["label"] for row in found[:4]] == [found[1]["label"]] * 4
    [asked] = texts.received("Predict")
    assert list(asked.inputs["text"].string_val) == [b"", b"", b"", b"", b"7"]


def test_a_column_may_be_absent_in_the_first_rows(texts, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"id": 1}\n{"id": 2}\n{"id": 3, "text": "a"}\n')
    done = invoke(texts, "query", "--file", tmp_path / "in.jsonl", "--format", "json")
    assert done.exit_code == 0, done.output
    [asked] = texts.received("Predict")
    assert list(asked.inputs["text"].string_val) == [b"", b"", b"a"]


def test_a_row_that_cannot_be_read_ends_the_answers_where_it_stands(texts, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n{"text": \n')
    done = invoke(texts, "query", "--file", tmp_path / "in.jsonl", "--format", "json", "--batch-size", "1")
    assert (done.exit_code, "line 3 is not JSON" in done.output) == (1, True)
    assert [json.loads(line)["text"] for line in done.stdout.splitlines() if line[:1] == "{"] == ["a", "b"]


@pytest.mark.parametrize("form", ["csv", "table"])
def test_answers_stand_under_their_own_columns(texts, tmp_path, form):
    (tmp_path / "in.jsonl").write_text('{"text": "a", "id": 1}\n{"text": "b"}\n{"id": 3, "text": "c"}\n')
    done = invoke(texts, "query", "--file", tmp_path / "in.jsonl", "--format", form)
    assert done.exit_code == 0, done.output
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        assert [(row["text"], row["id"]) for row in rows] == [("a", "1"), ("b", ""), ("c", "3")]
        assert all(row["label"] and row["score"] for row in rows)
    else:
        cells = [re.split(r"\s*[│|]\s*", line)[1:3] for line in done.stdout.splitlines() if "%" in line]
        assert cells == [["a", "1"], ["b", ""], ["c", "3"]]


def test_a_column_that_a_csv_has_no_place_for_is_named(texts, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n{"text": "b", "id": 2}\n')
    done = invoke(texts, "query", "--file", tmp_path / "in.jsonl", "--format", "csv")
    assert (done.exit_code, "has a column 'id', which the first row lacks" in done.output) == (1, True)


def test_an_empty_token_is_refused(stock_server):
    spec = (tf.string, (None, None))
    serving = StockServing({"serving_default": StockSignature({"tokens": spec}, dict, {"tokens": spec})})
    done = invoke(stock_server(serving), "query", '["the", ""]')
    assert (done.exit_code, "row 0 has an empty token, which is padding" in done.output) == (1, True)
    assert serving.received("Predict") == []


@pytest.mark.slow
@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
def test_every_failure_has_an_exit_status(texts, code):
    if code is grpc.StatusCode.UNIMPLEMENTED:
        pytest.skip("metadata that is not there is no failure")
    texts.before = lambda rpc, request, context: context.abort(code, "said")
    done = invoke(texts, "query", "a")
    assert done.exit_code == exit_status.exit_status(errors.ERROR_OF_CODE[code]("said"))
    assert done.exit_code in (1, 3, 4, 5)
    assert "said" in done.output


def test_metadata_shows_the_signatures(numbers):
    done = invoke(numbers, "metadata")
    assert done.exit_code == 0
    assert "x: float32 [None, 2]" in done.stdout
    found = json.loads(invoke(numbers, "metadata", "--json", "--version", 1).stdout)
    assert (found["model"], found["version"]) == ("m", 1)
    assert found["signatures"]["serving_default"]["inputs"]["x"] == {"dtype": "float32", "shape": [None, 2]}
    assert found["signatures"]["serving_default"]["defaults"] == ["scale"]


def test_ctrl_c_ends_a_query_and_leaves_no_half_file(texts, tmp_path):
    arrived, release = threading.Event(), threading.Event()

    def hold(rpc, request, context):
        if rpc == "Predict":
            arrived.set()
            release.wait(60)

    texts.before = hold
    code = (
        # Where the tests run in the background of a shell, Ctrl-C is ignored, and children inherit that.
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from keras_selfattn.cli.main import main; main(sys.argv[1:])"
    )
    out = tmp_path / "out.csv"
    arguments = ["query", "m", "a", "--target", texts.target, "--timeout", "60", "--output", str(out)]
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, text=True)
    try:
        assert arrived.wait(30)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert "Interrupted" in process.communicate(timeout=20)[1]
        assert process.returncode == 130
        assert list(tmp_path.iterdir()) == []
    finally:
        release.set()
        process.kill()


def test_a_reader_that_leaves_is_no_failure_to_shout_about(texts):
    query = [sys.executable, "-c", "from keras_selfattn.cli.main import main; main()", "query", "m"]
    command = f"{shlex.join([*query, '--target', texts.target, '--format', 'csv'])} | head -n 1"
    rows = "abcd\n" * 20_000
    done = subprocess.run(
        command, shell=True, input=rows, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == ["text,label,score"]
    assert done.stderr == ""


@pytest.mark.process
def test_a_bar_shows_on_a_terminal_how_much_of_the_file_is_read(texts, tmp_path):
    (tmp_path / "in.csv").write_text("text\n" + "abcd\n" * 20_000)
    query = [sys.executable, "-c", "from keras_selfattn.cli.main import main; main()", "query", "m"]
    arguments = ["--target", texts.target, "--file", str(tmp_path / "in.csv"), "--format", "csv"]
    terminal, far_end = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(
        [*query, *arguments], stdout=subprocess.PIPE, stderr=far_end, text=True, env=environment
    ) as process:
        os.close(far_end)
        shown = bytearray()
        reader = threading.Thread(target=read_all, args=(terminal, shown))
        reader.start()
        rows = process.stdout.read().splitlines()
        assert process.wait(60) == 0
        reader.join(20)
    assert len(rows) == 20_001
    assert b"in.csv" in shown
    assert len(set(re.findall(rb"(\d+)%", shown))) > 2


def read_all(descriptor, shown):
    with contextlib.suppress(OSError):  # Linux' way to say that a terminal has no other end any more
        while data := os.read(descriptor, 4096):
            shown += data


@pytest.mark.parametrize("arguments", [["a"], ["a", "quite long", "--batch-size", "1"]])
def test_a_query_asks_for_the_metadata_once(texts, arguments):
    done = invoke(texts, "query", *arguments)
    assert done.exit_code == 0, done.output
    calls = [call for call, _ in texts.requests]
    assert calls == ["GetModelMetadata", *["Predict"] * (1 if len(arguments) == 1 else 2)]

"""The command line, as a user runs it: the steps on the user's CSV, and the errors."""

import contextlib
import csv
import ctypes
import gc
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings

import click
import pytest
from click.testing import CliRunner

from keras_selfattn.cli.main import main
from keras_selfattn.cli.serve import first_question
from keras_selfattn.cli.shared import backend
from keras_selfattn.cli.shared.backend import import_tensorflow

COMMAND = [sys.executable, "-c", "from keras_selfattn.cli.main import main; main()"]


def run(*arguments, cwd=None):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=240, cwd=cwd, check=False
    )


def invoke(*arguments):
    """The same within this process, for what ends before anything heavy begins."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def start(*arguments, cwd=None):
    # Unbuffered, so that a line is seen when it is printed.
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env=environment,
    )


def read_until(process, pattern, seconds=120):
    """Returns what the process printed up to a line that matches."""
    deadline, seen = time.monotonic() + seconds, ""
    while time.monotonic() < deadline:
        line = process.stdout.readline()
        seen += line
        if re.search(pattern, line):
            return line
        if not line and process.poll() is not None:
            break
    raise AssertionError(f"{pattern!r} was not printed: {seen}")


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """A folder with reviews.csv and test.csv, and a run trained on the first."""
    folder = tmp_path_factory.mktemp("reviews")
    for name, count in (("reviews.csv", 60), ("test.csv", 10)):
        with (folder / name).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["stars", "review"])
            for n in range(count):
                writer.writerow(["good", f"surprisingly good, number {n}"])
                writer.writerow(["bad", f"a bore\nfrom start to end {n}"])
    columns = ("--text", "review", "--label", "stars")
    small = ("--width", 16, "--layers", 1, "--members", 1, "--epochs", 8, "--learning-rate", 0.01)
    done = run("train", "reviews.csv", *columns, *small, "--output", "runs/reviews", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def exported(reviews):
    """The same folder, with the run exported to models/reviews/1."""
    done = run("export", "runs/reviews", "models/reviews", cwd=reviews)
    assert "Exported and checked models/reviews/1" in done.stdout, done.stdout + done.stderr
    assert done.stderr == "", "TensorFlow's start-up messages are held back"
    return reviews


@pytest.mark.process
def test_train_evaluate_export_serve_and_query_step_by_step(exported):
    reviews = exported
    done = run("evaluate", "runs/reviews", "test.csv", cwd=reviews)
    assert "On 20 test.csv rows: accuracy 100.0%, macro F1 1.000" in done.stdout, done.stdout + done.stderr
    assert done.stderr == ""
    server = start(
        "serve", "--model_name=reviews", "--model_base_path=models/reviews", "--port=0", cwd=reviews
    )
    try:
        target = re.search(r"127\.0\.0\.1:\d+", read_until(server, "Serving 'reviews'")).group()
        done = run("query", "reviews", "surprisingly good", "", "--target", target)
        assert re.search(r"surprisingly good +│ good +│ +\d+\.\d%", done.stdout), done.stdout + done.stderr
        done = run("query", "nothing", "text", "--target", target)
        assert done.returncode == 3
        assert "nothing" in done.stderr
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    finally:
        server.kill()
        server.stdout.close()
    done = run("query", "reviews", "text", "--target", target, "--timeout", "2")
    assert done.returncode == 4
    assert target in done.stderr


@pytest.mark.process
def test_an_export_is_compared_inspected_listed_and_removed(reviews):
    narrow = ("--precision", "int8-weights", "--data", "test.csv", "--max-accuracy-drop", 0.05)
    done = run("export", "runs/reviews", "models/narrow", *narrow, cwd=reviews)
    assert re.search(r"int8-weights +(│ +\d+\.\d\d ){3}│ +\d+\.\d\d%", done.stdout), done.stdout + done.stderr
    assert "of 20 rows are answered differently" in done.stdout
    done = run("export", "runs/reviews/model.keras", "models/narrow", "--keep", 1, cwd=reviews)
    assert "Exported and checked models/narrow/2" in done.stdout, done.stdout + done.stderr
    models = reviews / "models" / "narrow"
    done = invoke("inspect", models)
    assert re.search(r"text-classification; 2 labels \(bad, good\); vocabulary of \d+", done.stdout), (
        done.stderr
    )
    assert "│ tokens: string [?, ?]" in done.stdout
    assert "108 warmup requests" in " ".join(done.stdout.split())
    shown = json.loads(invoke("inspect", models / "2", "--json").stdout)
    assert shown["card"]["labels"] == ["bad", "good"]
    assert shown["operations"]["Softmax"] == 5
    assert invoke("versions", models, "--latest").stdout == "2\n", "1 was not kept"
    done = invoke("versions", models, "--remove", 1)
    assert "has no version 1. It has: 2." in done.stderr
    done = invoke("versions", models, "--remove", 2)
    assert done.stdout.startswith("Removed 2."), done.stderr
    assert list(models.iterdir()) == []


@pytest.mark.process
def test_the_card_of_a_run_tells_its_data_and_figures(exported):
    card = json.loads((exported / "models/reviews/1/assets.extra/model_card.json").read_text())
    assert card["training"]["data"]["train"] == {"source": "reviews.csv", "rows": 108}
    assert card["metrics"]["split"] == "validation"
    assert card["metrics"]["rows"] == 12
    assert card["training"]["settings"]["epochs"] == 8


@pytest.mark.process
@pytest.mark.parametrize(("moment", "number"), [("Training on", signal.SIGINT), ("epoch 1/", signal.SIGTERM)])
def test_a_signal_leaves_no_half_written_folder_and_no_process(tmp_path, moment, number):
    process = start("quickstart", "--languages", "el,th", "--epochs", 200, "--output", "out", cwd=tmp_path)
    try:
        read_until(process, moment)
        process.send_signal(number)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        assert process.returncode == 128 + number
        assert "Interrupted" in process.stdout.read()
    finally:
        process.kill()
        process.stdout.close()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_an_interrupt_that_native_code_turns_into_its_own_error_is_still_one(monkeypatch):
    @click.command("broken")
    def broken():
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        raise SystemError("bad argument to internal function")

    monkeypatch.setattr(type(main), "get_command", lambda self, ctx, name: broken)
    done = CliRunner().invoke(main, ["broken"])
    assert done.exit_code == 130
    assert done.output == "Interrupted.\n"


@pytest.mark.parametrize("command", ["train", "pretrain"])
def test_an_interrupted_training_with_a_checkpoint_says_that_it_goes_on(command, tmp_path, monkeypatch):
    def interrupted(*_arguments, **_options):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(f"keras_selfattn.cli.{command}.import_tensorflow", interrupted)
    (tmp_path / "films.csv").write_text("text,label\ngood,+\nbad,-\n")
    asked = [command, str(tmp_path / "films.csv"), "--output", str(tmp_path / "run")]
    kept = "Nothing is kept. With --resume the command keeps checkpoints, and goes on from the last one."
    assert CliRunner().invoke(main, asked).output.splitlines()[-1] == f"Interrupted. {kept}"
    done = CliRunner().invoke(main, [*asked, "--resume"])
    goes_on = "Interrupted. The same command goes on from the last checkpoint, if there is one."
    assert (done.exit_code, done.output.splitlines()[-1]) == (130, goes_on)


@pytest.mark.parametrize("command", ["train", "pretrain"])
def test_resuming_a_run_that_has_ended_says_so(command, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model.keras").touch()
    (tmp_path / "films.csv").write_text("text,label\ngood,+\nbad,-\n")
    asked = [command, str(tmp_path / "films.csv"), "--output", str(tmp_path / "run"), "--resume"]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 1
    assert "a run that has ended, so --resume has nothing to go on with" in done.output


class Interrupted:
    """Interrupts in its destructor, whose exceptions Python does not raise. TensorFlow has many."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def interrupted_in_native_code():
    """Native code that calls Python, such as JAX's, prints the exceptions of what it calls, and goes on."""
    ctypes.pythonapi.PyRun_SimpleString(b"import signal; signal.raise_signal(signal.SIGINT)")


@pytest.mark.parametrize("interrupted", [Interrupted, interrupted_in_native_code])
def test_an_interrupt_that_is_dropped_comes_again(interrupted, monkeypatch):
    @click.command("training")
    def training():
        interrupted()
        time.sleep(seconds)
        click.echo("trained to the end")

    monkeypatch.setattr(type(main), "get_command", lambda self, ctx, name: training)
    seconds = 20
    done = CliRunner().invoke(main, ["training"])
    assert done.exit_code == 130
    assert done.output == "Interrupted.\n"
    seconds = 0
    done = CliRunner().invoke(main, ["training"])
    time.sleep(0.3)  # nothing comes after the end
    assert (done.exit_code, done.output) == (0, "trained to the end\n")


def test_an_error_that_native_code_prints_is_printed(monkeypatch):
    @click.command("training")
    def training():
        ctypes.pythonapi.PyRun_SimpleString(b"raise ValueError('of native code')")

    monkeypatch.setattr(type(main), "get_command", lambda self, ctx, name: training)
    done = CliRunner().invoke(main, ["training"])
    assert done.exit_code == 0
    assert "ValueError: of native code" in done.output


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_not_collected_while_tensorflow_is_imported(enabled, monkeypatch):
    during = []
    monkeypatch.setattr(
        "tensorflow.config.list_physical_devices", lambda *_: during.append(gc.isenabled()) or []
    )
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    frozen = gc.get_freeze_count()
    try:
        import_tensorflow()
        assert during[0] is False
        assert gc.isenabled() == enabled
        assert (gc.get_freeze_count() > frozen) == enabled
    finally:
        (gc.enable if before else gc.disable)()


_IMPORTS = """
import sys
from keras_selfattn.cli.shared.backend import import_tensorflow
import_tensorflow()
import keras_selfattn.models
print(sorted({"jax", "matplotlib", "pandas", "scipy", "sklearn"} & set(sys.modules)))
import scipy.sparse, sklearn.svm
"""


@pytest.mark.process
def test_packages_that_no_command_needs_are_not_imported_and_can_be_later():
    done = subprocess.run([sys.executable, "-c", _IMPORTS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_what_is_hidden_is_there_again_after_an_error_and_what_was_imported_stays():
    sys.modules.pop("colorsys", None)
    with contextlib.suppress(RuntimeError), backend._without(("colorsys", "json")):
        assert importlib.import_module("json") is json
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("colorsys")
        raise RuntimeError
    assert importlib.import_module("colorsys").rgb_to_hsv(0, 0, 0) == (0, 0, 0)


@pytest.mark.parametrize("asked", ["tensorflow", "jax"])
def test_only_a_backend_that_needs_none_of_them_hides_packages(asked, monkeypatch):
    hidden = []
    monkeypatch.setattr(backend, "_without", lambda names: hidden.append(names) or contextlib.nullcontext())
    monkeypatch.setattr(backend, "check_backend", lambda: None)  # JAX may not be installed
    monkeypatch.setenv("KERAS_BACKEND", asked)
    import_tensorflow()
    assert [bool(names) for names in hidden] == [asked == "tensorflow"]


def test_warnings_are_a_line(monkeypatch):
    @click.command("warns")
    def warns():
        warnings.warn("two files were left out", stacklevel=2)

    monkeypatch.setattr(type(main), "get_command", lambda self, ctx, name: warns)
    monkeypatch.setattr(warnings, "showwarning", _written)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        done = CliRunner().invoke(main, ["warns"])
    assert done.stderr == "Warning: two files were left out\n"


def _written(message, category, filename, lineno, file=None, line=None):
    """As Python's own, which pytest takes the place of."""
    sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


@pytest.mark.parametrize(
    ("task", "inputs", "question"),
    [
        ("text-classification", {"text": ("string", [None])}, ("query", "m", "some text")),
        ("token-labelling", {"tokens": ("string", [None, None])}, ("query", "m", "some text")),
        (
            "series-classification",
            {"values": ("float32", [None, None, 2])},
            ("query", "m", "[[0.5, 0.5], [1.5, 1.5]]"),
        ),
        ("series-regression", {"values": ("float32", [None, None, 40])}, ("metadata", "m")),
        ("sound-classification", {"audio": ("string", [None])}, ("query", "m", "recording.wav")),
        ("something", {"x": ("float32", [None])}, ("metadata", "m")),
    ],
)
def test_what_serve_proposes_is_something_that_the_model_takes(tmp_path, task, inputs, question):
    described = {name: {"dtype": dtype, "shape": shape} for name, (dtype, shape) in inputs.items()}
    card = {"format": 1, "task": task, "signatures": {"serving_default": {"inputs": described}}}
    (tmp_path / "assets.extra").mkdir()
    file = tmp_path / "assets.extra" / "model_card.json"
    file.write_text(json.dumps(card))
    assert first_question("m", tmp_path) == question
    card["signatures"]["encoded"] = {}
    file.write_text(json.dumps(card))
    assert first_question("m", tmp_path) == ("query", "m", "--signature", "encoded", "image.png")
    for other in ("[]", "no JSON", '{"format": 1}'):
        file.write_text(other)
        assert first_question("m", tmp_path) == ("query", "m", "some text")


@pytest.mark.parametrize("arguments", [("--epochs", "0"), ("--seed", "-1")])
def test_options_out_of_range_are_named_before_anything_starts(arguments):
    for command in (("quickstart",), ("train", "t.csv", "--output", "run")):
        done = invoke(*command, *arguments)
        assert done.exit_code == 2
        assert f"'{arguments[0]}'" in done.output


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("train", "missing.csv", "--output", "run"), "There is no file missing.csv"),
        (
            ("train", "{folder}/reviews.csv", "--output", "run"),
            "no column 'text'. Its columns are 'stars', 'review'",
        ),
        (("quickstart", "--languages", "1"), "--languages must be a number from 2 to 50"),
        (("quickstart", "--languages", "de,xx"), "CLDR has no language 'xx'"),
        (("quickstart", "--output", "{folder}/reviews.csv"), "is a file; choose another name"),
        (("export", "{folder}/runs/reviews", "m", "--max-accuracy-drop", "0"), "needs --data"),
        (("export", "{folder}/runs/reviews", "m", "--data", "missing.csv"), "There is no file missing.csv"),
        (
            ("export", "m.keras", "m", "--labels", "missing.txt"),
            "--labels missing.txt cannot be read as text",
        ),
    ],
)
def test_what_a_user_can_mend_is_one_line(reviews, arguments, said):
    done = invoke(*(argument.format(folder=reviews) for argument in arguments))
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert said in " ".join(done.output.split())
    assert "Traceback" not in done.output


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("evaluate", "nothing", "{folder}/test.csv", "--text", "review", "--label", "stars"),
            "no run folder nothing",
        ),
        (("export", "{folder}/runs/reviews", "{folder}/reviews.csv"), "is a file; choose another name"),
        (("inspect", "{folder}/runs"), "There is no SavedModel in"),
        (("versions", "{folder}/runs"), "has no versions"),
        (
            (
                "train",
                "{folder}/test.csv",
                "--text",
                "review",
                "--label",
                "stars",
                "--output",
                "{folder}/runs/reviews",
            ),
            "exists already. Choose another output folder",
        ),
    ],
)
def test_what_fails_after_tensorflow_has_started_is_one_line_too(reviews, arguments, said):
    done = invoke(*(argument.format(folder=reviews) for argument in arguments))
    assert done.exit_code == 1
    assert said in " ".join(done.stderr.split())
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.output


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--model_base_path", "{folder}/nothing"), "nothing does not exist"),
        (("--model_base_path", "{folder}/runs", "--startup_wait_seconds=0"), "has no version"),
    ],
)
def test_what_keeps_a_server_from_starting_is_one_line_too(reviews, arguments, said):
    done = run("serve", *(argument.format(folder=reviews) for argument in arguments))
    assert done.returncode != 0
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_help_names_every_command():
    done = invoke("--help")
    assert done.exit_code == 0
    for command in (
        "quickstart",
        "train",
        "evaluate",
        "export",
        "inspect",
        "versions",
        "serve",
        "query",
        "status",
    ):
        assert f"  {command} " in done.output
        assert invoke(command, "--help").exit_code == 0
    assert invoke("nothing").exit_code == 2


@pytest.mark.parametrize(
    ("before", "batches", "after"), [(None, True, "1"), ("0", True, "0"), (None, False, None)]
)
def test_commands_of_batches_turn_onednn_on_unless_the_environment_decides(
    monkeypatch, before, batches, after
):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    # Set first, so that the variable is put back whatever it was.
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", before or "")
    if before is None:
        monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS")
    import_tensorflow(batches=batches)
    assert os.environ.get("TF_ENABLE_ONEDNN_OPTS") == after

"""`keras-selfattn-client`, the command of the client alone: as `keras-selfattn`, with three packages."""

import ast
import configparser
import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from serving_texts import stock_texts

from keras_selfattn.asking import client_command
from keras_selfattn.cli.main import main as whole

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "deploy" / "client"
LISTED = next(
    ast.literal_eval(node.value)
    for node in ast.parse((CLIENT / "setup.py").read_text("utf-8")).body
    if isinstance(node, ast.Assign) and node.targets[0].id == "MODULES"
)


@pytest.fixture
def ask(stock_server, capsys):
    """A function that runs the command on a served model, and returns its status, output and errors."""
    serving = stock_texts()
    target = stock_server(serving)

    def asked(name, *words):
        status = client_command.main([name, "m", "--target", target, *map(str, words)])
        return status, *capsys.readouterr()

    asked.serving = serving
    return asked


def test_texts_are_answered_in_a_table_also_after_options(ask):
    status, out, _ = ask("query", "a", "--batch-size", 1, "quite long", "--", "-x-")
    lines = [["a", "short", "0.7"], ["quite long", "long", "0.7"], ["-x-", "short", "0.7"]]
    assert (status, [re.split(r"\s{2,}", line) for line in out.splitlines()]) == (
        0,
        [["text", "label", "score"], *lines],
    )
    assert len(ask.serving.received("Predict")) == 3


def test_a_file_keeps_its_columns_and_an_output_appears_whole(ask, tmp_path):
    (tmp_path / "in.csv").write_text('id,text,label\n1,"a, quoted\ntext",x\n2,b,y\n')
    status, out, _ = ask("query", "--file", tmp_path / "in.csv", "--format", "csv")
    wanted = [
        ["id", "text", "label", "predicted_label", "score"],
        ["1", "a, quoted\ntext", "x", "long", "0.7"],
        ["2", "b", "y", "short", "0.7"],
    ]
    assert (status, list(csv.reader(io.StringIO(out)))) == (0, wanted)
    status, out, _ = ask("query", "--file", tmp_path / "in.csv", "--output", tmp_path / "out.csv")
    assert (status, out) == (0, "")
    written = (tmp_path / "out.csv").read_text("utf-8")
    assert list(csv.reader(io.StringIO(written))) == wanted


def test_standard_input_is_answered_line_by_line(ask, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\nünlike\n"))
    status, out, _ = ask("query", "--format", "json", "--outputs", "label")
    assert (status, [json.loads(line) for line in out.splitlines()]) == (
        0,
        [{"text": "a", "label": "short"}, {"text": "ünlike", "label": "long"}],
    )


def test_status_and_metadata_answer_people_and_programs(ask):
    status, out, _ = ask("status")
    assert (status, out.split()) == (0, ["version", "state", "error", "3", "AVAILABLE"])
    status, out, _ = ask("status", "--json")
    assert json.loads(out) == {"version": 3, "state": "AVAILABLE", "code": "OK", "message": ""}
    status, out, _ = ask("metadata")
    assert "serving_default: (text: string [None])" in out
    status, out, _ = ask("metadata", "--json")
    inputs = json.loads(out)["signatures"]["serving_default"]["inputs"]
    assert inputs == {"text": {"dtype": "string", "shape": [None]}}


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["a", "--signature", "nope"], 3, "has no signature 'nope'"),
        (["a", "--outputs", "nope"], 2, "has no output 'nope'"),
        (["a", "--header", "nope"], 2, "write it as 'name: value'"),
        (["--file", "nope.csv"], 1, "There is no file nope.csv"),
        (["a", "--file", "nope.csv"], 2, "Give texts or --file, not both"),
        (["a", "--timeout", "0"], 2, "timeout must be a positive"),
    ],
)
def test_what_a_user_can_mend_is_one_error_with_a_status(ask, words, status, said):
    found, out, error = ask("query", *words)
    assert (found, out) == (status, "")
    assert error.startswith("Error: ")
    assert said in error


def test_a_wrong_option_ends_with_the_usage_and_status_2(capsys):
    for words, said in {
        (): "arguments are required: COMMAND",
        ("query", "m", "--batch-size", "0"): "must be an integer, at least 1. Received '0'",
        ("query", "m", "--batch-size", "x"): "must be an integer, at least 1. Received 'x'",
        ("query", "m", "--no-such"): "unrecognized arguments: --no-such",
        (
            "query",
            "m",
            "--form",
            "json",
        ): "unrecognized arguments: --form",  # the beginning of an option is none
        ("serve",): "invalid choice: 'serve'",
        ("--", "query"): "",
    }.items():
        with pytest.raises(SystemExit) as ended:
            client_command.main(words)
        assert ended.value.code == 2
        error = capsys.readouterr().err
        assert "usage: keras-selfattn-client" in error
        assert said in error


def test_headers_of_a_file_that_is_no_text_are_refused(ask, tmp_path):
    (tmp_path / "secret").write_bytes(b"\xff\xfe")
    status, _, error = ask("query", "a", "--header", f"@{tmp_path / 'secret'}")
    assert (status, error) == (2, f"Error: {tmp_path / 'secret'} is not text in UTF-8: invalid start byte.\n")


@pytest.mark.process
@pytest.mark.parametrize("program", ["asking.client_command", "cli.entry"])
@pytest.mark.parametrize(
    ("kind", "said"), [("ascii", ""), ("gone", ""), ("full", "Error: [Errno 28] No space left on device\n")]
)
def test_an_output_that_does_not_take_the_answers(stock_server, tmp_path, program, kind, said):
    """A terminal without UTF-8 shows "?"; for a reader that has gone, or a full disk, the status is 1."""
    run = f"import sys; from keras_selfattn.{program} import main; sys.exit(main())"
    words = [sys.executable, "-c", run, "query", "m", "é", "--format", "json"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    environment.pop("PYTHONUNBUFFERED", None)
    reader, writer = os.pipe()
    os.close(reader)
    with {
        "ascii": lambda: Path(tmp_path, "out").open("w"),
        "gone": lambda: os.fdopen(writer, "w"),
        "full": lambda: Path("/dev/full").open("w"),
    }[kind]() as place:
        done = subprocess.run(
            [*words, "--target", stock_server(stock_texts())],
            stdout=place,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0 if kind == "ascii" else 1, said)
    if kind == "ascii":
        assert json.loads((tmp_path / "out").read_text())["text"] == "?"


NAMES = ["query", "status", "metadata"]


def whole_help(name):
    return CliRunner().invoke(whole, [name, "--help"], terminal_width=500).output


def light_help(name, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "500")
    with pytest.raises(SystemExit):
        client_command.main([name, "--help"])
    return capsys.readouterr().out


def options_shown(text):
    """The options of a help by heading: flag, the name of its value, what is said of it, and its default."""
    panels, heading = {}, None
    for line in text.splitlines():
        if found := re.fullmatch(r"(\S.*):", line):
            heading = {"options": "most used"}.get(found[1].lower(), found[1].lower())
        elif heading and (found := re.match(r"  (?:-h, )?(--[\w-]+)(.*?)(?:  +(.*))?$", line)):
            flag = found[1]
            panels.setdefault(heading, {})[flag] = [re.sub(r"\W+", " ", found[2]).strip(), found[3] or ""]
        elif heading and line.startswith("    ") and flag:
            panels[heading][flag][1] += line.strip()
        else:
            flag = None
    for options in panels.values():
        options.pop("--help", None)  # of the two libraries
        for flag, (value, words) in options.items():
            said, default = re.fullmatch(r"(.*?)(?: +[\[(]default: (.*)[\])])?", words).groups()
            options[flag] = (value, said[0].lower() + said[1:].removesuffix("."), default)
    return {heading: options for heading, options in panels.items() if options}


@pytest.mark.parametrize("name", NAMES)
def test_both_programs_help_with_the_same_words(name, monkeypatch, capsys):
    texts = whole_help(name), light_help(name, monkeypatch, capsys)
    shown = [options_shown(text) for text in texts]
    assert shown[0] == shown[1]
    assert list(shown[0]) == ["most used", *(["call"] if name == "query" else []), "connection", "encryption"]
    options = {flag: told for panel in shown[0].values() for flag, told in panel.items()}
    assert options["--target"][::2] == ("HOST PORT", "localhost:8500")
    assert options["--ca"] == ("FILE", "certificates to trust (PEM)", "the public ones")
    assert options["--tls"] == ("", "encrypt the connection", None)
    heads = [" ".join(re.split(r"(?i)most used:|positional arguments:", text)[0].split()) for text in texts]
    assert heads[0].partition(" MODEL ")[2].replace("[TEXTS]... ", "") == (
        heads[1].partition(" MODEL ")[2].replace("[TEXTS ...] ", "")
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("query", []),
        ("query", ["a", "--batch-size", "3", "b", "--no-header", "--file", "x.csv", "--outputs", "p"]),
        ("query", ["--target", "a:1", "--target", "b:2", "--header", "k: v", "--format", "csv", "--tls"]),
        ("status", []),
        ("status", ["--version", "2", "--wait", "1.5", "--json", "--timeout", "3", "--key", "k.pem"]),
        ("metadata", ["--label", "stable", "--wait-for-ready", "--insecure", "--server-name", "x"]),
    ],
)
def test_both_programs_understand_the_same_line(name, words, monkeypatch):
    found = []
    command = whole.get_command(click.Context(whole), name)
    monkeypatch.setattr(command, "callback", lambda **options: found.append(options))
    monkeypatch.setitem(client_command._RUN, name, lambda options: found.append(vars(options)) or 0)
    command.main(["m", *words], standalone_mode=False)
    assert client_command.main([name, "m", *words]) == 0
    plain = [
        {key: list(value) if isinstance(value, tuple) else value for key, value in options.items()}
        for options in found
    ]
    assert plain[0] == plain[1]
    assert plain[0]["model"] == "m"


@pytest.mark.parametrize("name", NAMES)
def test_both_programs_refuse_the_same_values(name, capsys):
    for words in (["--version", "x"], ["--timeout", "soon"], ["--header", "nope"], ["--nope"], ["--json=1"]):
        done = CliRunner().invoke(whole, [name, "m", *words])
        try:
            status = client_command.main([name, "m", *words])
        except SystemExit as ended:
            status = ended.code
        assert (done.exit_code, status) == (2, 2), words
        assert words[0].partition("=")[0] in done.output
    assert "write it as 'name: value'" in capsys.readouterr().err


def test_the_wheel_holds_every_module_that_its_modules_import_and_needs_its_three_packages():
    sources = [ROOT / "keras_selfattn" / module for module in LISTED if module.endswith(".py")]
    for folder in ("client", "client/transport", "wire", "."):
        found = sorted((ROOT / "serving" / folder).glob("*.py"))
        assert found
        sources += [path for path in found if path.name != "ray.py" or folder != "."]
    known = {module.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for module in LISTED}
    # ml_dtypes: bfloat16 says what to install.
    packages = {"numpy", "grpc", "google", "keras_selfattn", "ml_dtypes"} | sys.stdlib_module_names
    packages |= {"packaging", "pip"}  # `extras` does without where neither is installed
    count = 0
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            for name in names:
                assert name.partition(".")[0] in packages, (path, name)
                ours = name.removeprefix("keras_selfattn.")
                if name.startswith("keras_selfattn.") and not ours.startswith("serving"):
                    count += 1
                    assert ours in known, (path, name)
    assert count > 20


def test_both_distributions_ask_for_the_same_versions():
    files = configparser.ConfigParser(), configparser.ConfigParser()
    for each, path in zip(files, (ROOT / "setup.cfg", CLIENT / "setup.cfg"), strict=True):
        each.read(path, encoding="utf-8")
    whole_project = files[0]["options"]["install_requires"] + files[0]["options.extras_require"]["client"]
    asked = files[1]["options"]["install_requires"].split()
    assert [line.partition(">=")[0] for line in asked] == ["grpcio", "numpy", "protobuf"]
    assert set(asked) <= set(whole_project.split())
    pins = [
        re.findall(r"setuptools==[\d.]+", (folder / "pyproject.toml").read_text())
        for folder in (ROOT, CLIENT)
    ]
    assert len(pins[0]) == 1
    assert pins[0] == pins[1]
    assert files[0]["options"]["python_requires"] == files[1]["options"]["python_requires"]

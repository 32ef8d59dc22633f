"""A base install holds the layers; what needs more says in one line which extra brings it."""

import ast
import configparser
import json
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from keras_selfattn import extras

ROOT = Path(__file__).parents[1]
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg", encoding="utf-8")
REQUIRED = {
    extra: set(re.findall(r"^([\w-]+)", lines, re.MULTILINE))
    for extra, lines in SETUP["options.extras_require"].items()
}
# Hides modules, as if they were not installed, and reports how each statement fails.
PROGRAM = """
import importlib.abc, json, sys
hidden, statements = json.loads(sys.argv.pop()), json.loads(sys.argv.pop())

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
for statement in statements:
    try:
        exec(statement, {})
    except BaseException as error:
        print(json.dumps([type(error).__name__, str(error), type(error.__cause__).__name__]))
    else:
        print(json.dumps(None))
"""
MORE = sorted(
    {module.partition(".")[0] for modules in extras.MODULES.values() for module in modules} | {"click"}
)


def failures(statements, hidden):
    words = [sys.executable, "-c", PROGRAM, json.dumps(statements), json.dumps(hidden)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_base_install_is_numpy_and_keras():
    assert SETUP["options"]["install_requires"].split() == ["keras>=3.12", "numpy>=1.26"]


def test_all_is_the_whole_path_and_the_tests_have_it():
    parts = SETUP["options.extras_require"]["all"].strip()
    assert parts == "keras-selfattn[audio,client,plots,quickstart,serve,train]"
    assert "keras-selfattn[all]" in SETUP["options.extras_require"]["test"].split()


def test_who_trains_installs_nothing_that_the_quickstart_alone_reads():
    own = {"babel", "django", "stopwordsiso"}
    assert [extra for extra, packages in REQUIRED.items() if packages & own] == ["quickstart"]
    # All that the command does, in one installation.
    assert "keras-selfattn[client,serve,train]" in SETUP["options.extras_require"]["quickstart"].split()


@pytest.mark.parametrize(
    "extra", ["train", "quickstart", "serve", "client", "plots", "parquet", "pieces", "hub"]
)
def test_the_modules_of_an_extra_are_what_it_installs(extra):
    distributions = packages_distributions()
    for module in extras.MODULES[extra]:
        wheels = {re.sub(r"[_.]", "-", name).lower() for name in distributions[module.partition(".")[0]]}
        assert wheels & REQUIRED[extra], module


def test_each_lower_bound_is_the_same_in_every_extra():
    asked = "\n".join([SETUP["options"]["install_requires"], *SETUP["options.extras_require"].values()])
    bounds = set(re.findall(r"^([\w-]+)>=([\d.]+)", asked, re.MULTILINE))
    twice = {name for name, _ in bounds if sum(name == other for other, _ in bounds) > 1}
    # Those that only serve peers, or tests, may be older.
    assert twice <= {"jax", "opentelemetry-sdk"}


def test_every_module_that_is_imported_somewhere_is_one_of_a_base_install_or_of_an_extra():
    known = {module.partition(".")[0] for modules in extras.MODULES.values() for module in modules}
    known |= {"numpy", "keras", "click", "rich"} | sys.stdlib_module_names | {"keras_selfattn"}
    # With what it is imported from; each says itself what is missing, or does without.
    known |= {"flatbuffers", "ml_dtypes"}
    known |= {"packaging", "pip"}  # either reads the versions of packages, for one message
    found = set()
    for path in [
        *ROOT.glob("keras_selfattn/**/*.py"),
        *ROOT.glob("export/**/*.py"),
        *ROOT.glob("serving/**/*.py"),
    ]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add((node.module or "").partition(".")[0])
    assert {"tensorflow", "uvicorn"} <= found
    assert found <= known, found - known


@pytest.mark.process
def test_what_a_base_install_lacks_is_named_with_its_extra_and_the_error_keeps_its_cause():
    wanted = {
        "from keras_selfattn import models": "train",
        "import keras_selfattn.training": "train",
        "import keras_selfattn.export.versions": "train",
        "from keras_selfattn.metrics import Report": "train",
        "from keras_selfattn.data import language_rows": "quickstart",
        "from keras_selfattn import plots; plots.encoding_heatmap([[1, 2]])": "plots",
        "import keras_selfattn.serving.client": "client",
        "from keras_selfattn.serving.errors import ServingError": "client",
        "import keras_selfattn.batch": "client",
    }
    found = failures(list(wanted), MORE)
    for (kind, message, cause), (statement, extra) in zip(found, wanted.items(), strict=True):
        assert (kind, cause) == ("MissingExtraError", "ModuleNotFoundError"), statement
        assert f"which is not installed: pip install 'keras-selfattn[{extra}]'" in message, statement
        assert "\n" not in message


def test_a_module_that_no_extra_brings_is_not_told_as_one():
    """Neither one beside a package of an extra, nor one that an installed package should have."""
    for name in ("google.cloud", "tensorflow.no_such", "grpc.no_such", "mine"):
        assert extras.missing_extra(ModuleNotFoundError(name=name)) is None, name


@pytest.mark.process
def test_what_needs_no_extra_works_without_them():
    statements = [
        "from keras_selfattn import plots; assert plots.encoding_heatmap",
        "from keras_selfattn.data import LabelledRows, cut_windows",
    ]
    assert failures(statements, MORE) == [None] * len(statements)


@pytest.mark.process
def test_the_client_s_extra_brings_no_server():
    (kind, message, _), same = failures(
        ["from keras_selfattn.serving.server import Server", "import keras_selfattn.serving.client"],
        ["tensorflow", "uvicorn"],
    )
    assert (kind, same) == ("MissingExtraError", None)
    assert message.endswith("tensorflow, which is not installed: pip install 'keras-selfattn[serve]'")


@pytest.mark.process
def test_layers_without_their_backend_name_it_and_another_one():
    ((kind, message, cause),) = failures(["from keras_selfattn import layers"], ["tensorflow"])
    assert (kind, cause) == ("MissingExtraError", "ModuleNotFoundError")
    assert message.startswith(
        "Keras computes with tensorflow, which is not installed: pip install tensorflow; or "
    )


@pytest.mark.process
@pytest.mark.parametrize(
    ("hidden", "arguments", "said"),
    [
        (["click"], [], "Its commands need pip install 'keras-selfattn[all]'"),
        (["click"], ["query", "reviews"], "`query` needs pip install 'keras-selfattn[client]'"),
        (["click"], ["quickstart"], "`quickstart` needs pip install 'keras-selfattn[quickstart]'"),
        (["grpc"], ["serve"], "`serve` needs pip install 'keras-selfattn[serve]'"),
        (
            ["uvicorn"],
            ["serve"],
            "needs uvicorn, which is not installed: pip install 'keras-selfattn[serve]'",
        ),
        (
            ["tensorflow"],
            ["versions", "models"],
            "needs tensorflow, which is not installed: pip install 'keras-selfattn[train]'",
        ),
        (
            ["babel"],
            ["quickstart"],
            "needs babel, which is not installed: pip install 'keras-selfattn[quickstart]'",
        ),
        (
            ["django"],  # is never imported
            ["quickstart"],
            "needs django, which is not installed: pip install 'keras-selfattn[quickstart]'",
        ),
        (
            ["stopwordsiso"],
            ["quickstart"],
            "needs stopwordsiso, which is not installed: pip install 'keras-selfattn[quickstart]'",
        ),
    ],
)
def test_a_command_says_in_one_line_which_extra_it_needs(hidden, arguments, said):
    program = PROGRAM.replace(
        "for statement in statements:", "from keras_selfattn.cli.entry import main; main()"
    )
    program = program[: program.index("    try:")]
    words = [sys.executable, "-c", program, *arguments, "[]", json.dumps(hidden)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("Error: ")
    assert done.stderr.endswith(f"{said}\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.process
def test_the_help_lists_commands_that_cannot_run_with_what_they_need():
    program = PROGRAM.replace(
        "for statement in statements:", "from keras_selfattn.cli.entry import main; main()"
    )
    words = [sys.executable, "-c", program[: program.index("    try:")], "--help", "[]", '["babel"]']
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    assert "quickstart  Not installed: pip install 'keras-selfattn[quickstart]'" in done.stdout
    assert "Ask the served MODEL" in done.stdout

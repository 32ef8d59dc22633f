"""The examples in the docstrings run, and the README names what exists."""

import doctest
import importlib
import json
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest

import keras_selfattn
from keras_selfattn.cli.main import main
from keras_selfattn.tasks import TASKS

ROOT = Path(__file__).parent.parent
GUIDES = sorted(f"docs/guides/{page.name}" for page in (ROOT / "docs" / "guides").glob("*.md"))


def modules():
    # The folder of the package alone: in an archive without links its path has the repository, too.
    places = {"keras_selfattn.": keras_selfattn.__path__[:1]}
    for package in (keras_selfattn.export, keras_selfattn.serving):
        places[f"{package.__name__}."] = package.__path__
    names = sorted({info.name for start in places for info in pkgutil.walk_packages(places[start], start)})
    # These checks are programs of their own, and shut Keras out.
    return [name for name in names if not name.endswith(("_pb2", ".check", ".portable_check"))]


# Their examples train or export models.
TRAIN = re.compile(
    r"keras_selfattn\.(training|estimators\.|models\.\w+\.|export\.saved_model|export\.portable\.write)"
)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if TRAIN.match(name) else ()) for name in modules()],
)
def test_the_examples_of_a_module_run(name):
    module = importlib.import_module(name)
    results = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert results.failed == 0


def test_every_public_name_has_an_example():
    public = [
        getattr(importlib.import_module(f"keras_selfattn.{package}"), name)
        for package in ("layers", "models", "export", "estimators")
        for name in importlib.import_module(f"keras_selfattn.{package}").__all__
    ]
    assert len(public) >= 12
    assert [item.__name__ for item in public if ">>> " not in (item.__doc__ or "")] == []


@pytest.mark.process
def test_the_python_of_the_readme_runs(tmp_path, monkeypatch):
    """Every snippet except the client's, in order, as one program."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    snippets = [code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "Client" not in code]
    assert len(snippets) >= 4
    names = {}
    for code in snippets:
        exec(compile(code, "README.md", "exec"), names)
    assert len(names["weights"].shape) == 4
    assert (tmp_path / "models" / "film" / "1" / "saved_model.pb").is_file()


@pytest.mark.slow
def test_the_python_of_the_table_of_layers_runs():
    text = (ROOT / "docs" / "layers.md").read_text(encoding="utf-8")
    names = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(code, "layers.md", "exec"), names)
    assert names["first"].shape == names["second"].shape == (1, 4, 4, 4)
    assert (names["second"][..., 3] == 0).all()


OF_TASKS = sorted(page.stem for page in (ROOT / "docs" / "tasks").glob("*.md"))
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "benchmarks/NOTES.md",
    *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")),
    *(f"docs/tasks/{name}.md" for name in OF_TASKS),
]


@pytest.mark.parametrize("page", PAGES)
def test_each_python_file_that_a_page_names_exists(page):
    folders = ("benchmarks", "deploy", "docs", "examples", "export", "keras_selfattn", "serving", "tests")
    there = [
        f"/{path.relative_to(ROOT).as_posix()}" for name in folders for path in (ROOT / name).rglob("*.py")
    ]
    named = re.findall(r"`([\w./-]+\.py)`", (ROOT / page).read_text(encoding="utf-8"))
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in there)] == []


def test_the_table_of_layers_names_each_of_them_and_the_tests_that_prove_it():
    text = (ROOT / "docs" / "layers.md").read_text(encoding="utf-8")
    layers = importlib.import_module("keras_selfattn.layers")
    assert [name for name in layers.__all__ if f"`{name}" not in text] == []
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", text)
    assert len(named) >= 28
    for file, test in named:
        assert f"\ndef {test}(" in (ROOT / "tests" / "layers" / file).read_text(encoding="utf-8"), (
            file,
            test,
        )


def test_the_table_of_layers_ticks_every_cell_or_gives_the_note_with_the_reason():
    text = (ROOT / "docs" / "layers.md").read_text(encoding="utf-8")
    notes = set(re.findall(r"^(\d+)\. ", text, re.MULTILINE))
    superscripts = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
    rows = [line.strip("|").split("|") for line in text.splitlines() if "::test_" in line]
    for row in rows:
        assert len(row) == 11, row
        for cell in row[5:10]:
            number = cell.replace("✓", "").strip().translate(superscripts)
            assert "✓" in cell or number in notes, row
            assert number in notes | {""}, row


def sections_with_tables():
    """The sections of the page on performance that have tables."""
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    return [section for section in re.split(r"(?m)^##+ ", text) if "\n|" in section]


def test_each_table_of_the_page_on_performance_has_one_machine_and_date_and_its_command():
    sections = sections_with_tables()
    assert len(sections) >= 8
    for section in sections:
        for text in re.split(r"(?m)(?:^\|.*\n)+", section)[:-1]:
            assert len(re.findall(r"\b\d{1,2} [A-Z][a-z]+\s20\d\d\b", text)) == 1, text
            assert re.search(r"AMD EPYC|Intel\s+Xeon|NVIDIA H100", text), text
            assert re.search(r"`python\s-m\sbenchmarks|the same commands", text), text


def test_each_figure_of_the_page_on_performance_is_one_of_the_notes_or_of_its_own_page():
    """A figure that is measured again is changed in both."""
    sources = ("benchmarks/NOTES.md", "docs/accuracy.md", "docs/client.md", "docs/scale.md")
    figure = r"\d[\d,]*(?:\.\d+)?"
    texts = [(ROOT / source).read_text(encoding="utf-8") for source in sources]
    known = {each for text in texts for each in re.findall(figure, text)}
    lines = [line for section in sections_with_tables() for line in section.splitlines()]
    rows = [line for line in lines if line.startswith("|")]
    shown = {each for row in rows for each in re.findall(figure, row.split("|", 2)[2])}
    assert len(shown) > 150
    assert shown - known == set()


@pytest.mark.slow
def test_the_python_of_the_savedmodel_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "savedmodel.md").read_text(encoding="utf-8")
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(code, "savedmodel.md", "exec"), {})
    assert (tmp_path / "models" / "motion" / "1" / "saved_model.pb").is_file()


# What the Python of a page computes last, and its shape.
COMPUTED = {
    "graphs": ('rows.arrays()["distances"]', (16, 3, 3)),
    "models": ("names", (2,)),
    "report": ("explained.weights", (1, 4, 3, 3)),
    "scikit-learn": ("chances", (1, 2)),
    "tasks/audio": ("answers", (2, 2)),
    "tasks/forecast": ("following", (1, 3)),
    "tasks/images": ("answers", (2, 2)),
    "tasks/pretraining": ("words", (1, 3)),
    "tasks/regression": ("lengths", (1, 1)),
    "tasks/score": ("found", (1, 1)),
    "tasks/seq2seq": ("texts", (2,)),
    "tasks/series": ("probabilities", (1, 2)),
    "tasks/text": ("probabilities", (1, 2)),
    "tasks/tokens": ("of_tokens[0]", (2, 4)),
}


def test_the_python_of_each_page_of_a_task_is_run():
    without = {"tasks/embedding"}  # it would need a folder
    assert {page for page in COMPUTED if page.startswith("tasks/")} == {
        f"tasks/{name}" for name in OF_TASKS
    } - without


def test_the_page_of_exports_has_a_row_for_each_task_of_a_card():
    schema = json.loads((ROOT / "docs" / "model-card.schema.json").read_text(encoding="utf-8"))
    text = (ROOT / "docs" / "savedmodel.md").read_text(encoding="utf-8")
    table = text[text.index("| task | model and inputs |") :].partition("\n\n")[0]
    told = {name.strip() for line in table.splitlines()[2:] for name in line.split("|")[1].split(",")}
    assert told == {*schema["properties"]["task"]["enum"]}


@pytest.mark.slow
@pytest.mark.parametrize("page", COMPUTED)
def test_the_python_of_a_page_of_models_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for code in re.findall(r"```python\n(.*?)```", (ROOT / f"docs/{page}.md").read_text("utf-8"), re.DOTALL):
        exec(compile(code, page, "exec"), names)
    value, shape = COMPUTED[page]
    assert np.shape(eval(value, names)) == shape


def test_a_page_of_a_task_has_the_headings_of_all_others_in_their_order():
    assert {*OF_TASKS} == {*(task.name for task in TASKS), "pretraining", "embedding"}
    for page in OF_TASKS:
        text = (ROOT / "docs" / "tasks" / f"{page}.md").read_text(encoding="utf-8")
        headings = re.findall(r"(?m)^## (.*)$", text)
        assert headings[:4] == ["What goes in", "The command", "Python", "What comes out"], page
        assert headings[-1] == "Limits", page
        assert "`client." in text or page == "pretraining", page


def rows_of_tasks(page, columns):
    """The cells of each row of a page's table of the tasks, by the task."""
    text = (ROOT / page).read_text(encoding="utf-8")
    table = text[text.index(f"| task | {columns} |") :].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return {re.sub(r"\[(\w+)\].*", r"\1", name): cells for name, *cells in rows}


def endings(cell):
    return {*re.findall(r"`(\.\w+)`", cell)} | ({""} if "folder" in cell else set())


def test_the_tables_of_tasks_name_each_task_with_its_model_and_the_files_that_select_it():
    of_models = rows_of_tasks("docs/models.md", "model | selected by | also reads, with `--task`")
    of_readme = rows_of_tasks("README.md", "files | model | predicts")
    assert {*of_models} == {*of_readme} == {task.name for task in TASKS}
    for task in TASKS:
        kind, selecting, more = of_models[task.name]
        assert kind == of_readme[task.name][1] == f"`{task.kind}`"
        assert endings(selecting) == task.endings, task.name
        assert ("`--task` only" in selecting) is not bool(task.endings)
        shown = endings(of_readme[task.name][0])
        assert shown <= task.endings | endings(more), task.name
        assert bool(shown & task.endings) is bool(task.endings), task.name


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/savedmodel.md",
        "docs/client.md",
        "docs/models.md",
        "docs/report.md",
        "docs/training.md",
        "docs/scale.md",
        "docs/page.md",
        *(f"docs/tasks/{page}.md" for page in OF_TASKS),
        *GUIDES,
    ],
)
def test_every_command_a_page_shows_exists_with_its_options(page):
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    shown = re.findall(r"keras-selfattn ([a-z]+)([^\n`]*)", text)
    expected = {"README.md": {"quickstart", "train", "evaluate", "export", "inspect", "serve", "query"}}
    expected["docs/models.md"] = {"train", "evaluate", "export", "serve"}
    expected |= {"docs/report.md": {"compare"}, "docs/training.md": {"export"}}
    expected |= {f"docs/tasks/{task.name}.md": {"train"} for task in TASKS}
    expected |= {"docs/tasks/pretraining.md": {"pretrain"}, "docs/tasks/embedding.md": {"export", "embed"}}
    expected["docs/scale.md"] = {"export", "serve"}
    expected |= dict.fromkeys(GUIDES, frozenset())
    expected["docs/guides/csv-to-server.md"] = expected["README.md"] - {"quickstart"} | {"versions"}
    expected["docs/page.md"] = {"open", "serve"}
    expected["docs/client.md"] = {"query", "status", "metadata"}
    assert {command for command, _ in shown} >= expected.get(page, {"export", "inspect", "versions"})
    for command, rest in shown:
        found = main.get_command(None, command)
        commands = [found, *getattr(found, "commands", {}).values()]
        parameters = [parameter for each in commands for parameter in each.params]
        known = {flag for each in parameters for flag in (*each.opts, *each.secondary_opts)}
        unknown = set(re.findall(r"--[a-z_-]+", rest)) - known - {"--help"}
        assert unknown == set(), command

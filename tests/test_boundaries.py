"""Imports point one way, proven in fresh interpreters and, of subpackages side by side, from their text."""

import ast
import graphlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_selfattn.layers
from keras_selfattn.layers.attention_base import AttentionBase

ROOT = Path(__file__).parents[1]
HEAVY = ("tensorflow", "keras", "tensorflow_serving", "pandas", "sklearn", "matplotlib", "pyarrow", "ray")


def imported(statement):
    """Returns which heavy packages are loaded after a statement, in a fresh interpreter."""
    program = f"{statement}\nimport sys\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True, timeout=120
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    "statement",
    [
        "import keras_selfattn; dir(keras_selfattn)",
        "import keras_selfattn.extras",
        "import keras_selfattn.data",
        "import keras_selfattn.rows.inferred, keras_selfattn.rows.span_schemes",
        "from keras_selfattn.serving.client import Client",
        "import keras_selfattn.serving.errors",
        "import keras_selfattn.plots, keras_selfattn.drawing.style, keras_selfattn.drawing.notebook",
        "import keras_selfattn.cli.compare, keras_selfattn.report.comparison",
        "import keras_selfattn.cli.main",
        "import keras_selfattn.cli.query",
        "from keras_selfattn.batch import predictor; import keras_selfattn.cli.predict",
        "import keras_selfattn.cli.status, keras_selfattn.cli.metadata",
        "import keras_selfattn.machines.ray_cluster",
        "import keras_selfattn.machines.cores, keras_selfattn.machines.free_ports",
        "import benchmarks.commands",
    ],
)
def test_light_parts_load_nothing_heavy(statement):
    assert imported(statement) == "[]"


def test_the_check_above_can_fail():
    assert "pandas" in imported("import pandas")


@pytest.mark.process
def test_layers_import_keras_and_nothing_of_ours_above_them():
    program = (
        "import sys, keras_selfattn.layers\n"
        "found = {n for n in sys.modules if n.startswith('keras_selfattn.') and 'layers' not in n}\n"
        "assert found == {'keras_selfattn.errors', 'keras_selfattn.extras'}, found"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.parametrize(
    ("backend", "where"),
    [
        ("tensorflow", ["tensorflow/__init__.py"]),
        ("jax", ["jax/__init__.py"]),
        ("torch", []),
        ("keras_hub", []),
    ],
)
def test_layers_name_a_backend_in_one_place_or_none(backend, where):
    """They are written in keras.ops: Keras itself decides what is loaded beside the backend asked for.

    Layers of peers are known by their names: whoever has one has imported its package.
    """
    statement = re.compile(rf"^\s*(import|from) {backend}", re.MULTILINE)
    folder = Path(keras_selfattn.layers.__file__).parent
    named = [path for path in folder.rglob("*.py") if statement.search(path.read_text("utf-8"))]
    assert [path.relative_to(folder).as_posix() for path in named] == where


@pytest.mark.parametrize(("room", "name"), [("tensorflow", "tf"), ("jax", "jax")])
def test_layers_use_a_backend_only_by_the_functions_of_its_folder(room, name):
    statement = re.compile(rf"^\s*from keras_selfattn\.layers\.{room} import .*\b{name}\b", re.MULTILINE)
    folder = Path(keras_selfattn.layers.__file__).parent
    named = [path for path in folder.rglob("*.py") if statement.search(path.read_text("utf-8"))]
    assert named
    assert {path.parent for path in named} == {folder / room}


def test_between_a_layer_and_keras_stands_at_most_one_class_of_ours():
    public = [getattr(keras_selfattn.layers, name) for name in keras_selfattn.layers.__all__]
    for kind in (each for each in public if isinstance(each, type)):
        ours = [c for c in kind.__mro__ if "keras_selfattn" in c.__module__]
        assert len(ours) <= 2, ours


def test_no_room_of_the_layers_has_more_than_eighteen_files():
    folder = Path(keras_selfattn.layers.__file__).parent
    rooms = [folder, *(path.parent for path in folder.glob("*/__init__.py"))]
    files = {room.name: len(list(room.glob("*.py"))) for room in rooms}
    assert max(files.values()) <= 18, files


def test_the_steps_of_attention_are_written_once():
    """A layer overrides what differs: how heads are made, or what stands for the softmax."""
    public = [getattr(keras_selfattn.layers, name) for name in keras_selfattn.layers.__all__]
    attending = [kind for kind in public if isinstance(kind, type) and issubclass(kind, AttentionBase)]
    attending.remove(keras_selfattn.layers.MultiHeadCrossAttention)  # whose keys are of another sequence
    assert len(attending) == 4
    for kind in attending:
        assert vars(kind).keys().isdisjoint({"call", "call_tokens", "compute_output_spec"})


def test_a_plain_call_of_attention_passes_at_most_six_files():
    folder = str(Path(keras_selfattn.layers.__file__).parent)
    layer, inputs = keras_selfattn.layers.MultiHeadSelfAttention(2), np.ones((2, 5, 8), "float32")
    passed = set()
    layer(inputs)

    def noted(frame, event, _argument):
        if event == "call" and frame.f_code.co_filename.startswith(folder):
            passed.add(Path(frame.f_code.co_filename).name)

    before = sys.getprofile()
    sys.setprofile(noted)
    try:
        layer(inputs)
    finally:
        sys.setprofile(before)
    assert {"self_attention.py", "attention_paths.py", "attention_math.py"} <= passed
    assert len(passed) <= 6, passed


def test_a_flag_is_checked_in_one_place_of_the_layers_and_one_of_the_configs():
    folder = ROOT / "keras_selfattn"
    rule = "` must be True or False. Received"
    said = [path for path in folder.rglob("*.py") if rule in path.read_text("utf-8")]
    names = sorted(path.relative_to(folder).as_posix() for path in said)
    assert names == ["layers/argument_checks.py", "models/config.py"]


@pytest.mark.process
def test_models_import_layers_and_nothing_of_ours_above_them():
    program = (
        "import sys, keras_selfattn.models\n"
        "above = ('data', 'training', 'export', 'estimators', 'serving', 'cli', 'runs')\n"
        "above = tuple('keras_selfattn.' + name for name in above)\n"
        "found = [n for n in sys.modules if n.startswith(above)]\n"
        "assert found == [], found"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_models_name_a_higher_package_only_in_the_body_of_export():
    """`keras.Model` has `export`; ours must write a SavedModel of raw rows, which `export` alone can."""
    rooms = "data|training|export|estimators|serving|batch|cli"
    above = rf"^( *)(?:from|import) keras_selfattn\.?(?: import )?({rooms})\b"
    folder = ROOT / "keras_selfattn" / "models"
    found = {
        (path.name, *match)
        for path in folder.rglob("*.py")
        for match in re.findall(above, path.read_text("utf-8"), re.MULTILINE)
    }
    assert found == {("raw_model.py", " " * 8, "export")}


def test_between_a_model_and_keras_stand_at_most_five_classes_of_ours():
    from keras_selfattn import models

    public = [getattr(models, name) for name in models.__all__]
    kinds = [each for each in public if isinstance(each, type) and issubclass(each, keras.Model)]
    assert models.TextClassifier in kinds
    for kind in kinds:
        ours = [c for c in kind.__mro__ if "keras_selfattn" in c.__module__]
        assert len(ours) <= 5, ours  # of texts: texts or pairs of them, words, labels, raw rows


def imports_within(package):
    """The modules of a package by name, each with those that it imports: anywhere, for type checkers too."""
    folder = ROOT / package.replace(".", "/")
    paths = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in folder.rglob("*.py")}
    paths = {path: name.removesuffix(".__init__") for path, name in paths.items()}
    found = {name: set() for name in paths.values()}
    for path, name in paths.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert not node.level, f"{name} imports relatively"
                inner = {f"{node.module}.{each.name}" for each in node.names} & set(found)
                found[name] |= inner or {node.module} & set(found)
            elif isinstance(node, ast.Import):
                found[name] |= {each.name for each in node.names} & set(found)
    return found


def test_no_module_of_the_models_imports_one_that_imports_it():
    found = imports_within("keras_selfattn.models")
    assert "keras_selfattn.models.saving.weights_record" in found["keras_selfattn.models.raw_model"]
    graphlib.TopologicalSorter(found).prepare()  # raises a CycleError that names the circle


@pytest.mark.parametrize(
    ("room", "known"),
    [
        ("drawing", {"drawing", "metrics.reliability"}),
        ("plots", {"plots", "drawing", "metrics.reliability", "extras"}),
    ],
)
def test_figures_are_drawn_without_anything_that_computes_them(room, known):
    named = re.compile(r"^\s*from keras_selfattn\.(metrics\.\w+|\w+)", re.MULTILINE)
    files = list((ROOT / "keras_selfattn" / room).glob("*.py"))
    found = {name for path in files for name in named.findall(path.read_text("utf-8"))}
    assert room in found
    assert found <= known


def test_kinds_of_rows_are_below_all_that_ask_them():
    """Models, data, metrics, reports and the client's wheel have them, so they know none of these."""
    named = re.compile(r"^\s*from keras_selfattn\.(\w+)", re.MULTILINE)
    files = list((ROOT / "keras_selfattn" / "rows").glob("*.py"))
    found = {name for path in files for name in named.findall(path.read_text("utf-8"))}
    assert "rows" in found
    assert found <= {"rows", "errors", "user_warnings"}


def test_a_training_writes_a_report_which_shows_metrics_and_nothing_points_back():
    """Imports in functions, and those for types alone, count: they would be a circle to a reader, too."""
    order = ["training", "report", "plots", "drawing", "metrics"]
    found = {room: rooms_named_in(ROOT / "keras_selfattn" / room) for room in order}
    for place, room in enumerate(order):
        assert found[room] & set(order) <= set(order[place:]), room
    assert {"report", "metrics"} <= found["training"]
    assert {"drawing", "metrics"} <= found["report"]
    assert "plots" not in found["training"] | found["report"]
    assert "drawing" not in found["training"]
    assert not found["metrics"] & {"cli", "runs", "estimators"}


def rooms_named_in(folder):
    """Returns the subpackages of ours that the files of a folder import, anywhere in their text."""
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                assert not isinstance(node, ast.ImportFrom), f"a relative import in {path}"
                continue
            found |= {name.split(".")[1] for name in names if name.startswith("keras_selfattn.")}
    return found


def test_models_and_metrics_know_nothing_of_reports():
    named = [
        path
        for room in ("layers", "models", "metrics", "data", "plots", "drawing")
        for path in (ROOT / "keras_selfattn" / room).rglob("*.py")
        if "keras_selfattn.report" in path.read_text("utf-8")
    ]
    assert named == []


def test_what_asks_knows_no_command_line_library_and_what_commands_share_knows_no_command():
    """`asking` and options that are data go into the client's wheel; `cli` reads from its commands down."""
    package = ROOT / "keras_selfattn"
    for path in [*(package / "asking").glob("*.py"), package / "options.py"]:
        assert not re.search(
            r"^\s*(import|from) (click|rich|keras_selfattn\.cli)", path.read_text("utf-8"), re.M
        )
    named = {}
    for path in (package / "cli" / "shared").glob("*.py"):
        found = re.findall(r"^\s*from keras_selfattn\.cli\.(\w+)", path.read_text("utf-8"), re.MULTILINE)
        named[path.name] = set(found) - {"shared"}
    assert named.pop("processes.py") == {"entry"}, "a process of a group is the whole command again"
    assert set().union(*named.values()) == set()
    assert len(named) > 5


def test_nothing_imports_the_estimators():
    """They are the outermost layer, so that scikit-learn's base classes stay out of models and training."""
    named = [
        path
        for folder in ("keras_selfattn", "export", "serving")
        for path in (ROOT / folder).rglob("*.py")
        if "keras_selfattn.estimators" in path.read_text("utf-8") and path.parent.name != "estimators"
    ]
    assert named == []


@pytest.mark.parametrize(
    ("package", "order"),
    [
        (
            "serving/server",
            ["rest", "page", "api", "batching", "workers", "models", "storage", "tflite", "runtime"],
        ),
        (
            "keras_selfattn/models",
            [
                "audio",
                "images",
                "series",
                "sequences",
                "text",
                "tokens",
                "pretrained",
                "pretrained_folders",
                "subwords",
                "batches",
                "heads",
                "core",
                "saving",
            ],
        ),
    ],
)
def test_a_subpackage_imports_only_those_that_come_after_it(package, order):
    folder = ROOT / package
    assert sorted(order) == sorted(path.parent.name for path in folder.glob("*/__init__.py"))
    named = re.compile(rf"^\s*from (?:\.\.|keras_selfattn\.models\.)({'|'.join(order)})\b", re.MULTILINE)
    found = {room: set() for room in order}
    for room in order:
        for path in (folder / room).glob("*.py"):
            found[room] |= set(named.findall(path.read_text("utf-8")))
    assert any(found.values())
    for place, room in enumerate(order):
        assert found[room] <= set(order[place:]), room


def _imports(path, module):
    """Yields the modules that a file names in its imports, in functions and for type checkers, too."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            named = ".".join(filter(None, (base, node.module)))
            yield from (named, *(f"{named}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_two_modules_of_the_server_import_each_other():
    folder = ROOT / "serving" / "server"
    paths = {
        ".".join(("keras_selfattn", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
            ".__init__"
        ): path
        for path in folder.rglob("*.py")
    }
    graph = {
        module: {name for name in _imports(path, module) if name in paths and name != module}
        for module, path in paths.items()
    }
    assert "keras_selfattn.serving.server.server" in graph["keras_selfattn.serving.server.until_stopped"]
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


def test_the_words_of_a_status_that_only_http_has_are_in_one_file():
    folder = ROOT / "serving" / "server"
    made = [
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "HttpError"
    ]
    assert {*made} == {"rest/errors.py"}


def test_the_name_of_the_default_signature_is_written_once():
    written = [
        path.relative_to(ROOT).as_posix()
        for room in ("keras_selfattn", "export", "serving")
        for path in (ROOT / room).rglob("*.py")
        if '"serving_default"' in (text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and node.value == "serving_default"
    ]
    assert written == ["serving/wire/signature_names.py"]


@pytest.mark.process
def test_the_server_works_where_keras_cannot_be_imported():
    program = (
        "import sys\nsys.modules['keras'] = None\n"
        "import keras_selfattn.serving.server.server\n"
        "ours = ('layers', 'models', 'export', 'training', 'data')\n"
        "assert not [n for n in sys.modules if n.startswith(tuple('keras_selfattn.' + o for o in ours))]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_subpackages_load_on_first_use_and_a_wrong_name_is_an_attribute_error():
    import keras_selfattn

    assert keras_selfattn.layers.Encoder
    assert "models" in dir(keras_selfattn)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = keras_selfattn.nothing


def test_a_checkout_without_symbolic_links_imports_what_one_with_them_does(tmp_path):
    """Git on Windows, and archives, leave a text file where a link was."""
    for folder, linked in (("keras_selfattn", ("export", "serving")), ("serving", ())):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", *linked)
        )
        for name in linked:
            (tmp_path / folder / name).write_text(f"../{name}", encoding="utf-8")
    program = "import keras_selfattn.serving.client as client; print(client.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        check=True,
        text=True,
        timeout=120,
    )
    assert Path(done.stdout.strip()) == tmp_path / "serving" / "client" / "__init__.py"

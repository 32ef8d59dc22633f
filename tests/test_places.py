"""A module's tests are found by its name, and each test file is run by one part of `.ci/run`."""

import ast
import configparser
from itertools import chain
from pathlib import Path

from keras_selfattn.extras import MODULES as PACKAGES

ROOT = Path(__file__).parents[1]
TESTS = [path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")]
# `keras_selfattn/export` and `keras_selfattn/serving` are links, whose files come under their own names.
MODULES = {
    path.relative_to(ROOT / "keras_selfattn" if folder == "keras_selfattn" else ROOT)
    for folder in ("keras_selfattn", "export", "serving")
    for path in (ROOT / folder).rglob("*.py")
    if not path.relative_to(ROOT).as_posix().startswith(("keras_selfattn/export/", "keras_selfattn/serving/"))
}


def test_a_test_file_with_the_name_of_a_module_stands_in_its_room():
    assert len(MODULES) > 400
    names = {path.stem for path in MODULES}
    tested = {path: path.with_name(path.name.removeprefix("test_")) for path in TESTS}
    elsewhere = [path for path, module in tested.items() if module.stem in names and module not in MODULES]
    elsewhere = [path for path in elsewhere if path.parts[0] not in {"benchmarks", "examples"}]
    assert elsewhere == [], "These modules are in other rooms: move the tests there, or name them otherwise."


def test_each_test_file_is_in_one_part_of_ci():
    lines = (ROOT / ".ci" / "parts").read_text("utf-8").splitlines()
    places = [place for line in lines if not line.startswith("#") for place in line.split(": ")[1].split()]
    found = [(place, set((ROOT / "tests").glob(place))) for place in places]
    assert [place for place, paths in found if not paths] == []
    for path in TESTS:
        file = ROOT / "tests" / path
        parts = [place for place, paths in found if paths & {file, *file.parents}]
        assert len(parts) == 1, f"{path} is run by {parts or 'no part'}: see .ci/parts"


def _on_path():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", "utf-8")
    return [ROOT / folder for folder in config["tool:pytest"]["pythonpath"].split()]


def _imported(path):
    """Return the names of the modules that a file imports, by their first part."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_what_test_files_import_of_each_other_is_on_the_path():
    """Or they can be imported only after a file that extends the path."""
    files = list((ROOT / "tests").rglob("*.py"))
    here = {path.stem for path in files}
    found = {path.stem for folder in _on_path() for path in folder.glob("*.py")}
    lacking = {path.name: name for path in files for name in _imported(path) if name in here - found}
    assert lacking == {}


def test_no_room_of_tests_on_the_path_has_the_name_of_a_package():
    """Where the package is not installed, the folder would be imported in its place."""
    on_path = _on_path()
    assert ROOT / "tests" in on_path
    packages = set(chain.from_iterable(PACKAGES.values())) | {"torch", "tensorflow", "keras", "numpy"}
    rooms = {
        path.relative_to(ROOT).as_posix() for folder in on_path for path in folder.iterdir() if path.is_dir()
    }
    assert [room for room in rooms if room.rpartition("/")[2] in packages] == []

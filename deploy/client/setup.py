"""Build keras-selfattn-client from the modules of this repository, under an import name of its own.

No file of its wheel is one of keras-selfattn's, so that both can be installed, and each can be removed.
"""

import os
import re
import shutil
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent.resolve()
REPOSITORY = HERE.parents[1]
SOURCES = HERE / "sources"
PACKAGE = SOURCES / "keras_selfattn_client"
# The modules of keras_selfattn that the client's commands import. `serving` comes whole, but for its server.
MODULES = (
    "asking/__init__.py",
    "asking/answer_values.py",
    "asking/asked_rows.py",
    "asking/client_command.py",
    "asking/commands.py",
    "asking/exit_status.py",
    "asking/input_cells.py",
    "asking/query.py",
    "asking/raw_texts.py",
    "data/formats/__init__.py",
    "data/formats/arrow_tables.py",
    "data/formats/arrow_values.py",
    "data/formats/cells.py",
    "data/formats/column_names.py",
    "data/formats/endings.py",
    "data/formats/fasttext_lines.py",
    "data/formats/file_lines.py",
    "data/formats/npz_files.py",
    "data/formats/plain_numbers.py",
    "data/formats/records.py",
    "data/formats/separators.py",
    "data/formats/time_order.py",
    "data/formats/ts_files.py",
    "data/labelled.py",
    "data/series.py",
    "data/series_formats.py",
    "data/texts.py",
    "drawing/__init__.py",
    "drawing/markup.py",
    "drawing/notebook.py",
    "errors.py",
    "extras.py",
    "files/__init__.py",
    "files/atomic.py",
    "files/valid_json.py",
    "options.py",
    "py.typed",
    "rows/__init__.py",
    "rows/containers.py",
    "rows/images.py",
    "rows/inferred.py",
    "rows/kind.py",
    "rows/label_names.py",
    "rows/recordings.py",
    "rows/series.py",
    "rows/sound_files.py",
    "rows/span_schemes.py",
    "rows/targets.py",
    "rows/text_pairs.py",
    "rows/text_spans.py",
    "rows/texts.py",
    "rows/tokens.py",
    "rows/wav_files.py",
    "rows/written_lists.py",
    "user_warnings.py",
)
_IMPORTED = re.compile(r"^(\s*(?:from|import) )keras_selfattn(?=[. ])", re.MULTILINE)
_VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)

# As in ../build_backend.py: the bytes of a wheel depend on the sources alone.
os.environ.setdefault("SOURCE_DATE_EPOCH", "1577836800")
os.umask(0o022)


def copy_sources() -> None:
    """Write `sources` anew, with imports of the other name."""
    for folder in (SOURCES, HERE / "build"):
        shutil.rmtree(folder, ignore_errors=True)
    for module in MODULES:
        target = PACKAGE / module
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / "keras_selfattn" / module, target)
    without = shutil.ignore_patterns("__pycache__", "server", "ray.py")
    shutil.copytree(REPOSITORY / "serving", PACKAGE / "serving", ignore=without)
    shutil.copyfile(HERE / "keras_selfattn.py", SOURCES / "keras_selfattn.py")
    shutil.copyfile(REPOSITORY / "LICENSE", SOURCES / "LICENSE")
    (PACKAGE / "data" / "__init__.py").write_text("", encoding="utf-8")
    for path in PACKAGE.rglob("*.py"):
        path.write_text(_IMPORTED.sub(r"\1keras_selfattn_client", path.read_text("utf-8")), "utf-8")
    version = re.search(
        r'^__version__ = ".+"$', (REPOSITORY / "keras_selfattn/__init__.py").read_text("utf-8"), re.M
    )
    words = '"""The modules of keras_selfattn that a machine needs which only asks; by that name, too."""'
    (PACKAGE / "__init__.py").write_text(f"{words}\n\n{version[0]}\n", "utf-8")


if (REPOSITORY / "serving").is_dir():  # not in a source distribution, which has `sources`
    copy_sources()
setup(
    version=_VERSION.search((PACKAGE / "__init__.py").read_text("utf-8"))[1],
    packages=find_packages(str(SOURCES)),
    py_modules=["keras_selfattn"],
    package_data={"": ["*.proto", "*.pyi", "py.typed"]},
)

"""Readers of files to rows with targets, splits, and the built-in first data set."""

import importlib
from typing import TYPE_CHECKING, Any

from keras_selfattn.data.audio import read_audio
from keras_selfattn.data.graphs import Graph, GraphRows, graph_distances, read_graphs
from keras_selfattn.data.grouped import GroupedRows
from keras_selfattn.data.images import read_images
from keras_selfattn.data.labelled import LabelledRows, split_rows
from keras_selfattn.data.series import read_long_series, read_regression, read_series
from keras_selfattn.data.tagged import read_tagged
from keras_selfattn.data.text_answers import read_answers
from keras_selfattn.data.texts import read_corpus, read_table
from keras_selfattn.data.windows import Windows, cut_windows
from keras_selfattn.extras import require

if TYPE_CHECKING:
    from keras_selfattn.data.quickstart.languages import LanguageRows, language_rows, load_messages
    from keras_selfattn.data.quickstart.multilingual_names import (
        LANGUAGES,
        Name,
        all_names,
        load_names,
        split_by_thing,
    )

__all__ = [
    "LANGUAGES",
    "Graph",
    "GraphRows",
    "GroupedRows",
    "LabelledRows",
    "LanguageRows",
    "Name",
    "Windows",
    "all_names",
    "cut_windows",
    "graph_distances",
    "language_rows",
    "load_messages",
    "load_names",
    "read_answers",
    "read_audio",
    "read_corpus",
    "read_graphs",
    "read_images",
    "read_long_series",
    "read_regression",
    "read_series",
    "read_table",
    "read_tagged",
    "split_by_thing",
    "split_rows",
]

_FIRST_DATA = {
    **dict.fromkeys(("LanguageRows", "language_rows", "load_messages"), "languages"),
    **dict.fromkeys(("LANGUAGES", "Name", "all_names", "load_names", "split_by_thing"), "multilingual_names"),
}


def __getattr__(name: str) -> Any:
    # Imported on first use: only the first data needs an extra of its own, and all commands read files.
    if name in _FIRST_DATA:
        require("quickstart", f"{__name__}.{name}")
        return getattr(importlib.import_module(f"{__name__}.quickstart.{_FIRST_DATA[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

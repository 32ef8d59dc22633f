"""A callable that answers batches of columns, for a job of one's own on Ray, Spark or anything else."""

import functools
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from keras_selfattn.asking.answer_values import answer_columns
from keras_selfattn.asking.input_cells import NamedColumns, input_columns, input_value, stretched
from keras_selfattn.asking.raw_texts import (
    SignatureChoice,
    answers_spans,
    asked_outputs,
    columns_without_rest,
)
from keras_selfattn.batch.length_batches import DEFAULT_BATCH_SIZE, PendingAnswers
from keras_selfattn.batch.model_graph import LoadedGraph, ModelPath, find_model
from keras_selfattn.errors import DataError
from keras_selfattn.rows.recordings import END, START
from keras_selfattn.serving.wire.signature_names import AUDIO, DEFAULT_SIGNATURE

Columns = Mapping[str, Any]


class Predictor:
    """Adds the answers of a model to batches of rows.

    Its pickle has the model's path, not its content. Each process loads the model once, at the first batch,
    however many copies it gets; so the path must lead to the same model on every machine.

    Args:
        model: a run folder, a `.keras` file, or a SavedModel's folder, of one version or of all of them.
        outputs: the outputs to add; by default a classifier's label and score, and all of other models.
        column: the column to read, of a model with one input, or the first texts of a model of pairs; by
            default that of its training, or of the input's name.
        text_pair: the column of the second texts, of a model of pairs; by default as for `column`.
        signature: the signature to call.
        batch_size: the most rows in a call of the graph; those of a batch are sorted by length.

    Call arguments:
        columns: an array or list for each column, all of one length, such as Ray and Spark give them; or
            None for no rows.

    Returns:
        A new dict with the same columns and an array for each output: `predicted_label`, `score`, or the
        output's name (with `predicted_` before it if there is such a column).

    Raises:
        ConfigError: in the first call, for an unknown output.
        DataError: if there is no model at the path; in a call, if a row is no input of the model, or a
            column has the name of an answer.

    Example:

        >>> import tempfile
        >>> from keras_selfattn import models
        >>> small = models.TextConfig(width=8, num_layers=1, num_heads=1, ngram_buckets=64, wide=False)
        >>> model = models.TextClassifier(small, vocabulary=["good", "bad"], labels=["+", "-"])
        >>> folder = tempfile.mkdtemp()
        >>> model.save(f"{folder}/model.keras")
        >>> answered = Predictor(folder)({"id": [7, 8], "text": ["good", "bad"]})
        >>> list(answered), answered["score"].shape
        (['id', 'text', 'predicted_label', 'score'], (2,))
    """

    def __init__(
        self,
        model: str | Path,
        *,
        outputs: Sequence[str] | None = None,
        column: str | None = None,
        text_pair: str | None = None,
        signature: str = DEFAULT_SIGNATURE,
        batch_size: int = DEFAULT_BATCH_SIZE,
    ) -> None:
        self._model = find_model(model)
        self._outputs, self._columns = list(outputs or ()), NamedColumns(column, text_pair)
        self._signature, self._batch_size = signature, batch_size

    def __call__(self, columns: Columns) -> dict[str, Any]:
        names = list(columns)
        rows = len(columns[names[0]]) if names else 0
        graph = loaded(self._model, self._signature)
        added = answer_columns(graph.signature, self._outputs, names, "the batch")
        inputs, of_spans = self._inputs(graph, columns, names), answers_spans(graph.signature)
        asked = asked_outputs(list(added)) if of_spans else list(added)
        with ThreadPoolExecutor(1) as executor:
            found, failed = PendingAnswers(graph, inputs, asked, self._batch_size, executor).result()
        if failed:
            row = min(failed)
            raise DataError(f"row {row} of {rows} (counted from 0): {failed[row]}")
        if of_spans:
            found = columns_without_rest(found, list(added))
        dtypes = {name: graph.signature.outputs[name].dtype for name in added}
        return {**columns, **{added[name]: _array(values, dtypes[name]) for name, values in found.items()}}

    def _inputs(self, graph: LoadedGraph, columns: Columns, names: list[str]) -> dict[str, list[Any]]:
        chosen = input_columns(graph.signature, Path("the batch"), names, self._columns, self._model.columns)
        return {
            name: [
                input_value(graph.signature, name, value, f"row {row} (counted from 0)")
                for row, value in enumerate(_cells(columns, name, source))
            ]
            for name, source in chosen.items()
        }


def predictor(model: str | Path, **options: Any) -> Predictor:
    """Return a callable from a dict of columns to the same with the answers added; see `Predictor`.

    Args:
        model: a run folder, a `.keras` file, or a SavedModel's folder.
        options: those of `Predictor`.

    Raises:
        DataError: if there is no model at the path.

    Example (of Ray):

        ray.data.read_parquet("rows/").map_batches(batch.predictor("models/reviews")).write_parquet("answers/")
    """
    return Predictor(model, **options)


_LOADING = threading.Lock()


def loaded(found: ModelPath, signature: str | SignatureChoice) -> LoadedGraph:
    """Return the model of a path: one for each process, whoever asks, until its content changes."""
    with _LOADING:
        return _loaded(found, signature)


@functools.lru_cache(maxsize=2)
def _loaded(found: ModelPath, signature: str | SignatureChoice) -> LoadedGraph:
    return LoadedGraph(found, signature)


def _cells(columns: Columns, name: str, source: str) -> list[Any]:
    """Return the cells of an input's column, those of recordings with their stretches."""
    cells = [_value(value) for value in columns[source]]
    others = [each for each in (START, END) if each in columns]
    if name != AUDIO or not others:
        return cells
    rows = zip(*(map(_value, columns[each]) for each in others), strict=True)
    return [
        stretched(name, cell, dict(zip(others, row, strict=True)))
        for cell, row in zip(cells, rows, strict=True)
    ]


def _value(value: Any) -> Any:
    """Return a cell of an array, a Series or a list of Arrow values as Python has it."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.as_py() if hasattr(value, "as_py") else value


def _array(values: list[Any], dtype: str) -> np.ndarray:
    """Return the values of an output as one array, of objects if their shapes differ or they are texts."""
    if not values:
        return np.empty(0, dtype=object if dtype == "string" else dtype)
    if isinstance(values[0], np.ndarray) and len({value.shape for value in values}) > 1:
        found = np.empty(len(values), dtype=object)
        found[:] = values
        return found
    return np.array(values, dtype=object if isinstance(values[0], str) else None)

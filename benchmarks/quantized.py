"""Text models as floats, with weights stored in int8, and quantized to int8: accuracy, size and CPU time.

Trained are the quickstart's model of languages, and the default text model on TREC, as it is and without its
linear path. Each is exported four times: as it is, with `precision="int8-weights"` and "int8", and after
`quantize("int8")`. CPU times are medians of rounds in which all four take turns.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.accuracy.ours import config_of
from benchmarks.accuracy.peer import labelled
from benchmarks.accuracy.sets import SETS, shortened
from keras_selfattn import training
from keras_selfattn.cli.quickstart import BATCH_SIZE, EPOCHS, LEARNING_RATE, MODEL_SETTINGS
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.quickstart.languages import language_rows, names_table
from keras_selfattn.export import export_saved_model
from keras_selfattn.models import TextClassifier, TextConfig
from keras_selfattn.tasks import task_named

# A model, and rows that it was not trained on.
Trained = tuple[TextClassifier, LabelledRows]

HEADERS = ("model", "weights", "accuracy", "changed", "MB", "MB of weights", "CPU ms, 1 row", "32 rows")
_FORMS = ("float32", "int8-weights", "int8", "quantize")
_REQUESTS = ((1, 20), (32, 3))  # rows, and how often in a round


def languages(folder: str) -> Trained:
    """Return the quickstart's model, trained, and its held-out names."""
    rows = language_rows(seed=0)
    run = training.train(
        rows.train,
        f"{folder}/languages",
        model=TextClassifier(TextConfig(**MODEL_SETTINGS)),
        config=training.TrainConfig(
            epochs=EPOCHS, batch_size=BATCH_SIZE, learning_rate=LEARNING_RATE, seed=0
        ),
        validation=rows.validation,
        verbose=0,
    )
    return run.model, names_table(rows.held_out)


def trec(
    data: Path, settings: dict[str, Any], quick: bool, folder: str
) -> tuple[TextClassifier, LabelledRows]:
    """Return the default text model with some settings, trained on TREC, and the test rows."""
    task = task_named("text", data)
    splits = next(each for each in SETS if each.name == "trec").read(data / "trec", task)
    split = (shortened(splits) if quick else splits)[0]
    rows = labelled(split)
    config = config_of(task, len(rows), quick=quick)
    run = training.train(
        rows, f"{folder}/trec-{len(settings)}", model=task.model(settings), config=config, verbose=0
    )
    return run.model, split.test


def trained(
    data: Path | None, quick: bool, folder: str
) -> Iterator[tuple[str, TextClassifier, LabelledRows]]:
    """Train each model in turn."""
    yield "languages", *languages(folder)
    if data is not None:
        yield "trec", *trec(data, {}, quick, folder)
        yield "trec, encoder alone", *trec(data, TextClassifier.encoder_only, quick, folder)


def exported(model: TextClassifier, folder: str) -> dict[str, Path]:
    """Export the model in each form; it is quantized then."""
    found = {}
    for form in _FORMS:
        if form == "quantize":
            model.quantize("int8")
        precision = form if form.startswith("int8") else None
        found[form] = Path(export_saved_model(model, Path(folder, form), precision=precision))
    return found


def megabytes(folder: Path, pattern: str) -> float:
    """Return the size of the files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob(pattern) if path.is_file()) / 1e6


def measured(paths: dict[str, Path], rows: LabelledRows, rounds: int) -> Iterator[list[str]]:
    """Yield the figures of each form."""
    loaded = {form: tf.saved_model.load(path) for form, path in paths.items()}
    calls: dict[str, Any] = {form: each.signatures["serving_default"] for form, each in loaded.items()}
    times = {(form, size): [] for form in paths for size, _ in _REQUESTS}
    for _ in range(rounds + 1):
        for form, call in calls.items():
            for size, count in _REQUESTS:
                texts = tf.constant(list(rows.inputs[:size]))
                started = time.process_time()
                for _ in range(count):
                    call(text=texts)
                times[form, size].append(1000 * (time.process_time() - started) / count)
    before = None
    for form, call in calls.items():
        answers = [
            label.decode()
            for start in range(0, len(rows), 256)
            for label in call(text=tf.constant(list(rows.inputs[start : start + 256])))["label"].numpy()
        ]
        before = before or answers
        yield [
            form,
            f"{np.mean(np.equal(answers, rows.targets)):.2%}",
            str(int(np.sum(np.not_equal(answers, before)))),
            *(f"{megabytes(paths[form], pattern):.2f}" for pattern in ("*", "variables.data*")),
            # The first round traces the call.
            *(f"{np.median(times[form, size][1:]):.2f}" for size, _ in _REQUESTS),
        ]


def run(data: Path | None, rounds: int, *, quick: bool) -> Iterator[list[str]]:
    """Train, export and measure; yield the columns of each form, in the order of `HEADERS`."""
    with tempfile.TemporaryDirectory() as folder:
        for name, model, rows in trained(data, quick, folder):
            paths = exported(model, f"{folder}/{name}")
            for figures in measured(paths, rows, rounds):
                yield [name, *figures]

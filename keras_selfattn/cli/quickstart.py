"""`keras-selfattn quickstart`: train, export, serve and query on real data, in one command."""

import csv
import io
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
from rich.text import Text

from keras_selfattn.cli.export import training_of
from keras_selfattn.cli.shared.backend import import_tensorflow
from keras_selfattn.cli.shared.console import columns, console, print_command, report_in_words
from keras_selfattn.cli.shared.panels import COUNT, PATH, Option, PanelCommand
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.quickstart.languages import LanguageRows, language_rows, names_table
from keras_selfattn.data.quickstart.multilingual_names import LANGUAGES, Name, english_name
from keras_selfattn.data.quickstart.sentences import SENTENCES
from keras_selfattn.errors import DataError, ExportError, RunError
from keras_selfattn.extras import require
from keras_selfattn.files.atomic import write_file

if TYPE_CHECKING:
    from keras_selfattn.training import Run

# Case tells languages apart: German capitalises all its nouns, French few of its names.
MODEL_SETTINGS = {
    "tokens": "characters",
    "lowercase": False,
    "max_ngram": 3,
    "width": 64,
    "num_layers": 1,
    "dropout": 0.1,
    "head_dropout": 0.1,
}
# One pass in large batches at a high rate gets as many names right as two at the usual one.
EPOCHS, BATCH_SIZE, LEARNING_RATE = 1, 256, 5e-3
_MODEL = "languages"
_NAMES, _SENTENCES = 10, 2  # in the table of answers
_ANSWERS = 3  # answers for each
_EXPORT_TIMEOUT = 900  # seconds, with those of the export's own check


_PANELS = {
    "Options": (
        Option(
            "--output",
            type=PATH,
            default=Path("quickstart"),
            metavar="FOLDER",
            help="Folder for the run, the model and the figures.",
        ),
        Option("--epochs", type=COUNT, default=EPOCHS, help="Passes over the training texts."),
        Option(
            "--languages", default=str(len(LANGUAGES)), help="How many languages, or which, as in en,de,tr."
        ),
        Option(
            "--seed",
            type=click.IntRange(0, 2**31),
            default=0,
            metavar="N",
            help="Seed of the split, the weights and the order of the texts.",
        ),
    )
}


@click.command("quickstart", cls=PanelCommand, panels=_PANELS)
def command(output: Path, epochs: int, languages: str, seed: int) -> None:
    """Learn the languages of texts; export, serve and ask the model.

    Nothing is downloaded: the texts are names, dates and measures of the Unicode CLDR (in the Babel package),
    messages of Django and lists of frequent words, all of which came with the installation.
    """
    require("quickstart", "`quickstart`")  # importing this module has asked for Babel alone
    if output.exists() and not output.is_dir():
        raise RunError(f"--output must be a folder. {output} is a file; choose another name.")
    seconds: dict[str, float] = {}
    with _timed("data", seconds):
        codes = _chosen(languages)
        rows = language_rows(codes, seed)
        shown = _shown(codes, rows.held_out, seed)
    # Each choice of languages has a model name of its own: a running server loads new versions of its name.
    model = _MODEL if tuple(codes) == LANGUAGES else "-".join([_MODEL, *codes])
    console.print(
        f"{len(set(rows.train.targets))} languages: names, messages and composed texts; "
        f"{len(rows.held_out):,} names held out. To be asked afterwards, and seen in no training:"
    )
    console.print(f"  {', '.join(shown.inputs)}", highlight=False)
    with _timed("TensorFlow", seconds):
        import_tensorflow("sklearn.metrics", batches=True)
    with _timed("training", seconds):
        run = _train(output, rows, epochs, seed)
    with _timed("export and check", seconds), console.status("Exporting, and checking the export"):
        version = _export(run, output, model)
    with _timed("serving and asking", seconds):
        probabilities = _ask(version.parent, model, shown.inputs)
    _print_answers(shown, run.model.labels, probabilities)
    _save(output, run, rows.held_out)
    figures = run.figures.summary()
    console.print(
        f"{figures['accuracy']:.1%} of {run.figures.rows:,} held-out names are given to the right "
        f"language (macro F1 {figures['macro_f1']:.3f}).",
        style="bold",
    )
    console.print("Seconds: " + ", ".join(f"{stage} {spent:.1f}" for stage, spent in seconds.items()))
    _print_next(output, run, version, shown)


def _shown(codes: Sequence[str], held_out: Sequence[Name], seed: int) -> LabelledRows:
    """Return the texts to ask: sentences, of the first language and of others, and held-out names."""
    draw = random.Random(seed)
    names = draw.sample(held_out, min(_NAMES, len(held_out)))
    known = [code for code in codes if code in SENTENCES]
    asked = known[:1] + draw.sample(known[1:], min(_SENTENCES - 1, len(known[1:])))
    texts = [SENTENCES[code] for code in asked] + [name.text for name in names]
    return LabelledRows(texts, asked + [name.language for name in names], "sentences and held-out names")


def _chosen(languages: str) -> Sequence[str]:
    """Return language codes from "50" or "en,de,tr"."""
    text = languages.strip()
    if not text.isdecimal():
        return [code.strip().lower() for code in text.split(",") if code.strip()]
    if not 2 <= int(text) <= len(LANGUAGES):
        raise DataError(
            f"--languages must be a number from 2 to {len(LANGUAGES)}, or codes such as en,de,tr. "
            f"Received {text}."
        )
    return LANGUAGES[: int(text)]


def _train(output: Path, rows: LanguageRows, epochs: int, seed: int) -> "Run":
    from keras_selfattn import training
    from keras_selfattn.cli.shared.progress import TrainingProgress
    from keras_selfattn.models import TextClassifier, TextConfig

    console.print(f"Training on {len(rows.train):,} texts")
    with TrainingProgress() as progress:
        return training.train(
            rows.train,
            _next_run(output / "runs"),
            model=TextClassifier(TextConfig(**MODEL_SETTINGS)),
            config=training.TrainConfig(
                epochs=epochs, batch_size=BATCH_SIZE, learning_rate=LEARNING_RATE, seed=seed
            ),
            validation=rows.validation,
            test=names_table(rows.held_out),
            callbacks=[progress],
            verbose=0,
        )


def _export(run: "Run", output: Path, model: str) -> Path:
    import keras

    base_path = output / "models" / model
    if keras.backend.backend() == "tensorflow":
        from keras_selfattn.export import export_saved_model

        return Path(export_saved_model(run.model, base_path, training=training_of(run.path)))
    from keras_selfattn.export.versions import list_versions

    # Only a process of its own can compute with TensorFlow.
    program = "from keras_selfattn.cli.entry import main; main()"
    words = [sys.executable, "-c", program, "export", str(run.path), str(base_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=_EXPORT_TIMEOUT, check=False)
    if done.returncode:
        raise ExportError(f"The export failed. {done.stderr.strip()}")
    return base_path / str(max(list_versions(base_path)))


def _ask(base_path: Path, model: str, texts: Sequence[str]) -> np.ndarray:
    """Serve the newest version on a free port and return the answers to texts, `[texts, languages]`."""
    from keras_selfattn.serving.client import Client
    from keras_selfattn.serving.server import Server, ServerConfig
    from keras_selfattn.serving.wire.signature_names import PROBABILITIES

    config = ServerConfig(model_name=model, model_base_path=str(base_path.resolve()), port=0)
    with Server(config) as server, Client(server.target, model=model) as client:
        client.wait_until_ready(timeout=30)
        console.print(f"Asking the server at {server.target} through the gRPC client:")
        return client.predict({"text": list(texts)})[PROBABILITIES]


def _print_answers(shown: LabelledRows, labels: Sequence[str], probabilities: np.ndarray) -> None:
    table = columns(None, "text", "is", *(f"answer {place}" for place in range(1, _ANSWERS + 1)))
    for text, language, row in zip(shown.inputs, shown.targets, probabilities, strict=True):
        best: list[int] = np.argsort(-row)[:_ANSWERS].tolist()
        answers = [Text(f"{english_name(labels[index])} {row[index]:.0%}") for index in best]
        answers[0].stylize("green" if labels[best[0]] == language else "red")
        answers += [Text()] * (_ANSWERS - len(answers))
        table.add_row(text, english_name(language), *answers)
    console.print(table)


def _save(output: Path, run: "Run", held_out: Sequence[Name]) -> None:
    """Put the figures at the top of `output`, and the held-out names, as a table, beside the model."""
    write_file(output / "metrics.json", (run.path / "metrics.json").read_bytes())
    content = io.StringIO(newline="")
    writer = csv.writer(content)
    writer.writerow(["text", "label"])
    writer.writerows((name.text, name.language) for name in held_out)
    write_file(run.path / "held-out.csv", content.getvalue().encode())


def _print_next(output: Path, run: "Run", version: Path, shown: LabelledRows) -> None:
    model, texts = version.parent.name, list(shown.inputs[:2])
    console.print(
        f"Run: {run.path}   SavedModel: {version}   figures: {output / 'metrics.json'}", soft_wrap=True
    )
    console.print("Try it in your browser, and see which letters decide an answer:", style="bold")
    print_command("open", version.parent)
    console.print("Look into the SavedModel, and serve it again:")
    print_command("inspect", version)
    print_command("serve", f"--model_name={model}", f"--model_base_path={version.parent}")
    console.print("Ask it from another terminal, or from Python, which needs no TensorFlow for that:")
    print_command("query", model, *texts)
    console.print("  from keras_selfattn.serving.client import Client", highlight=False)
    call = f'Client("localhost:8500", model="{model}").classify({texts!r})'
    console.print(f"  print({call})", soft_wrap=True, highlight=False)
    console.print("The figures once more:")
    print_command("evaluate", run.path, run.path / "held-out.csv")
    console.print("A model of your own texts, in a file with the columns text and label:")
    print_command("train", "YOURS.csv", "--text", "text", "--label", "label", "--output", "runs/yours")
    if report := report_in_words(run.path):
        console.print(f"{report.strip()} It shows where the model is wrong.", soft_wrap=True)


def _next_run(runs: Path) -> Path:
    taken = [int(child.name) for child in runs.iterdir() if child.name.isdecimal()] if runs.is_dir() else []
    return runs / str(max(taken, default=0) + 1)


@contextmanager
def _timed(stage: str, seconds: dict[str, float]) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[stage] = time.perf_counter() - started

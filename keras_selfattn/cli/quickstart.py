"""`keras-selfattn quickstart`: train, export, serve and query on real data, in one command."""

import csv
import io
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
from rich.text import Text

from keras_selfattn.atomic import write_file
from keras_selfattn.cli.console import columns, console, import_tensorflow, print_command
from keras_selfattn.cli.export import training_of
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.data.names import LANGUAGES, Name, english_name, load_names, split_by_thing
from keras_selfattn.errors import DataError, RunError

if TYPE_CHECKING:
    from keras_selfattn.training import Run

# Case tells languages apart: German writes its nouns in upper case, French few of its names.
MODEL_SETTINGS = {
    "tokens": "characters",
    "lowercase": False,
    "max_ngram": 3,
    "width": 96,
    "num_layers": 2,
    "dropout": 0.1,
    "head_dropout": 0.1,
}
EPOCHS = 3
BATCH_SIZE = 128
HELD_OUT = 0.1  # share of the things named that the figures are measured on; a tenth of the rest validates
_MODEL = "names"
_SHOWN = 12  # names in the table of answers
_ANSWERS = 3  # answers for each


@click.command("quickstart")
@click.option(
    "--output", type=click.Path(path_type=Path), default=Path("quickstart"), help="Folder for all of it."
)
@click.option("--epochs", type=click.IntRange(min=1), default=EPOCHS, help="Passes over the training names.")
@click.option(
    "--languages",
    default=str(len(LANGUAGES)),
    help='How many of the built-in languages, or which: "en,de,tr".',
)
@click.option("--seed", type=click.IntRange(0, 2**31), default=0, help="Of split, weights and order.")
def command(output: Path, epochs: int, languages: str, seed: int) -> None:
    """Learn which language a name is written in; export, serve and ask the model.

    The names are those of languages, territories, scripts, currencies, cities and time zones in the Unicode
    CLDR, which comes with the Babel package. Nothing is downloaded.
    """
    if output.exists() and not output.is_dir():
        raise RunError(f"--output must be a folder. {output} is a file; choose another name.")
    seconds: dict[str, float] = {}
    with _timed("data", seconds):
        codes = _chosen(languages)
        names = load_names(codes)
        kept, held_out = split_by_thing(names, HELD_OUT, seed)
        shown = random.Random(seed).sample(held_out, min(_SHOWN, len(held_out)))
    count = len({name.language for name in names})
    # Models of other languages stay apart: a running server takes the next version of its own only.
    model = _MODEL if tuple(codes) == LANGUAGES else "-".join([_MODEL, *codes])
    console.print(f"{len(names):,} names in {count} languages, {len(held_out):,} held out. Some of those:")
    console.print(f"  {', '.join(name.text for name in shown)}", highlight=False)
    with _timed("TensorFlow", seconds):
        import_tensorflow()
    with _timed("training", seconds):
        run = _train(output, kept, held_out, epochs, seed)
    with _timed("export and check", seconds), console.status("Exporting, and checking the export"):
        version = _export(run, output, model)
    with _timed("serving and asking", seconds):
        probabilities = _ask(version.parent, model, shown)
    _print_answers(shown, run.model.labels, probabilities)
    _save(output, run, held_out)
    figures = run.figures.summary()
    console.print(
        f"{figures['accuracy']:.1%} of {run.figures.rows:,} held-out names are given to the right "
        f"language (macro F1 {figures['macro_f1']:.3f}).",
        style="bold",
    )
    console.print("Seconds: " + ", ".join(f"{stage} {spent:.1f}" for stage, spent in seconds.items()))
    _print_next(output, run, version, shown)


def _chosen(languages: str) -> Sequence[str]:
    """Returns language codes from "50" or "en,de,tr"."""
    text = languages.strip()
    if not text.isdecimal():
        return [code.strip().lower() for code in text.split(",") if code.strip()]
    if not 2 <= int(text) <= len(LANGUAGES):
        raise DataError(
            f"--languages must be a number from 2 to {len(LANGUAGES)}, or codes such as en,de,tr. "
            f"Received {text}."
        )
    return LANGUAGES[: int(text)]


def _train(output: Path, kept: Sequence[Name], held_out: Sequence[Name], epochs: int, seed: int) -> "Run":
    from keras_selfattn import training
    from keras_selfattn.cli.progress import TrainingProgress
    from keras_selfattn.models import TextClassifier, TextConfig

    rows, validation = split_by_thing(kept, HELD_OUT, seed + 1)
    console.print(f"Training on {len(rows):,} names")
    with TrainingProgress() as progress:
        return training.train(
            names_table(rows),
            _next_run(output / "runs"),
            model=TextClassifier(TextConfig(**MODEL_SETTINGS)),
            config=training.TrainConfig(epochs=epochs, batch_size=BATCH_SIZE, seed=seed),
            validation=names_table(validation),
            test=names_table(held_out),
            callbacks=[progress],
            verbose=0,
        )


def _export(run: "Run", output: Path, model: str) -> Path:
    from keras_selfattn.export import export_saved_model

    return export_saved_model(run.model, output / "models" / model, training=training_of(run.path))


def _ask(base_path: Path, model: str, names: Sequence[Name]) -> np.ndarray:
    """Serves the newest version on a free port and returns the answers to names, `[names, languages]`."""
    from keras_selfattn.serving.client import Client
    from keras_selfattn.serving.server import Server, ServerConfig

    config = ServerConfig(model_name=model, model_base_path=str(base_path.resolve()), port=0)
    with Server(config) as server, Client(server.target, model=model) as client:
        client.wait_until_ready(timeout=30)
        console.print(f"Asking the server at {server.target} through the gRPC client:")
        return client.predict({"text": [name.text for name in names]})["probabilities"]


def _print_answers(names: Sequence[Name], labels: Sequence[str], probabilities: np.ndarray) -> None:
    table = columns(None, "name", "is", *(f"answer {place}" for place in range(1, _ANSWERS + 1)))
    for name, row in zip(names, probabilities, strict=True):
        best: list[int] = np.argsort(-row)[:_ANSWERS].tolist()
        answers = [Text(f"{english_name(labels[index])} {row[index]:.0%}") for index in best]
        answers[0].stylize("green" if labels[best[0]] == name.language else "red")
        answers += [Text()] * (_ANSWERS - len(answers))
        table.add_row(name.text, english_name(name.language), *answers)
    console.print(table)


def _save(output: Path, run: "Run", held_out: Sequence[Name]) -> None:
    """Puts the figures at the top of `output`, and the held-out names, as a table, beside the model."""
    write_file(output / "metrics.json", (run.path / "metrics.json").read_bytes())
    content = io.StringIO(newline="")
    writer = csv.writer(content)
    writer.writerow(["text", "label"])
    writer.writerows((name.text, name.language) for name in held_out)
    write_file(run.path / "held-out.csv", content.getvalue().encode())


def _print_next(output: Path, run: "Run", version: Path, shown: Sequence[Name]) -> None:
    model, texts = version.parent.name, [name.text for name in shown[:2]]
    console.print(
        f"Run: {run.path}   SavedModel: {version}   figures: {output / 'metrics.json'}", soft_wrap=True
    )
    console.print("Look into the SavedModel, and serve it again:")
    print_command("inspect", version)
    print_command("serve", f"--model_name={model}", f"--model_base_path={version.parent}")
    console.print("Ask it from another terminal, or from Python, which needs no TensorFlow for that:")
    print_command("query", model, *texts)
    console.print("  from keras_selfattn.serving.client import Client", highlight=False)
    call = f'Client("localhost:8500", model="{model}").classify({texts!r})'
    console.print(f"  print({call})", soft_wrap=True, highlight=False)
    console.print("The figures once more, and a model of your own texts:")
    print_command("evaluate", run.path, run.path / "held-out.csv")
    print_command("train", "reviews.csv", "--text", "text", "--label", "label", "--output", "runs/reviews")


def _next_run(runs: Path) -> Path:
    taken = [int(child.name) for child in runs.iterdir() if child.name.isdecimal()] if runs.is_dir() else []
    return runs / str(max(taken, default=0) + 1)


def names_table(names: Sequence[Name]) -> LabelledRows:
    """Returns names as texts labelled with their languages."""
    texts = [name.text for name in names]
    return LabelledRows(texts, [name.language for name in names], "the CLDR names in Babel")


@contextmanager
def _timed(stage: str, seconds: dict[str, float]) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[stage] = time.perf_counter() - started

"""`keras-selfattn pretrain`: texts without labels to a run folder that `train --from` begins with."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_selfattn.cli.shared.backend import import_tensorflow
from keras_selfattn.cli.shared.console import console, print_command, report_in_words
from keras_selfattn.cli.shared.panels import COUNT, PATH, Option, PanelCommand, click_option
from keras_selfattn.cli.shared.task_options import (
    OUTPUT,
    RESUME,
    SEED,
    TRAINING,
    advised_config,
    check_place,
    check_start,
    check_width,
    encoder_options,
    fetch_weights,
    given,
    located_start,
    pretraining_settings,
)
from keras_selfattn.data.formats.endings import ending_of
from keras_selfattn.data.texts import read_corpus
from keras_selfattn.errors import ConfigError
from keras_selfattn.files.hub_folders import HubFolder
from keras_selfattn.options import NO_HEADER, REVISION, SEPARATOR

if TYPE_CHECKING:
    from keras_selfattn.models import MaskedTokenModel

# Rows whose pieces are counted for the line about the start.
_TOLD = 1_000
_PANELS = {
    "Most used": (
        *OUTPUT,
        Option("--text", default="text", metavar="COLUMN", help="Column with the texts, of tables."),
        SEPARATOR,
        NO_HEADER,
        Option(
            "--validation",
            "validation_file",
            type=PATH,
            help="File of texts on which the best epoch is chosen.",
            without="a tenth of CORPUS, 2000 texts at most",
        ),
        Option(
            "--from",
            "start",
            metavar="MODEL",
            help="Go on with a pretrained model's folder, such as BERT's or MiniLM's, or with its name in "
            "the Hugging Face hub, or with such a run.",
        ),
        click_option(REVISION),
    ),
    "Model": (*pretraining_settings(), *encoder_options("128", "1", "0.1")),
    "Training": (
        Option("--epochs", type=COUNT, help="Passes over the texts.", without="1 to 40, by their number"),
        Option("--batch-size", type=COUNT, help="Rows in a step.", without="64; with --from 32"),
        Option(
            "--learning-rate",
            type=click.FloatRange(0, min_open=True),
            metavar="RATE",
            help="Highest learning rate of the schedule.",
            without="0.002; with --from 0.0001",
        ),
        RESUME,
        SEED,
    ),
}


@click.command("pretrain", cls=PanelCommand, panels=_PANELS)
@click.argument("corpus", type=PATH, nargs=-1, required=True)
def command(
    corpus: tuple[Path, ...],
    text: str,
    separator: str | None,
    has_header: bool | None,
    output: Path,
    validation_file: Path | None,
    overwrite: bool,
    resume: bool,
    start: str | None,
    revision: str | None,
    **options: Any,
) -> None:
    """Learn language from CORPUS, texts without labels.

    CORPUS is .txt files with a text a line, or .csv, .tsv and .jsonl files with a column of texts. The model
    learns to guess words that are hidden from it. `train --from` begins with the result. With --from, a
    pretrained model goes on learning, from texts like those that it is for.
    """
    check_place(output, overwrite, resume)
    settings = given(options, options.keys() - {*TRAINING})
    place = None
    if start is not None:
        place = located_start(start, revision)
    elif revision is not None:
        raise ConfigError("--revision needs --from with a name in the Hugging Face hub.")
    else:
        check_width(settings)
    form = {"separator": separator, "has_header": has_header}
    reading = {"text": text, **given(form, form)}
    texts = [each for file in corpus for each in _texts(file, reading)]
    validation = None if validation_file is None else _texts(validation_file, reading)
    import_tensorflow("sklearn.metrics", batches=True)
    if place is not None:
        fetch_weights(place)
    from keras_selfattn import training
    from keras_selfattn.cli.shared.progress import TrainingProgress
    from keras_selfattn.cli.shared.report_tables import print_report
    from keras_selfattn.models import MaskedTokenModel
    from keras_selfattn.models.long_rows import windows

    texts = list(windows(texts))
    model = MaskedTokenModel(settings) if place is None else _begun(place, settings, texts)
    config = advised_config(model, len(texts), given(options, TRAINING))
    source = ", ".join(map(str, corpus))
    console.print(f"Pretraining on {len(texts):,} rows of {source}")
    with TrainingProgress() as progress:
        run = training.pretrain(
            texts,
            output,
            model=model,
            config=config,
            validation=validation,
            source=source,
            reading=reading,
            overwrite=overwrite,
            resume=resume,
            callbacks=[progress],
            verbose=0,
            report=console.print,
        )
    print_report(run.figures, "validation")
    console.print(
        f"Trained in {run.seconds:.0f} s and kept the weights of epoch {run.best_epoch}. The run is in "
        f"{run.path}.{report_in_words(run.path)} Train a classifier that begins with it:"
    )
    print_command("train", "TABLE", "--from", run.path, "--output", f"{run.path}-classifier")


def _begun(start: Path | HubFolder, settings: dict[str, Any], texts: list[str]) -> "MaskedTokenModel":
    """Return the model that begins with a pretrained one, and say what is taken over."""
    from keras_selfattn.models import MaskedTokenModel
    from keras_selfattn.models.text.masked_model import pretrained_encoder

    begun = pretrained_encoder(start)
    check_start(begun, settings)
    console.print(begun.described(texts[:_TOLD]))
    head = (
        "a new head for hidden pieces, since none of its own can be read"
        if begun.new_head
        else "its head, too"
    )
    console.print(f"The model begins with {head}.")
    return MaskedTokenModel(settings, start=begun)


def _texts(file: Path, reading: dict[str, Any]) -> list[str]:
    """Return the texts of a file; there may be tables among others, whose form is theirs alone."""
    separated = ending_of(file) in (".csv", ".tsv")
    return read_corpus(file, **(reading if separated else {"text": reading["text"]}))

"""`keras-selfattn pretrain`: texts without labels to a run folder that `train --from` begins with."""

from pathlib import Path
from typing import Any

import click

from keras_selfattn.cli.console import console, import_tensorflow, print_command
from keras_selfattn.cli.task_options import check_width, pretraining_options, separator_option
from keras_selfattn.cli.training_options import advised_config, taken, training_options
from keras_selfattn.data.corpus import read_corpus
from keras_selfattn.run_folder import check_output


@click.command("pretrain")
@click.argument("corpus", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--text", default="text", help="Column with the texts, of tables.")
@separator_option
@training_options(
    validation="File of texts that decides which weights to keep.  [default: a tenth, 2,000 texts at most]",
    epochs="Passes over the texts.  [default: after their number, 2 to 40]",
    batch_size="64",
    learning_rate="0.002",
)
@pretraining_options
@click.option(
    "--dropout", type=click.FloatRange(0, 1, max_open=True), help="Share dropped in training.  [default: 0.1]"
)
def command(
    corpus: tuple[Path, ...],
    text: str,
    separator: str | None,
    output: Path,
    validation_file: Path | None,
    overwrite: bool,
    **options: Any,
) -> None:
    """Learn language from CORPUS, texts without labels, by guessing words hidden from them: .txt files with a
    text a line, or .csv, .tsv and .jsonl files with a column of texts. `train --from` begins with the result.
    """
    check_output(output, overwrite=overwrite)
    given = taken(options)
    check_width(options)
    texts = [each for file in corpus for each in _texts(file, text, separator)]
    validation = None if validation_file is None else _texts(validation_file, text, separator)
    import_tensorflow()
    from keras_selfattn import training
    from keras_selfattn.cli.figures import print_report
    from keras_selfattn.cli.progress import TrainingProgress
    from keras_selfattn.models import MaskedTokenModel
    from keras_selfattn.models.text.masked_model import windows

    texts = list(windows(texts))
    model = MaskedTokenModel({name: value for name, value in options.items() if value is not None})
    config = advised_config(model, len(texts), given)
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
            reading={"text": text} | ({} if separator is None else {"separator": separator}),
            overwrite=overwrite,
            callbacks=[progress],
            verbose=0,
        )
    print_report(run.figures, "validation")
    console.print(
        f"Trained in {run.seconds:.0f} s and kept the weights of epoch {run.best_epoch}. The run is in "
        f"{run.path}. Train a classifier that begins with it:"
    )
    print_command("train", "TABLE", "--from", run.path, "--output", f"{run.path}-classifier")


def _texts(file: Path, text: str, separator: str | None) -> list[str]:
    """Return the texts of a file; beside tables that need a separator there may be files that have none."""
    separated = file.suffix.lower() in (".csv", ".tsv")
    return read_corpus(file, text, separator=separator if separated else None)

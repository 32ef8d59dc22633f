"""`keras-selfattn pretrain`: texts without labels to a run folder that `train --from` begins with."""

from pathlib import Path
from typing import Any

import click

from keras_selfattn.cli.console import console, import_tensorflow, print_command
from keras_selfattn.cli.task_options import advised_config, check_width, pretraining_options
from keras_selfattn.data.corpus import read_corpus

_COUNT = click.IntRange(min=1)


@click.command("pretrain")
@click.argument("corpus", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--text", default="text", help="Column with the texts, of tables.")
@click.option("--output", type=click.Path(path_type=Path), required=True, help="The run folder to write.")
@click.option(
    "--validation",
    "validation_file",
    type=click.Path(path_type=Path),
    help="File of texts that decides which weights to keep.  [default: a tenth of the texts, 2,000 at most]",
)
@click.option("--epochs", type=_COUNT, help="Passes over the texts.  [default: after their number, 2 to 40]")
@click.option("--batch-size", type=_COUNT, help="Rows in a training step.  [default: 64]")
@click.option(
    "--learning-rate",
    type=click.FloatRange(0, min_open=True),
    help="Peak of the learning rate's schedule.  [default: 0.002]",
)
@pretraining_options
@click.option(
    "--dropout", type=click.FloatRange(0, 1, max_open=True), help="Share dropped in training.  [default: 0.1]"
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, help="The same seed gives the same result."
)
@click.option("--overwrite", is_flag=True, help="Replace an existing run folder once the new one is whole.")
def command(
    corpus: tuple[Path, ...],
    text: str,
    output: Path,
    validation_file: Path | None,
    epochs: int | None,
    batch_size: int | None,
    learning_rate: float | None,
    seed: int,
    overwrite: bool,
    **settings: Any,
) -> None:
    """Learn language from CORPUS, texts without labels, by guessing words hidden from them: .txt files with a
    text a line, or .csv, .tsv and .jsonl files with a column of texts. `train --from` begins with the result.
    """
    check_width(settings)
    texts = [each for file in corpus for each in read_corpus(file, text)]
    validation = None if validation_file is None else read_corpus(validation_file, text)
    import_tensorflow()
    from keras_selfattn import pretraining
    from keras_selfattn.cli.figures import print_report
    from keras_selfattn.cli.progress import TrainingProgress
    from keras_selfattn.models import MaskedTokenModel
    from keras_selfattn.models.masked import windows

    texts = list(windows(texts))
    model = MaskedTokenModel({name: value for name, value in settings.items() if value is not None})
    given = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate, "seed": seed}
    config = advised_config(model, len(texts), given)
    source = ", ".join(map(str, corpus))
    console.print(f"Pretraining on {len(texts):,} rows of {source}")
    with TrainingProgress() as progress:
        run = pretraining.pretrain(
            texts,
            output,
            model=model,
            config=config,
            validation=validation,
            source=source,
            reading={"text": text},
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

"""`keras-selfattn train`: a table of labelled texts to a run folder."""

from pathlib import Path

import click

from keras_selfattn.cli.console import console, import_tensorflow, print_command
from keras_selfattn.errors import ConfigError

_COUNT = click.IntRange(min=1)


@click.command("train")
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--text", default="text", help="Column with the texts.")
@click.option("--label", default="label", help="Column with the labels.")
@click.option("--output", type=click.Path(path_type=Path), required=True, help="The run folder to write.")
@click.option(
    "--validation",
    "validation_file",
    type=click.Path(path_type=Path),
    help="Table with the same columns that decides when to stop.  [default: a tenth of TABLE]",
)
@click.option(
    "--tokens", type=click.Choice(["words", "characters"]), default="words", help="What a token is."
)
@click.option("--keep-case", is_flag=True, help="Tell upper from lower case.")
@click.option(
    "--epochs", type=_COUNT, default=20, help="Passes over the rows, at most; stops early on validation loss."
)
@click.option("--batch-size", type=_COUNT, default=64, help="Rows in a training step.")
@click.option(
    "--learning-rate",
    type=click.FloatRange(0, min_open=True),
    default=1e-3,
    help="Peak of the learning rate's schedule.",
)
@click.option("--width", type=_COUNT, default=128, help="Features of a token.")
@click.option("--layers", "num_layers", type=_COUNT, default=2, help="Encoder blocks.")
@click.option("--heads", "num_heads", type=_COUNT, default=4, help="Attention heads.")
@click.option(
    "--dropout", type=click.FloatRange(0, 1, max_open=True), default=0.1, help="Share dropped in training."
)
@click.option("--max-tokens", type=_COUNT, default=4096, help="Longer texts are cut at the end.")
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, help="The same seed gives the same result."
)
@click.option("--overwrite", is_flag=True, help="Replace an existing run folder once the new one is whole.")
def command(
    table: Path,
    text: str,
    label: str,
    output: Path,
    validation_file: Path | None,
    tokens: str,
    keep_case: bool,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    width: int,
    num_layers: int,
    num_heads: int,
    dropout: float,
    max_tokens: int,
    seed: int,
    overwrite: bool,
) -> None:
    """Train a classifier on TABLE, a .csv, .tsv or .jsonl file with a text and a label column."""
    from keras_selfattn.data.tables import check_classes, read_table

    if width % num_heads:
        raise ConfigError(f"--width must be divisible by --heads. Received {width} and {num_heads}.")
    rows = read_table(table, text, label)
    validation = None if validation_file is None else read_table(validation_file, text, label)
    check_classes(rows)
    import_tensorflow()
    from keras_selfattn import training
    from keras_selfattn.cli.figures import print_report
    from keras_selfattn.cli.progress import TrainingProgress
    from keras_selfattn.models import TextConfig

    model_config = TextConfig(
        tokens=tokens,  # pyright: ignore[reportArgumentType]  click has checked the choice
        lowercase=not keep_case,
        max_tokens=max_tokens,
        width=width,
        num_layers=num_layers,
        num_heads=num_heads,
        dropout=dropout,
    )
    config = training.TrainConfig(
        epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, seed=seed
    )
    console.print(f"Training on {len(rows):,} rows of {table}, {len(set(rows.labels)):,} classes")
    with TrainingProgress() as progress:
        run = training.train(
            rows,
            output,
            model_config=model_config,
            config=config,
            validation=validation,
            overwrite=overwrite,
            callbacks=[progress],
            verbose=0,
        )
    print_report(run.figures, "validation")
    console.print(
        f"Trained in {run.seconds:.0f} s and kept the weights of epoch {run.best_epoch}, the one of lowest "
        f"validation loss. The run is in {run.path}. Go on with:"
    )
    print_command("export", run.path, f"models/{run.path.name}")

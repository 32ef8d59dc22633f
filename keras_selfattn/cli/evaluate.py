"""`keras-selfattn evaluate`: how good a run is on a table it has not seen."""

from pathlib import Path

import click

from keras_selfattn.cli.console import import_tensorflow


@click.command("evaluate")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--text", default="text", help="Column with the texts.")
@click.option("--label", default="label", help="Column with the labels.")
def command(run: Path, table: Path, text: str, label: str) -> None:
    """Print accuracy, macro F1 and mistakes of RUN, a run folder, on TABLE."""
    from keras_selfattn.data.tables import read_table

    rows = read_table(table, text, label)
    import_tensorflow()
    from keras_selfattn import training
    from keras_selfattn.cli.figures import print_report
    from keras_selfattn.runs import load_run

    print_report(training.evaluate(load_run(run), rows), str(table))

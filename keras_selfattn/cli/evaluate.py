"""`keras-selfattn evaluate`: how good a run is on a file it has not seen."""

from pathlib import Path
from typing import Any

import click

from keras_selfattn.cli.console import import_tensorflow
from keras_selfattn.cli.task_options import reading_options


@click.command("evaluate")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("table", type=click.Path(path_type=Path))
@reading_options
def command(run: Path, table: Path, **reading: Any) -> None:
    """Print figures and mistakes of RUN, a run folder, on TABLE, a file of the form it was trained on."""
    from keras_selfattn.runs import task_of_run

    rows = task_of_run(run).rows(table, reading)
    import_tensorflow()
    from keras_selfattn import training
    from keras_selfattn.cli.figures import print_report
    from keras_selfattn.runs import load_run

    print_report(training.evaluate(load_run(run), rows), str(table))

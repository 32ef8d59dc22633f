"""`keras-selfattn evaluate`: how good a run is on a file it has not seen."""

from pathlib import Path
from typing import Any

import click

from keras_selfattn.cli.console import import_tensorflow
from keras_selfattn.cli.task_options import given, reading_options


@click.command("evaluate")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("table", type=click.Path(path_type=Path))
@reading_options
def command(run: Path, table: Path, **reading: Any) -> None:
    """Print figures and mistakes of RUN, a run folder, on TABLE, a file of the form it was trained on.

    Columns are those of the training unless they are named.
    """
    from keras_selfattn.runs import corpus_for_run, is_pretrained, rows_for_run

    pretrained = is_pretrained(run)
    rows: Any = (corpus_for_run if pretrained else rows_for_run)(run, table, given(reading))
    import_tensorflow()
    from keras_selfattn import pretraining, training
    from keras_selfattn.cli.figures import print_report
    from keras_selfattn.runs import load_run

    evaluate: Any = pretraining.evaluate if pretrained else training.evaluate
    print_report(evaluate(load_run(run), rows), str(table))

"""`keras-selfattn evaluate`: how good a run is on a file it has not seen."""

from pathlib import Path
from typing import Any

import click

from keras_selfattn.cli.console import console, import_tensorflow
from keras_selfattn.cli.mistakes import check_mistakes_file, write_mistakes
from keras_selfattn.cli.task_options import given, reading_options
from keras_selfattn.errors import ConfigError


@click.command("evaluate")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("table", type=click.Path(path_type=Path))
@click.option(
    "--mistakes",
    type=click.Path(path_type=Path),
    help="File for the rows answered wrongly, the worst first: CSV, or JSON Lines where it ends in .jsonl.",
)
@click.option(
    "--skip-unknown-labels",
    is_flag=True,
    help="Leave out rows with a label that was not in training, which else count as wrong.",
)
@reading_options
def command(run: Path, table: Path, mistakes: Path | None, skip_unknown_labels: bool, **reading: Any) -> None:
    """Print how good RUN, a run folder, is on TABLE, a file of the form it was trained on: figures, and what
    is taken for what. With --mistakes the rows answered wrongly go into a file.

    Columns are those of the training unless they are named.
    """
    from keras_selfattn.run_folder import corpus_for_run, is_pretrained, load_run, rows_for_run

    if mistakes is not None:
        check_mistakes_file(mistakes, table)
    if is_pretrained(run):
        for flag, value in (("--mistakes", mistakes), ("--skip-unknown-labels", skip_unknown_labels)):
            if value:
                raise ConfigError(f"{flag} is for labels. {run} was pretrained on texts alone: leave it out.")
        texts = corpus_for_run(run, table, given(reading))
        import_tensorflow()
        from keras_selfattn import training
        from keras_selfattn.cli.figures import print_report

        print_report(training.evaluate_pretrained(load_run(run), texts), str(table))  # type: ignore[arg-type]
        return
    rows = rows_for_run(run, table, given(reading))
    import_tensorflow()
    from keras_selfattn.cli.figures import print_report
    from keras_selfattn.training.evaluation import examine

    found = examine(load_run(run), rows, skip_unknown_labels=skip_unknown_labels)
    print_report(found.figures, str(table))
    if mistakes is not None:
        lines = found.mistakes()
        write_mistakes(mistakes, lines)
        console.print(f"Wrote {len(lines.rows):,} mistakes to {mistakes}.", soft_wrap=True)

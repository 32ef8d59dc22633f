"""`keras-selfattn query`: asks a served model, without TensorFlow, and prints its answers.

They are a table for people, or JSON Lines or CSV for programs, on standard output or in a file.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np

from keras_selfattn.asking.answer_values import cell_text, writes_texts
from keras_selfattn.asking.commands import QUERY
from keras_selfattn.asking.query import MORE_ROWS, SHOWN_ROWS, Answer, query
from keras_selfattn.cli.shared.console import columns, console, error_console, reading_bar
from keras_selfattn.cli.shared.panels import PanelCommand
from keras_selfattn.serving.client import Signature
from keras_selfattn.serving.wire.signature_names import SCORE


@click.command(
    QUERY.name, cls=PanelCommand, panels=QUERY.panels, help=QUERY.description, epilog=QUERY.statuses
)
@click.argument("model")
@click.argument("texts", nargs=-1)
def command(model: str, texts: tuple[str, ...], file: Path | None, **options: Any) -> None:
    """Ask the served model; see `commands.QUERY`."""
    with reading_bar(file) as wrap:
        query(model, texts, file, options, show=_show, say=error_console.print, wrap=wrap)


def _show(answers: Iterator[Answer], signature: Signature) -> None:
    shown = list(islice(answers, SHOWN_ROWS))
    more = next(answers, None) is not None
    if shown:
        names = dict.fromkeys(name for answer in shown for name in answer)
        score, form = (SCORE, ".3f") if writes_texts(signature) else ("probability", ".1%")
        table = columns(None, *(score if name == SCORE else name for name in names), right=(score,))
        for answer in shown:
            table.add_row(*(_cell(answer.get(name), form if name == SCORE else "") for name in names))
        console.print(table)
    if more:
        console.print(MORE_ROWS)


def _cell(value: Any, form: str) -> str:
    if form and isinstance(value, float | np.floating):
        return format(value, form)
    return cell_text(value)

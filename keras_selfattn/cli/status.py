"""`keras-selfattn status`: which versions of a served model answer, without TensorFlow."""

import json
import sys
from typing import Any

import click

from keras_selfattn.asking.answer_values import status_record
from keras_selfattn.asking.commands import STATUS, connected
from keras_selfattn.asking.exit_status import NOT_NOW
from keras_selfattn.cli.shared.console import columns, console
from keras_selfattn.cli.shared.panels import PanelCommand


@click.command(
    STATUS.name, cls=PanelCommand, panels=STATUS.panels, help=STATUS.description, epilog=STATUS.statuses
)
@click.argument("model")
def command(model: str, version: int | None, wait: float | None, as_json: bool, **options: Any) -> None:
    """Print the states of the versions; see `commands.STATUS`."""
    with connected(model, options) as client:
        statuses = client.status(version) if wait is None else client.wait_until_ready(wait, version)
    if as_json:
        for each in statuses:
            click.echo(json.dumps(status_record(each), ensure_ascii=False))
    else:
        table = columns(None, "version", "state", "error", right=("version",))
        for each in statuses:
            error = f"{each.code.name}: {each.message}" if each.message else ""
            table.add_row(str(each.version), each.state, error)
        console.print(table)
    if not any(each.available for each in statuses):
        sys.exit(NOT_NOW)

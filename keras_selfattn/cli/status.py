"""`keras-selfattn status`: which versions of a served model answer, without TensorFlow."""

import json
import sys
from typing import Any

import click

from keras_selfattn.asking.connected_client import connected
from keras_selfattn.asking.exit_status import NOT_NOW
from keras_selfattn.asking.row_answers import status_record
from keras_selfattn.cli.connection_options import CONNECTION_PANELS
from keras_selfattn.cli.console import columns, console
from keras_selfattn.cli.panels import Option, PanelCommand

_PANELS = {
    "Most used": (
        Option("--version", type=int, metavar="N", help="Version to ask for.", without="all"),
        Option(
            "--wait", type=float, metavar="SECONDS", help="Wait for a version that answers, up to so long."
        ),
        Option("--json", "as_json", is_flag=True, help="Print one JSON object a line."),
    ),
    **CONNECTION_PANELS,
}


@click.command(
    "status",
    cls=PanelCommand,
    panels=_PANELS,
    epilog="Exit status: 0 a version answers, 3 no such model, 4 none answers now.",
)
@click.argument("model")
def command(model: str, version: int | None, wait: float | None, as_json: bool, **options: Any) -> None:
    """List the versions of the served MODEL and their states."""
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

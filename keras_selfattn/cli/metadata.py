"""`keras-selfattn metadata`: inputs and outputs of a served model, without TensorFlow."""

import json
from collections.abc import Mapping
from typing import Any

import click

from keras_selfattn.asking.connected_client import connected
from keras_selfattn.asking.row_answers import metadata_record
from keras_selfattn.cli.connection_options import CONNECTION_PANELS
from keras_selfattn.cli.console import columns, console
from keras_selfattn.cli.panels import Option, PanelCommand
from keras_selfattn.serving.client import TensorSpec

_PANELS = {
    "Most used": (
        Option("--version", type=int, metavar="N", help="Version to ask.", without="the latest"),
        Option("--label", metavar="NAME", help="Label of the version to ask, such as stable."),
        Option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    ),
    **CONNECTION_PANELS,
}


@click.command("metadata", cls=PanelCommand, panels=_PANELS)
@click.argument("model")
def command(model: str, version: int | None, label: str | None, as_json: bool, **options: Any) -> None:
    """Show the inputs and outputs of the served MODEL.

    Each signature has its own, with names, dtypes and shapes.
    """
    with connected(model, options) as client:
        metadata = client.metadata(version, label=label)
    if as_json:
        click.echo(json.dumps(metadata_record(metadata), indent=2, ensure_ascii=False))
        return
    table = columns(f"{metadata.model}, version {metadata.version}", "signature", "inputs", "outputs")
    for name, signature in metadata.signatures.items():
        if not name.startswith("__"):
            table.add_row(name, _listed(signature.inputs), _listed(signature.outputs))
    console.print(table)


def _listed(specs: Mapping[str, TensorSpec]) -> str:
    return "\n".join(f"{name}: {spec!r}" for name, spec in specs.items())

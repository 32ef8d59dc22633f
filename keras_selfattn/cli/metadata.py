"""`keras-selfattn metadata`: inputs and outputs of a served model, without TensorFlow."""

import json
from collections.abc import Mapping
from typing import Any

import click

from keras_selfattn.asking.answer_values import metadata_record
from keras_selfattn.asking.commands import METADATA, connected, version_of
from keras_selfattn.cli.shared.console import columns, console
from keras_selfattn.cli.shared.panels import PanelCommand
from keras_selfattn.serving.client import TensorSpec


@click.command(METADATA.name, cls=PanelCommand, panels=METADATA.panels, help=METADATA.description)
@click.argument("model")
def command(model: str, as_json: bool, **options: Any) -> None:
    """Print the signatures of the model; see `commands.METADATA`."""
    with connected(model, options) as client:
        metadata = client.metadata(version_of(options))
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

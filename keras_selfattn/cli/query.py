"""`keras-selfattn query`: asks a served model, without TensorFlow."""

import click

from keras_selfattn.cli.console import columns, console
from keras_selfattn.serving.client import Client


@click.command("query")
@click.argument("model")
@click.argument("texts", nargs=-1, required=True)
@click.option("--target", default="localhost:8500", help="host:port of the server.")
@click.option("--timeout", default=10.0, help="Seconds until the call is given up.")
def command(model: str, texts: tuple[str, ...], target: str, timeout: float) -> None:
    """Classify TEXTS with the served MODEL and print each one's label and probability."""
    with Client(target, model=model, timeout=timeout) as client:
        answers = client.classify(list(texts))
    table = columns(None, "text", "label", "probability", right=("probability",))
    for text, (label, score) in zip(texts, answers, strict=True):
        table.add_row(text, label, f"{score:.1%}")
    console.print(table)

"""`keras-selfattn query`: asks a served model, without TensorFlow."""

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from keras_selfattn.cli.connect import connected, connection_options
from keras_selfattn.cli.query_answers import write_answers
from keras_selfattn.cli.query_rows import Asked, asked_rows, without_padding
from keras_selfattn.cli.task_options import separator_option
from keras_selfattn.serving.client import Client, Signature
from keras_selfattn.serving.errors import FailedPreconditionError

_ANSWER = ("label", "score")


@click.command(
    "query",
    epilog="Exit status: 0 answered, 1 failed, 2 refused before it was sent, 3 no such "
    "model, version or signature, 4 no answer now (ask again later), 5 not allowed.",
)
@click.argument("model")
@click.argument("texts", nargs=-1)
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    help="Rows from a .csv, .tsv or .jsonl file, or series from a .ts or .npz.",
)
@click.option("--column", help="The file's column for a single input, where it is not named as that.")
@separator_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    help="json is one object a line.",
)
@click.option(
    "--output", type=click.Path(path_type=Path), help="Write to this file, as CSV unless --format json."
)
@click.option(
    "--outputs",
    multiple=True,
    help="Output of the model to write; may be given several times. [default: label and score, or all]",
)
@click.option("--signature", default="serving_default", help="Signature to call.")
@click.option("--version", type=int, help="Version to ask; the latest unless given.")
@click.option("--label", help="Label of the version to ask, such as stable.")
@click.option("--batch-size", type=click.IntRange(min=1), default=64, help="Rows in a call.")
@connection_options
def command(
    model: str, texts: tuple[str, ...], file: Path | None, column: str | None, **options: Any
) -> None:
    """Ask the served MODEL about TEXTS, a file, or standard input: there each line is a row of the only
    input.

    A classifier answers each text with its label and probability (the score); other models with all their
    outputs. An input named `encoded`, that of an image model, takes names of image files. A file's columns
    are written along, and an output of a column's name as predicted_NAME; of several inputs each has the
    column of its name. Numbers, and lists of them, are JSON; a row of tokens stands between blanks, or is a
    JSON list.
    """
    with connected(model, options) as client:
        signature = _signature(client, options)
        outputs = list(options["outputs"]) or _usual(signature)
        with asked_rows(signature, texts, file, column, options["separator"]) as asked:
            answers = _answered(client, signature, asked, outputs, options)
            write_answers(answers, options["form"], options["output"])


def _signature(client: Client, options: dict[str, Any]) -> Signature:
    metadata = client.metadata(options["version"], label=options["label"])
    name = options["signature"]
    if name in metadata.signatures:
        return metadata.signatures[name]
    raise FailedPreconditionError(f"The model has no signature {name!r}. It is:\n{metadata!r}")


def _usual(signature: Signature) -> list[str]:
    """A classifier's label and score, or all labels of a row; of any other signature everything."""
    if "labels" in signature.outputs:
        return ["labels"]
    return list(_ANSWER) if set(_ANSWER) <= signature.outputs.keys() else list(signature.outputs)


def _answered(
    client: Client,
    signature: Signature,
    asked: Iterator[Asked],
    outputs: list[str],
    options: dict[str, Any],
) -> Iterator[dict[str, Any]]:
    """The arguments of a query, and its outcome."""
    given: deque[Asked] = deque()

    def rows() -> Iterator[dict[str, Any]]:
        for record, row in asked:
            given.append((record, row))
            yield row

    asked_of = {name: options[name] for name in ("version", "label", "batch_size")}
    answers = client.predict_iter(rows(), options["signature"], outputs, **asked_of)
    for answer in answers:
        record, row = given.popleft()
        values = without_padding(signature, row, {name: answer[name] for name in outputs})
        yield record | {f"predicted_{name}" if name in record else name: values[name] for name in outputs}

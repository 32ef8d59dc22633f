"""`keras-selfattn embed`: the vectors of texts, from a served encoder, without TensorFlow."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click
import numpy as np

from keras_selfattn.asking.asked_rows import asked_rows, check_asked
from keras_selfattn.asking.commands import CONNECTION, LABEL, VERSION, connected, version_of
from keras_selfattn.cli.shared.console import console, reading_bar
from keras_selfattn.cli.shared.panels import COUNT, PATH, Option, PanelCommand
from keras_selfattn.errors import DataError, SelfAttentionError
from keras_selfattn.files.atomic import new_file
from keras_selfattn.options import NO_HEADER, SEPARATOR
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.errors import FailedPreconditionError, ServingError
from keras_selfattn.serving.wire.signature_names import EMBEDDING

_SIGNATURE = "embed"
_PANELS = {
    "Most used": (
        Option("--output", type=PATH, required=True, help="File to write the vectors to (.npy)."),
        Option("--file", type=PATH, help="Texts to embed: a .csv, .tsv or .jsonl file."),
        Option("--column", metavar="COLUMN", help="Column of --file with the texts.", without="text"),
        SEPARATOR,
        NO_HEADER,
    ),
    "Call": (
        VERSION,
        LABEL,
        Option("--batch-size", type=COUNT, default=16, help="Texts in a call, which ends at --timeout."),
    ),
    **CONNECTION,
}


@click.command("embed", cls=PanelCommand, panels=_PANELS)
@click.argument("model")
@click.argument("texts", nargs=-1)
def command(model: str, texts: tuple[str, ...], file: Path | None, output: Path, **options: Any) -> None:
    """Write the vectors of texts, from the served MODEL.

    Texts are TEXTS, those of --file or, without either, the lines of standard input. The vectors are written
    as one NumPy array, float32 [rows, width], in the order of the texts.
    """
    if output.suffix != ".npy" or output.is_dir():
        raise DataError(f"--output must be a file that ends in .npy. Received {str(output)!r}.")
    check_asked(texts, file, options)
    asked: dict[str, Any] = {"version": version_of(options)}
    with connected(model, options) as client:
        signature = client.metadata(asked["version"]).signatures.get(_SIGNATURE)
        if signature is None:
            raise FailedPreconditionError(
                f"The model {model!r} has no signature {_SIGNATURE!r}: it gives no vectors. Export a "
                "TextEncoder."
            )
        with _written(output) as stream:
            asked["known"] = signature  # not to be asked for again
            with reading_bar(file) as wrap:
                rows = asked_rows(signature, texts, file, options, wrap)
                found = list(_vectors(client, (row for _, row in rows), options["batch_size"], asked))
            if not found:
                raise DataError("There are no texts. Give at least one.")
            vectors = np.stack(found)
            np.save(stream, vectors)
    console.print(f"Wrote {len(vectors):,} vectors of {vectors.shape[1]:,} numbers to {output}.")


@contextmanager
def _written(output: Path) -> Iterator[BinaryIO]:
    """Yield the file to write to, before any text is sent; it appears if the block succeeds."""
    try:
        with new_file(output) as stream:
            yield stream
    except OSError as error:
        # Some ServingErrors, and DataErrors of the texts, are OSErrors or name their own file.
        if isinstance(error, ServingError | SelfAttentionError):
            raise
        raise DataError(f"--output {output} cannot be written: {error.strerror or error}.") from error


def _vectors(
    client: Client, rows: Iterator[dict[str, Any]], batch_size: int, asked: dict[str, Any]
) -> Iterator[np.ndarray]:
    answers = client.predict_iter(rows, _SIGNATURE, [EMBEDDING], batch_size=batch_size, **asked)
    for answer in answers:
        yield answer[EMBEDDING]

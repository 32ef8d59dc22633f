"""The rows of `query` and `embed`, with a progress bar while a file is read."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from keras_selfattn.asking.asked_rows import QueryRow, asked_rows
from keras_selfattn.cli.console import error_console
from keras_selfattn.serving.client import Signature


@contextlib.contextmanager
def rows_with_progress(
    signature: Signature,
    texts: tuple[str, ...],
    file: Path | None,
    options: Mapping[str, Any],
) -> Iterator[Iterator[QueryRow]]:
    """Yield the rows; while a file is read, show a progress bar on standard error, if it is a terminal."""
    with _bar() if file is not None else contextlib.nullcontext() as progress:

        def wrap(opened: Any) -> Any:
            if file is None or progress is None:
                return opened
            return progress.wrap_file(opened, file.stat().st_size, description=file.name)

        yield asked_rows(signature, texts, file, options, wrap)


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=error_console,
        disable=not error_console.is_terminal,
        transient=True,
        # Otherwise rich would send the answers to the bar's stream.
        redirect_stdout=False,
        redirect_stderr=False,
    )

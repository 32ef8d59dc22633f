"""`keras-selfattn-client`: `query`, `status` and `metadata`, with NumPy, grpcio and protobuf alone."""

import io
import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from keras_selfattn.errors import PackageMisfitError, SelfAttentionError
from keras_selfattn.extras import importing

_SHOWN_ROWS = 100
_INTERRUPTED = 130  # what a shell makes of SIGINT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status.

    Args:
        arguments: the words after the command's name; by default those of the process.
    """
    # gRPC reads this when it is imported. By default it logs each connection that fails.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        with importing("client", "The client"):
            from keras_selfattn.asking.client_options import parsed
            from keras_selfattn.asking.exit_status import exit_status, output_failed
            from keras_selfattn.serving.errors import ServingError
    except PackageMisfitError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1

    options = parsed(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8 shows "?" instead of failing
    try:
        status = _COMMANDS[options.command](options)
        sys.stdout.flush()  # here: at Python's end an error would be a traceback
        return status
    except (SelfAttentionError, ServingError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return exit_status(error)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return _INTERRUPTED
    except OSError as error:
        return output_failed(error)


def _query(options: Namespace) -> int:
    from keras_selfattn.asking.answer_values import default_outputs
    from keras_selfattn.asking.asked_rows import asked_rows, check_asked
    from keras_selfattn.asking.row_answers import answered, signature_of, write, write_file

    texts = tuple(options.texts)
    check_asked(texts, options.file, vars(options))
    with _connected(options) as (client, settings):
        signature = signature_of(client, settings)
        rows = asked_rows(signature, texts, options.file, settings)
        outputs = options.outputs or default_outputs(signature)
        answers = answered(client, signature, rows, outputs, settings)
        if options.output is not None:
            write_file(options.output, answers, options.form)
            print(f"The answers are in {options.output}.", file=sys.stderr)
        elif options.form == "table":
            _show(answers)
        else:
            write(sys.stdout, answers, options.form)
    return 0


def _status(options: Namespace) -> int:
    from keras_selfattn.asking.exit_status import NOT_NOW
    from keras_selfattn.asking.row_answers import status_record

    with _connected(options) as (client, _):
        version, wait = options.version, options.wait
        statuses = client.status(version) if wait is None else client.wait_until_ready(wait, version)
    records = [status_record(each) for each in statuses]
    if options.as_json:
        for record in records:
            print(json.dumps(record, ensure_ascii=False))
    else:
        failed = [f"{each['code']}: {each['message']}" if each["message"] else "" for each in records]
        rows = [[each["version"], each["state"], error] for each, error in zip(records, failed, strict=True)]
        _table(["version", "state", "error"], rows)
    return 0 if any(each.available for each in statuses) else NOT_NOW


def _metadata(options: Namespace) -> int:
    from keras_selfattn.asking.row_answers import metadata_record

    with _connected(options) as (client, _):
        metadata = client.metadata(options.version, label=options.label)
    if options.as_json:
        print(json.dumps(metadata_record(metadata), indent=2, ensure_ascii=False))
    else:
        print(metadata)
    return 0


_COMMANDS = {"query": _query, "status": _status, "metadata": _metadata}


@contextmanager
def _connected(options: Namespace) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Yield the client of the options, and the options with their headers read."""
    from keras_selfattn.asking.connected_client import connected, headers

    settings = {**vars(options), "header": headers(options.header)}
    with connected(options.model, settings) as client:
        yield client, settings


def _show(answers: Iterator[Mapping[str, Any]]) -> None:
    from keras_selfattn.asking.answer_values import cell_text

    shown = list(islice(answers, _SHOWN_ROWS))
    if shown:
        names = list(dict.fromkeys(name for answer in shown for name in answer))
        _table(names, [[cell_text(answer.get(name)) for name in names] for answer in shown])
    if next(answers, None) is not None:
        print(f"These are the first {_SHOWN_ROWS} rows; --format csv or json writes all.")


def _table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under the names of their columns, a row a line."""
    lines = [names, *([" ".join(str(cell).split()) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    sys.exit(main())

"""The options of `keras-selfattn-client`: those of `keras-selfattn query`, `status` and `metadata`."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path

_NAME = "keras-selfattn-client"
_TARGET = "localhost:8500"
_STATUSES = (
    "Exit status: 0 answered, 1 failed, 2 refused before it was sent, 3 no such model, version or signature, "
    "4 no answer now (ask again later), 5 not allowed."
)
# The description of each command, and a line for the list of all.
_DESCRIPTIONS = {
    "query": (
        "Ask the served MODEL. Rows are TEXTS, those of --file or, without either, the lines of standard "
        "input. Numbers, and lists of them, are written as JSON.",
        "ask a model about texts, tokens, series or images",
    ),
    "status": ("List the versions of the served MODEL and their states.", "list the versions of a model"),
    "metadata": (
        "Show the inputs and outputs of the served MODEL: names, dtypes and shapes.",
        "show the inputs and outputs of a model",
    ),
}


def parsed(arguments: Sequence[str]) -> Namespace:
    """Return the options of a command line, with the name of its command; exit if one is wrong."""
    parsers = {name: _parser(name) for name in _DESCRIPTIONS}
    if arguments and arguments[0] in parsers:
        # Intermixed: or texts after an option would not be taken.
        options = parsers[arguments[0]].parse_intermixed_args(arguments[1:])
        options.command = arguments[0]
        options.target = options.target or [_TARGET]
        return options
    whole = ArgumentParser(_NAME, description="Ask models that are served.")
    commands = whole.add_subparsers(metavar="COMMAND", required=True)
    for name, (_, words) in _DESCRIPTIONS.items():
        commands.add_parser(name, help=words)
    return whole.parse_args(arguments)


def _parser(name: str) -> ArgumentParser:
    description, _ = _DESCRIPTIONS[name]
    usage = f"%(prog)s [OPTIONS] MODEL{' [TEXTS ...]' if name == 'query' else ''}"
    command = ArgumentParser(f"{_NAME} {name}", usage, description, _STATUSES, allow_abbrev=False)
    command.add_argument("model", metavar="MODEL")
    _OPTIONS[name](command)
    _add_connection(command)
    return command


def _add_status(command: ArgumentParser) -> None:
    command.add_argument("--version", type=int, metavar="N", help="version to ask for (default: all)")
    command.add_argument(
        "--wait", type=float, metavar="SECONDS", help="wait for a version that answers, up to so long"
    )
    command.add_argument("--json", dest="as_json", action="store_true", help="print a JSON object a line")


def _add_metadata(command: ArgumentParser) -> None:
    _add_version(command)
    command.add_argument("--json", dest="as_json", action="store_true", help="print one JSON object")


def _add_query(command: ArgumentParser) -> None:
    command.add_argument("texts", nargs="*", metavar="TEXTS")
    command.add_argument(
        "--file", type=Path, help="rows to ask: a .csv, .tsv or .jsonl file, or series in .ts or .npz"
    )
    command.add_argument("--column", metavar="COLUMN", help="column of --file, of a model with one input")
    command.add_argument("--separator", metavar="CHAR", help="character between the columns of --file")
    command.add_argument(
        "--no-header",
        dest="has_header",
        action="store_false",
        default=None,
        help="take the first line of --file as a row; columns have numbers: 1, 2, …",
    )
    command.add_argument(
        "--format",
        dest="form",
        choices=("table", "json", "csv"),
        default="table",
        help="form of the answers; json is an object a line",
    )
    command.add_argument(
        "--output", type=Path, metavar="FILE", help="file for the answers, CSV unless --format is json"
    )
    _add_version(command)
    command.add_argument(
        "--signature", default="serving_default", metavar="NAME", help="signature (default: %(default)s)"
    )
    command.add_argument(
        "--outputs", action="append", metavar="NAME", help="output to write; may be given again"
    )
    command.add_argument(
        "--batch-size", type=_count, default=64, metavar="N", help="rows in a call (default: %(default)s)"
    )


def _add_version(command: ArgumentParser) -> None:
    command.add_argument("--version", type=int, metavar="N", help="version to ask (default: the latest)")
    command.add_argument("--label", metavar="NAME", help="label of the version to ask, such as stable")


def _add_connection(command: ArgumentParser) -> None:
    group = command.add_argument_group("connection")
    group.add_argument(
        "--target",
        action="append",
        metavar="HOST:PORT",
        help=f"the server, or unix:/path; again for more of them (default: {_TARGET})",
    )
    group.add_argument(
        "--timeout",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="time until a call is given up, with retries (default: %(default)s)",
    )
    group.add_argument(
        "--wait-for-ready", action="store_true", help="wait, within --timeout, for a server to come"
    )
    group.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="metadata of every call, such as a token, or @FILE with such lines; may be given again",
    )
    group.add_argument("--insecure", action="store_true", help="send unencrypted calls to another machine")
    group.add_argument("--tls", action="store_true", help="encrypt the connection")
    group.add_argument("--ca", type=Path, metavar="FILE", help="certificates to trust (PEM)")
    group.add_argument("--certificate", type=Path, metavar="FILE", help="own certificate (PEM)")
    group.add_argument("--key", type=Path, metavar="FILE", help="private key of --certificate (PEM)")
    group.add_argument("--server-name", metavar="NAME", help="name in the server's certificate")


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise ArgumentTypeError(f"must be an integer, at least 1. Received {text!r}.")
    return int(text)


_OPTIONS = {"query": _add_query, "status": _add_status, "metadata": _add_metadata}

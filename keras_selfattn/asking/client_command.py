"""`keras-selfattn-client`: `query`, `status` and `metadata`, with NumPy, grpcio and protobuf alone.

Their options and help are made of `commands`, as those of `keras-selfattn` are.
"""

import io
import json
import os
import shutil
import sys
import textwrap
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from keras_selfattn.errors import PackageMisfitError, SelfAttentionError
from keras_selfattn.extras import importing

if TYPE_CHECKING:
    from keras_selfattn.asking.commands import AskingCommand
    from keras_selfattn.options import OptionSpec

_NAME = "keras-selfattn-client"
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
            from keras_selfattn.asking.commands import COMMANDS
            from keras_selfattn.asking.exit_status import exit_status, output_failed
            from keras_selfattn.serving.errors import ServingError
    except PackageMisfitError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1

    name, options = _parsed(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8 shows "?" instead of failing
    try:
        for option in COMMANDS[name].options:
            if option.read is not None:
                setattr(options, option.name, option.read(getattr(options, option.name)))
        status = _RUN[name](options)
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


def _parsed(arguments: Sequence[str]) -> tuple[str, Namespace]:
    """Return the command that a line names, and its options; exit if one is wrong."""
    from keras_selfattn.asking.commands import COMMANDS

    if not arguments or arguments[0] not in COMMANDS:
        whole = ArgumentParser(_NAME, description="Ask models that are served.")
        commands = whole.add_subparsers(metavar="COMMAND", required=True)
        for command in COMMANDS.values():
            commands.add_parser(command.name, help=_phrase(command.description.partition("\n")[0]))
        whole.parse_args(arguments)
        whole.error("the command must come first")
    command = COMMANDS[arguments[0]]
    # Intermixed: or texts after an option would not be taken.
    options = parser_of(command).parse_intermixed_args(arguments[1:])
    for option in command.options:
        if option.many and getattr(options, option.name) is None:
            # argparse would append what is given to the default.
            setattr(options, option.name, list(option.default))
    return command.name, options


def parser_of(command: "AskingCommand") -> ArgumentParser:
    """Return argparse's parser of a command, with its options under their headings."""
    from keras_selfattn.asking.commands import QUERY

    parser = ArgumentParser(
        f"{_NAME} {command.name}",
        f"%(prog)s [OPTIONS] MODEL{' [TEXTS ...]' if command.takes_texts else ''}",
        _paragraphs(command.description),
        _paragraphs(QUERY.statuses),  # each command can end with all of them
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("model", metavar="MODEL")
    if command.takes_texts:
        parser.add_argument("texts", nargs="*", metavar="TEXTS")
    # The first heading's options stand under argparse's own, with --help.
    (_, most_used), *others = command.panels.items()
    for option in most_used:
        parser.add_argument(option.flag, **_argument(option))
    for heading, options in others:
        group = parser.add_argument_group(heading.lower())
        for option in options:
            group.add_argument(option.flag, **_argument(option))
    return parser


def _argument(option: "OptionSpec") -> dict[str, Any]:
    """Return an option as `ArgumentParser.add_argument` takes it."""
    told = option.without or (None if option.switch is not None else option.default)
    shown = ", ".join(map(str, told)) if isinstance(told, tuple) else told
    words = _phrase(option.help) + (f" (default: {shown})" if shown else "")
    found: dict[str, Any] = {"dest": option.name, "help": words.replace("%", "%%")}
    if option.switch is not None:
        return {**found, "action": "store_const", "const": option.switch, "default": option.default}
    found |= {"type": _count if option.least else option.kind, "choices": option.choices or None}
    found |= {"metavar": option.placeholder} if option.placeholder else {}
    return found | ({"action": "append"} if option.many else {"default": option.default})


def _phrase(sentence: str) -> str:
    """Return a sentence of the help as argparse writes its own: without a capital and full stop."""
    return sentence[0].lower() + sentence[1:].removesuffix(".")


def _paragraphs(text: str) -> str:
    width = shutil.get_terminal_size().columns - 2
    return "\n\n".join(textwrap.fill(" ".join(each.split()), width) for each in text.split("\n\n"))


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise ArgumentTypeError(f"must be an integer, at least 1. Received {text!r}.")
    return int(text)


def _query(options: Namespace) -> int:
    from keras_selfattn.asking.query import query

    query(
        options.model,
        tuple(options.texts),
        options.file,
        vars(options),
        show=_show,
        say=lambda line: print(line, file=sys.stderr),
    )
    return 0


def _status(options: Namespace) -> int:
    from keras_selfattn.asking.answer_values import status_record
    from keras_selfattn.asking.commands import connected
    from keras_selfattn.asking.exit_status import NOT_NOW

    with connected(options.model, vars(options)) as client:
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
    from keras_selfattn.asking.answer_values import metadata_record
    from keras_selfattn.asking.commands import connected, version_of

    with connected(options.model, vars(options)) as client:
        metadata = client.metadata(version_of(vars(options)))
    if options.as_json:
        print(json.dumps(metadata_record(metadata), indent=2, ensure_ascii=False))
    else:
        print(metadata)
    return 0


_RUN = {"query": _query, "status": _status, "metadata": _metadata}


def _show(answers: Iterator[Mapping[str, Any]], _: object) -> None:
    from keras_selfattn.asking.answer_values import cell_text
    from keras_selfattn.asking.query import MORE_ROWS, SHOWN_ROWS

    shown = list(islice(answers, SHOWN_ROWS))
    if shown:
        names = list(dict.fromkeys(name for answer in shown for name in answer))
        _table(names, [[cell_text(answer.get(name)) for name in names] for answer in shown])
    if next(answers, None) is not None:
        print(MORE_ROWS)


def _table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under the names of their columns, a row a line."""
    lines = [names, *([" ".join(str(cell).split()) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    sys.exit(main())

"""The commands that ask a server, as data: `keras-selfattn` makes click's of them, the client argparse's.

A flag, its default, its help or a sentence about a command is changed here, for both programs. Below are the
client, version and signature that the options ask for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_selfattn.asking.raw_texts import OFFSETS
from keras_selfattn.options import NO_HEADER, SEPARATOR, OptionSpec
from keras_selfattn.serving.errors import FailedPreconditionError, InvalidInputError
from keras_selfattn.serving.wire.signature_names import DEFAULT_SIGNATURE

if TYPE_CHECKING:
    from keras_selfattn.serving.client import Client, Label, ModelMetadata, Signature


@dataclass(frozen=True)
class AskingCommand:
    """A command whose first argument is the name of a served model.

    Args:
        name: its name.
        description: the head of its help: paragraphs, the first of which is one sentence.
        panels: its options by heading, in the order of the help.
        statuses: the line about its exit statuses; "" for one without.
        takes_texts: True if texts may follow the name of the model.
    """

    name: str
    description: str
    panels: Mapping[str, tuple[OptionSpec, ...]]
    statuses: str = ""
    takes_texts: bool = False

    @property
    def options(self) -> tuple[OptionSpec, ...]:
        """Return the options of all panels."""
        return tuple(option for panel in self.panels.values() for option in panel)


def headers(values: Iterable[str]) -> dict[str, str]:
    """Return headers, also those in lines of @FILEs, so that secrets need not be in the arguments.

    Raises:
        InvalidInputError: for one that is not "name: value", or a file that cannot be read.

    Example:

        >>> headers(["authorization: Bearer 1", "x-key:2"])
        {'authorization': 'Bearer 1', 'x-key': '2'}
    """
    found: list[str] = []
    for value in values:
        if not value.startswith("@"):
            found.append(value)
            continue
        try:
            found += [line for line in Path(value[1:]).read_text("utf-8").splitlines() if line.strip()]
        except OSError as error:
            raise InvalidInputError(f"{value[1:]} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise InvalidInputError(f"{value[1:]} is not text in UTF-8: {error.reason}.") from error
    pairs = [line.partition(":") for line in found]
    if not all(colon for _, colon, _ in pairs):
        raise InvalidInputError("write it as 'name: value', or as @file with such lines.")
    return {name.strip(): content.strip() for name, _, content in pairs}


_TARGET = OptionSpec(
    "--target",
    "The server, or unix:/path. Given again, the calls are spread over all of them.",
    metavar="HOST:PORT",
    default=("localhost:8500",),
    many=True,
)
CALLS = (
    OptionSpec(
        "--timeout",
        "Time until a call is given up, with retries.",
        kind=float,
        metavar="SECONDS",
        default=10.0,
    ),
    OptionSpec(
        "--wait-for-ready",
        "Wait, within --timeout, for a server that is not there yet.",
        switch=True,
        default=False,
    ),
    OptionSpec(
        "--header",
        "Metadata of every call, such as a token, or @FILE with such lines; may be given again.",
        metavar="'NAME: VALUE'",
        default=(),
        many=True,
        read=headers,
    ),
    OptionSpec("--insecure", "Send unencrypted calls to another machine.", switch=True, default=False),
)
ENCRYPTION = (
    OptionSpec("--tls", "Encrypt the connection.", switch=True, default=False),
    OptionSpec("--ca", "Certificates to trust (PEM).", kind=Path, without="the public ones"),
    OptionSpec("--certificate", "Own certificate (PEM), for mutual TLS.", kind=Path),
    OptionSpec("--key", "Private key of --certificate (PEM).", kind=Path),
    OptionSpec("--server-name", "Name in the server's certificate.", metavar="NAME", without="the target's"),
)
CONNECTION = {"Connection": (_TARGET, *CALLS), "Encryption": ENCRYPTION}
"""The options that `connected` takes."""

VERSION = OptionSpec("--version", "Version to ask.", kind=int, without="the latest")
LABEL = OptionSpec("--label", "Label of the version to ask, such as stable.", metavar="NAME")
SIGNATURE = OptionSpec(
    "--signature",
    "Signature to call.",
    metavar="NAME",
    without=f"spans for raw texts, of a model that has it, else {DEFAULT_SIGNATURE}",
)
OUTPUTS = OptionSpec(
    "--outputs",
    "Output to write; may be given again.",
    metavar="NAME",
    default=(),
    without="label and score; text, score and ended; or all",
    many=True,
)
TEXT_PAIR = OptionSpec(
    "--text-pair",
    "Column of the second texts, of a model of pairs.",
    metavar="COLUMN",
    without="text_pair",
)

QUERY = AskingCommand(
    "query",
    """Ask the served MODEL about texts, tokens, series, images or recordings.

    Rows are TEXTS, those of --file or, without either, the lines of standard input. With --pair, each two
    TEXTS are a row.

    A classifier answers with a label and its probability; a model that writes texts with the text, its score
    and ended, which is false where the model's bound cut the text (--outputs candidates has what else its
    search found); other models with all their outputs. Numbers, and lists of them, are written as JSON: a
    series is '[0.1, 0.3]'. Tokens stand between blanks, or in a JSON list. Images are names of files, with
    --signature encoded. Recordings are names of files; with --windows 10 each is asked about in windows of
    10 s, and a --file with the columns start and end about these stretches.

    The columns of --file are written along with the answers; an output with the name of a column is written
    as predicted_NAME. A model with several inputs takes each from the column of its name.

    A labeller with the signature spans takes raw texts: --signature spans, or a column text. Their spans are
    written as doccano does, [start, end, label] under label, in place of those that the file has.""",
    {
        "Most used": (
            OptionSpec(
                "--file",
                "Rows to ask: a .csv, .tsv or .jsonl file, a .txt of texts, or series in .ts or .npz.",
                kind=Path,
            ),
            OptionSpec(
                "--column",
                "Column of --file to ask, of a model with one input; of pairs, that of the first texts.",
                metavar="COLUMN",
                without="the one named as the input",
            ),
            TEXT_PAIR,
            OptionSpec(
                "--pair",
                "Ask a model of pairs: each two TEXTS are a row.",
                switch=True,
                default=False,
            ),
            OptionSpec(
                "--windows",
                "Ask about windows of the recordings in TEXTS; their start and end are written along.",
                kind=float,
                metavar="SECONDS",
            ),
            SEPARATOR,
            NO_HEADER,
            OptionSpec(
                "--format",
                "Form of the answers; json is an object a line.",
                name="form",
                choices=("table", "json", "csv"),
                default="table",
            ),
            OptionSpec(
                "--output", "File to write the answers to, as CSV unless --format is json.", kind=Path
            ),
        ),
        "Call": (
            VERSION,
            LABEL,
            SIGNATURE,
            OUTPUTS,
            OFFSETS,
            OptionSpec("--batch-size", "Rows in a call.", kind=int, least=1, default=64),
        ),
        **CONNECTION,
    },
    statuses="Exit status: 0 answered, 1 failed, 2 refused before it was sent, 3 no such model, version or "
    "signature, 4 no answer now (ask again later), 5 not allowed.",
    takes_texts=True,
)
STATUS = AskingCommand(
    "status",
    "List the versions of the served MODEL and their states.",
    {
        "Most used": (
            OptionSpec("--version", "Version to ask for.", kind=int, without="all"),
            OptionSpec(
                "--wait", "Wait for a version that answers, up to so long.", kind=float, metavar="SECONDS"
            ),
            OptionSpec("--json", "Print one JSON object a line.", name="as_json", switch=True, default=False),
        ),
        **CONNECTION,
    },
    statuses="Exit status: 0 a version answers, 3 no such model, 4 none answers now.",
)
METADATA = AskingCommand(
    "metadata",
    """Show the inputs and outputs of the served MODEL.

    Each signature has its own, with names, dtypes and shapes.""",
    {
        "Most used": (
            VERSION,
            LABEL,
            OptionSpec("--json", "Print one JSON object.", name="as_json", switch=True, default=False),
        ),
        **CONNECTION,
    },
)
COMMANDS = {command.name: command for command in (QUERY, STATUS, METADATA)}


def connected(model: str, options: Mapping[str, Any], **settings: Any) -> "Client":
    """Return a client with the options of the command line."""
    # Here, since the help of a command needs no client.
    from keras_selfattn.serving.client import TLS, Client

    secure = {name: options[name] for name in ("ca", "certificate", "key", "server_name")}
    tls = TLS(**secure) if options["tls"] or any(secure.values()) else None
    return Client(
        options["target"],
        model,
        timeout=options["timeout"],
        tls=tls,
        insecure=options["insecure"],
        metadata=options["header"] or None,
        wait_for_ready=options["wait_for_ready"],
        **settings,
    )


def version_of(options: Mapping[str, Any]) -> "int | Label | None":
    """Return the version that the options ask for: by number, by label, or the latest.

    Raises:
        InvalidInputError: for both, or an empty label.

    Example:

        >>> version_of({"version": None, "label": "stable"})
        Label(name='stable')
    """
    version, label = options["version"], options["label"]
    if label is None:
        return version
    if version is not None:
        raise InvalidInputError(f"give version or label, not both. Received {version} and {label!r}")
    from keras_selfattn.serving.client import Label

    return Label(label)


def signature_of(metadata: "ModelMetadata", name: str) -> "Signature":
    """Return the signature of that name.

    Raises:
        FailedPreconditionError: if the model has none of this name.
    """
    if name in metadata.signatures:
        return metadata.signatures[name]
    raise FailedPreconditionError(f"The model has no signature {name!r}. It is:\n{metadata!r}")

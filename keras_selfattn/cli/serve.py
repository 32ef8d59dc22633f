"""`keras-selfattn serve`: TensorFlow Serving's API for SavedModels, with TensorFlow Serving's flags."""

import json
import logging
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import Field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_selfattn.cli.shared.backend import starting_tensorflow
from keras_selfattn.cli.shared.console import console, print_command
from keras_selfattn.cli.shared.panels import Option, PanelCommand
from keras_selfattn.extras import require
from keras_selfattn.serving.errors import ServingError
from keras_selfattn.serving.server.config import MOST_USED, OWN_LIFE, SETTINGS, ServerConfig
from keras_selfattn.serving.server.runtime.lean_tensorflow import import_runtime
from keras_selfattn.serving.wire.signature_names import AUDIO, DEFAULT_SIGNATURE

if TYPE_CHECKING:
    from keras_selfattn.serving.server.config import ServerConfig
    from keras_selfattn.serving.server.until_stopped import Serving

_FAILED_TO_START = 255  # as TensorFlow Serving's binary
# The model card of a version, and the most features of a series in the first question to a model.
_CARD = Path("assets.extra", "model_card.json")
_MOST_FEATURES = 4


WITHOUT_EFFECT = {
    "use_alts_credentials": "ALTS is Google Cloud's; --ssl_config_file encrypts",
    "platform_config_file": "there is one platform, tensorflow",
    "remove_unused_fields_from_bundle_metagraph": "nothing that is unused is kept",
    "flush_filesystem_caches": "files are read once, and not kept in memory",
    "rest_api_num_threads": "REST needs no threads of its own; --grpc_max_threads bounds all runs",
    "num_tflite_pools": "interpreters are made as they are needed",
    "num_tflite_interpreters_per_pool": "interpreters are made as they are needed",
    "xla_cpu_compilation_enabled": "compile the model itself (jit_compile=True)",
    "xla_gpu_compilation_enabled": "compile the model itself (jit_compile=True)",
    "thread_pool_factory_config_file": "TensorFlow's own pools are used",
    "mixed_precision": "export the model in the precision wanted",
    "skip_initialize_tpu": "TPUs are not supported",
    "enable_grpc_healthcheck_service": "health is always served",
    "use_saved_model": "all models are SavedModels",
}
"""Flags that TensorFlow Serving's binary takes and this server does not need, and why."""

# Former names of TensorFlow Serving's flags.
_OTHER_NAMES = {"prefer_tflite_model": ("--use_tflite_model",)}
# No limit: a person sees what is missing and can press Ctrl-C; a container's model may come after its server.
_DEFAULTS = {"startup_wait_seconds": math.inf}


# Names of types of values in the help.
_METAVARS = {int: "N", float: "NUMBER", bool: "[true|false]"}


def _panels() -> dict[str, list[Option]]:
    """Return the server's settings as options by subject, and TensorFlow Serving's flags without effect."""
    panels: dict[str, list[Option]] = {}
    for each in fields(ServerConfig):
        panels.setdefault(SETTINGS[each.name].group, []).append(_option(each))
    panels[MOST_USED].append(Option("--version", is_flag=True, help="Print the versions and stop."))
    panels[OWN_LIFE].append(Option("--structured_logs", is_flag=True, help="Log one JSON object a line."))
    panels["Accepted, without effect here"] = [
        Option(f"--{name}", is_flag=False, flag_value="", metavar="", help=why)
        for name, why in WITHOUT_EFFECT.items()
    ]
    return panels


def _option(setting: Field) -> Option:
    default = _DEFAULTS.get(setting.name, setting.default)
    kind = type(default)
    settings: dict[str, Any] = {"type": kind, "default": default, "show_default": default != ""}
    if kind is bool:
        # TensorFlow's flags take no value, or one after an equals sign.
        settings |= {"type": click.BOOL, "is_flag": False, "flag_value": True}
    last_word = setting.name.rpartition("_")[2].upper()
    settings["metavar"] = last_word if last_word in ("FILE", "PATH") else _METAVARS.get(kind)
    names = [f"--{setting.name}", *_OTHER_NAMES.get(setting.name, ())]
    return Option(*names, help=SETTINGS[setting.name].help, **settings)


@click.command("serve", cls=PanelCommand, panels=_panels())
def command(version: bool, structured_logs: bool, **settings: Any) -> None:
    """Serve models over TensorFlow Serving's gRPC and REST APIs.

    A new version takes over once it is loaded. Flags are TensorFlow Serving's and mean what they mean there;
    after them come those that it does not have, and those of its own that have no effect here.
    """
    require("serve", "The server")
    if version:
        _print_version()
        return
    ignored = [name for name in WITHOUT_EFFECT if settings.pop(name) is not None]
    from keras_selfattn.serving.server import serve_forever

    if settings["workers"] == 1:
        with starting_tensorflow():
            import_runtime()
    _log_to_stderr(structured_logs)
    for name in ignored:
        logging.getLogger("keras_selfattn.serving").warning(
            "--%s has no effect here: %s", name, WITHOUT_EFFECT[name]
        )
    config = ServerConfig(**settings)
    answers: list[Serving] = []

    def on_ready(server: "Serving") -> None:
        answers.append(server)
        _announce(server)

    try:
        status = serve_forever(
            config, on_ready=on_ready, worker_setup=partial(_set_up_worker, structured_logs)
        )
    except ServingError as error:
        _explain(error)
        status = _FAILED_TO_START
    _give_up_unwritten()
    if not answers and status == 0:
        # Stopped while a model loads: its thread may abort the process at Python's own end.
        os._exit(status)
    sys.exit(status)


def _print_version() -> None:
    from importlib.metadata import packages_distributions, version

    console.print(f"keras-selfattn ModelServer: {version('keras-selfattn')}", highlight=False)
    # The package comes from one of several wheels, such as tensorflow-cpu.
    wheel = packages_distributions()["tensorflow"][0]
    console.print(f"TensorFlow Library: {version(wheel)}", highlight=False)


def _set_up_worker(structured: bool, number: int) -> None:
    """Set a worker up."""
    _log_to_stderr(structured, number)
    with starting_tensorflow():
        import_runtime()


def _log_to_stderr(structured: bool, worker: int = 0) -> None:
    """Log to standard error, one line for each event: versions that load, take over or leave, and the end."""
    from keras_selfattn.serving.server.runtime.structured_logs import JsonFormatter

    handler = logging.StreamHandler()
    if structured:
        handler.setFormatter(JsonFormatter(worker=worker) if worker else JsonFormatter())
    else:
        who = f"worker {worker}: " if worker else ""
        handler.setFormatter(logging.Formatter(f"%(asctime)s {who}%(message)s"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("keras_selfattn.serving").setLevel(logging.INFO)


@contextmanager
def _read_or_not() -> Iterator[None]:
    """Ignore output that cannot be written: a full disk or a closed pipe is no reason not to serve."""
    try:
        yield
    except (OSError, SystemExit):  # rich turns a closed pipe into SystemExit
        logging.getLogger("keras_selfattn.serving").info("standard output cannot be written to")


def _give_up_unwritten() -> None:
    """Drop output that cannot be flushed, for which Python would exit with a status of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@_read_or_not()
def _explain(error: ServingError) -> None:
    cause = getattr(error, "cause", "")
    message = f"Failed to start server. Error: {error.code.name}: {error}"
    click.echo(f"{message}: {cause}" if cause else message, err=True)
    if not sys.stdout.isatty():
        # TensorFlow Serving writes it to standard output, too; on a terminal it would appear twice.
        click.echo(message)


@_read_or_not()
def _announce(server: "Serving") -> None:
    from keras_selfattn.serving.server.runtime.listening import is_loopback

    models = server.available()
    for name, versions in models.items():
        listed = ", ".join(map(str, versions)) or "none yet"
        rest = f" and {server.rest_url}/v1/models/{name} (REST)" if server.rest_url else ""
        console.print(
            f"Serving {name!r} at {server.target} (gRPC){rest}, versions: {listed}.",
            highlight=False,
            soft_wrap=True,
        )
    config = server.config
    if str(config.grpc_socket_path):
        console.print(f"Also at unix:{os.path.abspath(config.grpc_socket_path)} (gRPC).", soft_wrap=True)
    if is_loopback(config.grpc_host):
        words = "Only this machine reaches it; --host=0.0.0.0 opens it to all, as TensorFlow Serving is."
    else:
        words = f"It listens on {config.grpc_host} (gRPC): whoever reaches this machine there reaches it."
    console.print(words, highlight=False, soft_wrap=True)
    if _sends_tokens_in_clear(config):
        words = "Tokens can be read on the way: encrypt them (--ssl_config_file, and --rest_tls for REST)."
        console.print(words, highlight=False, soft_wrap=True)
    if config.page:
        console.print(f"The page is at {server.rest_url}/.", highlight=False, soft_wrap=True)
    if models:
        console.print("Ctrl-C stops it. Ask it with:")
        more = ("--tls", "--ca", "authority.pem") if str(config.ssl_config_file) else ()
        if str(config.auth_token_file):
            more += ("--header", "authorization: Bearer TOKEN")
        name, versions = next(iter(models.items()))
        folder = Path(str(config.model_base_path), str(max(versions, default=0)))
        print_command(*first_question(name, folder), "--target", server.target, *more)


def _sends_tokens_in_clear(config: "ServerConfig") -> bool:
    """Return True if tokens come from other machines and are not encrypted."""
    from keras_selfattn.serving.server.runtime.listening import is_loopback

    if not str(config.auth_token_file):
        return False
    by_rest = config.rest_api_port and not config.rest_tls and not is_loopback(config.rest_host)
    return bool(by_rest) or not (str(config.ssl_config_file) or is_loopback(config.grpc_host))


def first_question(name: str, version: Path) -> tuple[str, ...]:
    """Return the words of a command that asks a model or, if a row is too long to type, shows its inputs.

    Args:
        name: of the model.
        version: the folder of a version. If it holds no card of ours, the model is assumed to take texts.

    Example:

        >>> first_question("films", Path("no/such/folder"))
        ('query', 'films', 'some text')
    """
    signatures = _signatures(version)
    if "encoded" in signatures:
        return "query", name, "--signature", "encoded", "image.png"
    try:
        inputs = signatures[DEFAULT_SIGNATURE]["inputs"]
        described = [(alias, spec["dtype"], spec["shape"]) for alias, spec in inputs.items()]
    except (KeyError, TypeError, AttributeError):
        return ("metadata", name) if signatures else ("query", name, "some text")
    match described:
        case [(alias, "string", _)]:
            return "query", name, "recording.wav" if alias == AUDIO else "some text"
        case [("values", _, [_, _, int(features)])] if features <= _MOST_FEATURES:
            return "query", name, json.dumps([[0.5] * features, [1.5] * features])
    return "metadata", name


def _signatures(version: Path) -> dict[str, Any]:
    try:
        card = json.loads((version / _CARD).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    # Other programs may write files of this name; ours have a "format".
    return card["signatures"] if isinstance(card, dict) and "format" in card and "signatures" in card else {}

"""`keras-selfattn open`: a model in the browser, served for as long as the command runs."""

import logging
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from keras_selfattn.cli.shared.backend import starting_tensorflow
from keras_selfattn.cli.shared.console import console
from keras_selfattn.cli.shared.panels import Option, PanelCommand
from keras_selfattn.errors import ConfigError, ExportError, first_line
from keras_selfattn.extras import require
from keras_selfattn.files.folder_kinds import holds_pretrained
from keras_selfattn.files.object_stores import uri_of
from keras_selfattn.files.version_files import GRAPHS, format_of
from keras_selfattn.files.version_listing import list_base_path, version_number

if TYPE_CHECKING:
    from keras_selfattn.serving.server.until_stopped import Serving

# The newest versions of a base path: the page compares them.
_VERSIONS = 2
_ADDRESS_SECONDS = 10
_EXPORT_SECONDS = 1800
_END_SECONDS = 10
_NO_PAGE, _NEEDS_TOKEN = 404, 401
_PROGRAM = "from keras_selfattn.cli.entry import main; main()"
_PANELS = {
    "Options": (Option("--no-browser", is_flag=True, help="Print the address alone, and open no browser."),)
}


@click.command("open", cls=PanelCommand, panels=_PANELS)
@click.argument("model")
def command(model: str, no_browser: bool) -> None:
    """Open a page on which you try MODEL, in your browser.

    MODEL is a run folder or a .keras file, which is exported to a temporary folder first; a folder of
    versions, of which the two newest are served, or its URI in an object store; the folder of one version; or
    the address of a server with --page, such as http://localhost:8501.

    It is served on free ports of this machine until Ctrl-C, and nothing is left behind.
    """
    show = partial(_show, no_browser)
    if re.match(r"https?://", model):
        show(_page_of_server(model))
        return
    require("serve", "`open`")
    with _served_as(model) as (name, base):
        _serve(name, base, show)


def _page_of_server(address: str) -> str:
    """Return the address of a server's page.

    Raises:
        ConfigError: if it does not answer, or has no page.
    """
    url = address.split("#", maxsplit=1)[0].rstrip("/")
    try:
        with urllib.request.urlopen(f"{url}/page/models", timeout=_ADDRESS_SECONDS):
            return f"{url}/"
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == _NEEDS_TOKEN:  # which the page asks for
            return f"{url}/"
        if error.code == _NO_PAGE:
            raise ConfigError(
                f"The server at {url} has no page. Start it with --page, and give its REST address."
            ) from error
        raise ConfigError(f"The server at {url} answers with {error.code} {error.reason}.") from error
    except HTTPException as error:  # such as of the gRPC port
        raise ConfigError(
            f"What answers at {url} does not speak HTTP: {type(error).__name__}. Give the REST address of a "
            "server that runs with --page."
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ConfigError(
            f"No server answers at {url}: {reason}. Give the REST address of one that runs with --page."
        ) from error


@contextmanager
def _served_as(model: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the base path to serve; a temporary one is removed afterwards."""
    path = Path(model)
    if uri_of(model) is not None or _has_versions(path):
        yield _name(path), str(uri_of(model) or path.absolute())
        return
    form = format_of(path)
    if form is not None and not any((path / graph).is_file() for graph in GRAPHS):
        raise ConfigError(
            f"{model} is a version for {form}, which this server does not run. Give its run folder, or a "
            "version of `keras-selfattn export` without --format."
        )
    if form is None and not _can_be_exported(path):
        raise ConfigError(_lacks(path))
    with tempfile.TemporaryDirectory(prefix="keras-selfattn-open-") as folder:
        if form is None:
            name = _name(path)
            base = Path(folder, name)
            _export(path, base)
        else:
            number = path.absolute().name
            is_version = version_number(number) is not None
            name, base = _name(path.absolute().parent if is_version else path), Path(folder)
            (base / (number if is_version else "1")).symlink_to(path.absolute(), target_is_directory=True)
        yield name, str(base)


def _has_versions(path: Path) -> bool:
    """Return True for a folder of versions."""
    if not path.is_dir():
        return False
    versions = list_base_path(path).versions.values()
    return any((path / name / graph).is_file() for name in versions for graph in GRAPHS)


def _can_be_exported(path: Path) -> bool:
    saved = path if path.suffix == ".keras" else path / "model.keras"
    return saved.is_file() or holds_pretrained(path)


def _lacks(path: Path) -> str:
    wanted = (
        "Give a run folder, a .keras file, a folder of versions, one version, or the address of a server: "
        "http://localhost:8501."
    )
    if not path.exists():
        return f"There is no model at {path}. Current folder: {Path.cwd()}. {wanted}"
    return f"{path} holds no model that can be opened. {wanted}"


def _name(path: Path) -> str:
    """Return a model's name: that of its folder, without what a name cannot have."""
    name = path.absolute().name
    return re.sub(r"[/:\s]+", "-", name.removesuffix(".keras")) or "model"


def _export(run: Path, base: Path) -> None:
    """Export a run in a process of its own, which then frees its memory.

    Raises:
        ExportError: with the reason.
    """
    said_first = f"{run} is exported to a temporary folder first. `keras-selfattn export` does it for good."
    console.print(said_first, soft_wrap=True, highlight=False)
    words = [sys.executable, "-P", "-c", _PROGRAM, "export", str(run), str(base)]
    with (
        console.status("Exporting, and checking the export: about a minute"),
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process,
    ):
        try:
            said, _ = process.communicate(timeout=_EXPORT_SECONDS)
        except BaseException:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
            process.kill()
            raise
    if process.returncode:
        last = said.strip().splitlines()[-1:] or ["it said nothing"]
        raise ExportError(f"The export of {run} failed: {last[0].removeprefix('Error: ')}")


def _serve(name: str, base: str, show: partial[None]) -> None:
    """Serve a model with its page until Ctrl-C."""
    with starting_tensorflow():
        from keras_selfattn.serving.server.runtime.lean_tensorflow import import_runtime

        import_runtime()
    from keras_selfattn.serving.server import ServerConfig, serve_forever

    logging.basicConfig(format="%(message)s")  # warnings alone: the page shows the rest
    with tempfile.NamedTemporaryFile("w", suffix=".conf", encoding="utf-8") as listed:
        listed.write(_model_list(name, base))
        listed.flush()
        config = ServerConfig(model_config_file=listed.name, port=0, rest_api_port=-1, page=True)

        def announce(server: "Serving") -> None:
            versions = ", ".join(str(each) for each in server.available().get(name, []))
            words = f"Serving {name!r}, versions: {versions}. Only this machine reaches it. Ctrl-C stops it."
            console.print(words, soft_wrap=True, highlight=False)
            show(f"{server.rest_url}/#try/{quote(name)}")

        serve_forever(config, on_ready=announce)


def _model_list(name: str, base: str) -> str:
    """Return the text of a list with one model."""
    from google.protobuf import text_format

    from keras_selfattn.serving.wire import messages_pb2 as pb

    config = pb.ModelServerConfig()
    model = config.model_config_list.config.add(name=name, base_path=base, model_platform="tensorflow")
    model.model_version_policy.latest.num_versions = _VERSIONS
    return text_format.MessageToString(config)


def _show(no_browser: bool, url: str) -> None:
    """Print the address of a page, and open it in the browser."""
    console.print(f"Open {url}", style="bold", highlight=False, soft_wrap=True)
    if no_browser:
        return
    # Without a display Python would start a browser in this terminal.
    has_display = not sys.platform.startswith("linux") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
    try:
        opened = has_display and webbrowser.open(url)
    except (webbrowser.Error, OSError) as error:
        opened = False
        console.print(f"No browser could be started: {first_line(error)}.")
    if not opened:
        console.print("No browser was opened: open the address yourself.")

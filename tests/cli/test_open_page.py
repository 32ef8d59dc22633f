"""`keras-selfattn open`: what it serves of what is given, and that nothing is left behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from keras_selfattn.cli import open_page
from keras_selfattn.cli.main import main
from keras_selfattn.errors import ExportError
from keras_selfattn.serving.server.models.model_config import listed_models, read_model_config
from keras_selfattn.serving.server.models.version_policy import selected

SECONDS = 600  # an export, and a server's start, on a busy machine


def said(*words):
    done = CliRunner().invoke(main, ["open", *words])
    assert done.exit_code == 1, done.output
    return done.output


def graph(folder):
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").touch()
    return folder


def test_what_holds_no_model_is_said_with_what_to_give(tmp_path):
    assert "There is no model at" in said(str(tmp_path / "none"))
    assert f"{tmp_path} holds no model that can be opened. Give a run folder" in said(str(tmp_path))
    (tmp_path / "model.onnx").touch()
    assert "is a version for onnx, which this server does not run" in said(str(tmp_path))


@contextmanager
def answering(status):
    """A server that answers every path with a status; gives its address and the paths."""
    paths = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            paths.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", paths
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("status", [200, 401])
def test_a_server_with_a_page_is_opened_as_it_is(status, monkeypatch):
    opened = []
    monkeypatch.setattr(open_page.webbrowser, "open", lambda url: opened.append(url) or True)
    monkeypatch.setenv("DISPLAY", ":0")
    with answering(status) as (address, paths):
        done = CliRunner().invoke(main, ["open", f"{address}/#state/x"])
    assert (done.exit_code, done.output) == (0, f"Open {address}/\n")
    assert (opened, paths) == ([f"{address}/"], ["/page/models"])


def test_a_server_without_a_page_or_none_at_all_is_an_error():
    with answering(404) as (address, _):
        assert f"The server at {address} has no page. Start it with --page" in said(address)
    with answering(500) as (address, _):
        assert "answers with 500" in said(address)
    assert f"No server answers at {address}" in said(address)


def test_an_address_that_speaks_no_http_is_an_error(in_background):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)  # or closing would reset the connection
                connection.sendall(b"\0\0\x18\x04\0\0\0")  # as HTTP/2 begins, such as gRPC

        answered = in_background(answer)
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert f"What answers at {address} does not speak HTTP: BadStatusLine. Give the REST" in said(address)
        answered.result()


def test_without_a_display_or_with_no_browser_the_address_is_printed(monkeypatch, capsys):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(open_page.sys, "platform", "linux")
    monkeypatch.setattr(open_page.webbrowser, "open", lambda url: pytest.fail("it was opened"))
    open_page._show(False, "http://localhost:1/")
    assert capsys.readouterr().out == (
        "Open http://localhost:1/\nNo browser was opened: open the address yourself.\n"
    )
    open_page._show(True, "http://localhost:1/")
    assert capsys.readouterr().out == "Open http://localhost:1/\n"


def test_of_a_base_path_the_two_newest_versions_are_served(tmp_path):
    graph(tmp_path / "my reviews" / "3")
    with open_page._served_as(str(tmp_path / "my reviews")) as served:
        assert served == ("my-reviews", str(tmp_path / "my reviews"))
    listed = tmp_path / "list"
    listed.write_text(open_page._model_list(*served), encoding="utf-8")
    settings = listed_models(read_model_config(listed))["my-reviews"]
    assert str(settings.base_path) == str(tmp_path / "my reviews")
    assert selected(settings.policy, [1, 2, 3]) == ([3, 2, 1], 2)
    with open_page._served_as("s3://bucket/models/reviews") as served:
        assert served == ("reviews", "s3://bucket/models/reviews")


@pytest.mark.parametrize(
    ("folder", "name", "version"), [("reviews/3", "reviews", "3"), ("saved", "saved", "1")]
)
def test_of_one_version_this_one_alone_is_served(tmp_path, folder, name, version):
    found = graph(tmp_path / folder)
    graph(tmp_path / "reviews" / "4")
    with open_page._served_as(str(found)) as (served, base):
        assert served == name
        (only,) = Path(base).iterdir()
        assert (only.name, only.resolve()) == (version, found.resolve())
    assert not Path(base).exists()
    assert found.is_dir()


def test_the_reason_of_an_export_that_fails_is_said_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(
        open_page, "_PROGRAM", "import sys; print('Error: no'); sys.exit('Error: it is broken.')"
    )
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(open_page.tempfile, "tempdir", None)
    (tmp_path / "temporary").mkdir()
    (tmp_path / "a.keras").touch()
    failed = pytest.raises(ExportError, match="a.keras failed: it is broken")
    with failed, open_page._served_as(str(tmp_path / "a.keras")):
        pytest.fail("it was exported")
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.process
@pytest.mark.slow
def test_a_trained_model_is_exported_served_and_opened_until_ctrl_c(tmp_path):
    from keras_selfattn import models

    model = models.TextClassifier(models.TextConfig(width=12, num_layers=1, num_heads=3, ngram_buckets=64))
    model.compile()
    model.fit(["good film", "bad film"] * 20, ["+", "-"] * 20, epochs=1, verbose=0)
    model.save(tmp_path / "film.keras")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\necho \"$1\" >'{tmp_path}/opened'\n", encoding="utf-8")
    browser.chmod(0o755)
    words = [sys.executable, "-c", open_page._PROGRAM, "open", str(tmp_path / "film.keras")]
    environment = {**os.environ, "TMPDIR": str(temporary), "BROWSER": str(browser)}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # or TensorFlow's autograph leaves a __pycache__ there
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        timer = threading.Timer(SECONDS, process.kill)
        timer.start()
        try:
            url, before = address_in(process.stdout)
            origin, _, place = url.partition("/#")
            with urllib.request.urlopen(f"{origin}/page/models/film/versions/1/card", timeout=60) as answer:
                card = json.loads(answer.read())["card"]
            process.send_signal(signal.SIGINT)
            assert process.wait() == 0
        finally:
            timer.cancel()
            process.kill()
    assert before.startswith(f"{tmp_path}/film.keras is exported to a temporary folder first.")
    assert (place, card["task"]) == ("try/film", "text-classification")
    assert (tmp_path / "opened").read_text().strip() == url
    assert list(temporary.iterdir()) == []


def address_in(lines):
    """The address that a command prints, and the lines before it."""
    before = ""
    for line in lines:
        if line.startswith("Open "):
            return line.removeprefix("Open ").strip(), before
        before += line
    raise AssertionError(before)

"""The server of the page, the browser, and what tests look for on the page."""

import json
import os
import subprocess

import pytest
from ports import free_port

from keras_selfattn.serving.server import Server, ServerConfig

expect = pytest.importorskip("playwright.sync_api").expect
SECONDS = 60  # for what takes milliseconds where nothing else runs
expect.set_options(timeout=SECONDS * 1000)


class Served:
    """A server of all models, which can be stopped and started again on its ports."""

    def __init__(self, folder, **settings):
        self._config = ServerConfig(
            model_config_file=folder / "models.conf",
            port=free_port(),
            rest_api_port=free_port(),
            page=True,
            **settings,
        )
        self.url = f"http://127.0.0.1:{self._config.rest_api_port}"
        self.target = f"127.0.0.1:{self._config.port}"
        self.start()

    def start(self):
        self._server = Server(self._config).start()

    def stop(self):
        self._server.stop(grace=0)


class Opened:
    """A page in a context of its own, and what went wrong in it."""

    def __init__(self, browser, served, **settings):
        self.context = browser.new_context(viewport={"width": 1200, "height": 900}, **settings)
        self.context.set_default_timeout(SECONDS * 1000)
        self.page = self.context.new_page()
        self.url = served.url
        self.errors, self.requests, self.expected = [], [], []
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _on_console(self, message):
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def open(self, view, model):
        self.page.goto(f"{self.url}/#{view}/{model}")
        return self.page

    def close(self):
        """Close it; fail if it asked another origin, or an error was not among the expected ones."""
        errors = list(self.errors)  # before the end, which cuts off what the page is asking
        self.context.close()
        others = [url for url in self.requests if not url.startswith((f"{self.url}/", "blob:", "data:"))]
        assert not others, others
        unexpected = [error for error in errors if not any(each in error for each in self.expected)]
        assert not unexpected, unexpected


def answer(page):
    """The label in large letters, of the view that is shown."""
    return page.locator(".answer strong:visible")


def bars(page):
    """The names and figures of the bars that are shown."""
    shown = page.locator(".bars:visible li")
    names = shown.locator(".name").all_inner_texts()
    figures = shown.locator(".figure").all_inner_texts()
    return [(name.removesuffix(" ✓"), figure) for name, figure in zip(names, figures, strict=True)]


def curl_shown(page):
    page.locator("summary:visible").click()
    shown = page.locator(".snippet:visible pre")
    expect(shown.first).not_to_be_empty()
    return shown.all_inner_texts()


def answer_of_shell(command, **variables):
    """The output of a command, read as JSON; a shell reads the command as one that is pasted."""
    settings = {"capture_output": True, "timeout": SECONDS, "env": {**os.environ, **variables}}
    return json.loads(subprocess.run(["sh"], input=command.encode(), check=True, **settings).stdout)


def python_answer(program):
    """The object that the program gives to print()."""
    printed = []
    exec(compile(program, "shown", "exec"), {"print": printed.append})
    return printed[0]

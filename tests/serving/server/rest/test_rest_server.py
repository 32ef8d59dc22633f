"""A server inside a program leaves the program's own uvicorn alone, which is what answers REST here, too."""

import logging
import threading
import urllib.request

import pytest
import uvicorn

from keras_selfattn.serving.server import Server, ServerConfig

LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")


@pytest.fixture
def config(half_base):
    return ServerConfig("half", half_base, port=0, rest_api_port=-1)


def ask(url):
    with urllib.request.urlopen(url, timeout=20) as response:
        return response.status


def said(caplog):
    return [record.getMessage() for record in caplog.records if record.name.startswith("uvicorn")]


def logging_now():
    loggers = [logging.getLogger(name) for name in LOGGERS]
    return [(each.level, list(each.handlers), each.propagate, each.disabled) for each in loggers]


def test_the_loggers_are_as_they_were(config):
    access = logging.getLogger("uvicorn.access")
    handler = logging.NullHandler()
    access.addHandler(handler)
    try:
        before = logging_now()
        with Server(config) as server:
            assert ask(f"{server.rest_url}/v1/models/half") == 200
            assert logging_now() == before
        assert logging_now() == before
        assert logging.getLogger("uvicorn.error").filters == []
    finally:
        access.removeHandler(handler)


def test_it_says_nothing_of_its_own_start_requests_and_end(config, caplog):
    with caplog.at_level(logging.INFO), Server(config) as server:
        assert ask(f"{server.rest_url}/v1/models/half") == 200
    assert said(caplog) == []


async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"mine"})


def test_the_program_s_own_uvicorn_goes_on_saying_all(config, caplog, until):
    own = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="off", log_config=None))
    thread = threading.Thread(target=own.run)
    with caplog.at_level(logging.INFO), Server(config):
        thread.start()
        until(lambda: own.started)
        port = own.servers[0].sockets[0].getsockname()[1]
        assert ask(f"http://127.0.0.1:{port}/hello") == 200
        own.should_exit = True
        thread.join(20)
    words = "\n".join(said(caplog))
    assert "Started server process" in words
    assert "GET /hello" in words

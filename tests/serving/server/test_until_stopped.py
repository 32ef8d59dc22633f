"""A server ends by signals: running requests finish, and a second signal stops it at once."""

import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_a_slow_request_finish_and_ends_with_0(
    slow_base, spawn_server, in_background, until, number
):
    process, target = spawn_server(slow_base)
    with Client(target) as client:
        client.predict({"seconds": np.float32(0)})
        running = in_background(client.predict, {"seconds": np.float32(2)})
        threading.Event().wait(0.5)
        process.send_signal(number)
        assert running.result()["rounds"] > 0
        assert process.wait(20) == 0
        with pytest.raises(errors.UnavailableError):
            client.status()


@pytest.mark.process
def test_a_second_signal_stops_at_once(slow_base, spawn_server, in_background):
    process, target = spawn_server(slow_base)
    with Client(target) as client:
        client.predict({"seconds": np.float32(0)})
        running = in_background(client.predict, {"seconds": np.float32(300)}, timeout=100)
        threading.Event().wait(0.5)
        process.send_signal(signal.SIGTERM)
        threading.Event().wait(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert isinstance(running.exception(20), errors.UnavailableError | errors.CancelledError)


@pytest.mark.process
def test_a_signal_before_the_server_is_ready_ends_it_without_opening_the_port(half_base):
    code = f"""
import logging, signal, sys
from keras_selfattn.serving.server import ServerConfig, serve_forever

class Interrupt(logging.Handler):
    def emit(self, record):
        if "is available" in record.getMessage():
            signal.raise_signal(signal.SIGTERM)

logger = logging.getLogger("keras_selfattn.serving.server")
logger.setLevel(logging.INFO)
logger.addHandler(Interrupt())
sys.exit(serve_forever(ServerConfig("half", {str(half_base)!r}, port=0), lambda server: print("ready")))
"""
    result = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=99
    )
    assert (result.returncode, result.stdout) == (0, ""), result.stderr

"""Nobody takes the logs: a full disk, and a reader that has gone. The server goes on."""

import contextlib
import os
from pathlib import Path

import grpc
import numpy as np
import pytest
from served import SECONDS, predict_request, until
from serving_models import HalfPlusTwo, save


@contextlib.contextmanager
def full_disk():
    with Path("/dev/full").open("wb") as full:
        yield full


@contextlib.contextmanager
def closed_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.parametrize(
    ("output", "flags"),
    [(full_disk, []), (closed_pipe, ["--structured_logs"])],
    ids=["full disk", "closed pipe"],
)
def test_a_server_that_cannot_write_its_logs_answers_and_ends_as_ever(
    serve, half_base, tmp_path, output, flags
):
    loud = tmp_path / "loud"
    loud.mkdir()
    models = {"half": half_base, "loud": loud}
    with output() as nowhere:
        server = serve(models, "--file_system_poll_wait_seconds=0.05", *flags, stdout=nowhere, stderr=nowhere)
        server.wait()
    for version in range(1, 4):  # each is a line in the log
        save(HalfPlusTwo(b=float(version)), loud, version)
        asked = predict_request("loud", x=np.float32([version]))
        until(lambda asked=asked: server.call(asked)[0] is grpc.StatusCode.OK)
        server.assert_answers()
    assert server.end() == 0


def test_a_second_server_on_the_port_says_so_wherever_it_can_and_leaves_the_first_alone(serve, server):
    with full_disk() as full:
        second = serve(server.models, f"--port={server.port}", stdout=full)
        assert second.process.wait(3 * SECONDS) == 255
    (said,) = [line for line in second.log().splitlines() if "Failed to start server" in line]
    assert f"cannot listen on 127.0.0.1:{server.port}: Address already in use" in said
    assert "Stop what uses the port, or choose another port (0 takes any free one)" in said
    assert second.unexpected() == []

"""`status` lists versions, waits for them, and tells when nothing answers."""

import json

import pytest
from click.testing import CliRunner
from serving_texts import stock_texts

from keras_selfattn.cli.main import main


@pytest.fixture
def texts(stock_server):
    serving = stock_texts()
    serving.target = stock_server(serving)
    return serving


def invoke(serving, command, *arguments, stdin=None):
    target = getattr(serving, "target", serving)
    return CliRunner().invoke(main, [command, "m", *map(str, arguments), "--target", target], input=stdin)


def test_status_lists_versions_and_waits(texts):
    done = invoke(texts, "status")
    assert (done.exit_code, "AVAILABLE" in done.stdout) == (0, True)
    done = invoke(texts, "status", "--json", "--wait", "5", "--version", "3")
    assert json.loads(done.stdout) == {"version": 3, "state": "AVAILABLE", "code": "OK", "message": ""}
    assert invoke("127.0.0.1:1", "status", "--wait", "0.3").exit_code == 4


def test_status_tells_when_nothing_answers(raw_server):
    from keras_selfattn.serving.wire import messages_pb2 as pb

    ended = pb.ModelVersionStatus(version=2, state=pb.ModelVersionStatus.END)
    ended.status.error_code, ended.status.error_message = 5, "gone"
    answer = pb.GetModelStatusResponse(model_version_status=[ended]).SerializeToString()
    done = invoke(raw_server(lambda data, context: answer), "status")
    assert done.exit_code == 4
    assert "NOT_FOUND: gone" in done.stdout

"""Models that fail, hang, or answer with rows that nobody asked for, with batching on: each alone suffers."""

import json
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
import tensorflow as tf
from served import SECONDS, predict_request, until
from serving_models import save

from keras_selfattn.serving.wire import codec
from keras_selfattn.serving.wire import messages_pb2 as pb

CODE = grpc.StatusCode
CLIENTS = 16
THREADS = 4  # that run batches
BATCHING = f"""
    max_batch_size {{ value: 64 }}
    max_execution_batch_size {{ value: 8 }}
    enable_large_batch_splitting {{ value: true }}
    allowed_batch_sizes: 8
    batch_timeout_micros {{ value: 0 }}
    max_enqueued_batches {{ value: 1000 }}
    num_batch_threads {{ value: {THREADS} }}
"""


class Faulty(tf.Module):
    """Gives rows back, but for what its signatures are called after."""

    def __init__(self):
        super().__init__()
        self.zero = tf.Variable(0.0)

    def signatures(self):
        specs = [tf.TensorSpec([None], tf.float32, name="x")]
        functions = (self.fails_below_zero, self.twice, self.fewer, self.none, self.hangs)
        return {each.__name__: tf.function(each, input_signature=specs) for each in functions}

    def fails_below_zero(self, x):
        with tf.control_dependencies([tf.debugging.assert_non_negative(x, message="a row below zero")]):
            return {"y": x + self.zero}

    def twice(self, x):
        return {"y": tf.repeat(x + self.zero, 2)}

    def fewer(self, x):
        return {"y": x[1:] + self.zero}

    def none(self, x):
        return {"y": tf.reduce_max(x + self.zero)}

    def hangs(self, x):
        count = tf.while_loop(lambda i: i < 1e30, lambda i: [i + 1e-30], [self.zero + 0.0])
        return {"y": x + count[0]}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    module, folder = Faulty(), tmp_path_factory.mktemp("faulty")
    module.functions = module.signatures()
    save(module, folder, **module.functions)
    return folder


@pytest.fixture(scope="module")
def server(serve, base, half_base, tmp_path_factory):
    parameters = tmp_path_factory.mktemp("batching") / "batching.conf"
    parameters.write_text(BATCHING)
    flags = ["--enable_batching", f"--batching_parameters_file={parameters}"]
    flags += ["--shutdown_grace_seconds=2", "--rest_api_timeout_in_ms=2000"]
    return serve({"half": half_base, "faulty": base}, *flags).wait()


@pytest.fixture(autouse=True)
def _unharmed(server):
    yield
    if server.process.poll() is None:
        server.assert_answers()
    assert server.unexpected() == []


def ask(server, signature, rows, channel, timeout=SECONDS):
    """The code, and the rows or the words of the answer."""
    code, data = server.call(
        predict_request("faulty", signature, x=np.float32(rows)), channel=channel, timeout=timeout
    )
    if code is not CODE.OK:
        return code, data
    return code, codec.decode(pb.PredictResponse.FromString(data).outputs["y"]).tolist()


def ask_many(server, signature, many, timeout=SECONDS):
    """The answers to requests that are asked at the same time."""
    with grpc.insecure_channel(server.target) as channel, ThreadPoolExecutor(CLIENTS) as executor:
        return list(executor.map(lambda rows: ask(server, signature, rows, channel, timeout), many))


def test_rows_that_fail_are_refused_and_those_beside_them_answered(server):
    many = [[-number] if number % 5 == 4 else [number, number + 0.5] for number in range(200)]
    for rows, (code, answer) in zip(many, ask_many(server, "fails_below_zero", many), strict=True):
        if rows[0] < 0:
            assert code is CODE.INVALID_ARGUMENT
            assert "a row below zero" in answer
        else:
            assert (code, answer) == (CODE.OK, rows)


WRONG_ROWS = (
    CODE.FAILED_PRECONDITION,
    "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes of "
    "the input tensors",
)


@pytest.mark.parametrize("signature", ["twice", "fewer", "none"])
def test_nobody_gets_the_rows_of_another_from_a_model_that_returns_too_many_or_too_few(server, signature):
    many = [[float(number)] for number in range(200)]
    answers = ask_many(server, signature, many)
    assert [(rows, *answer) for rows, answer in zip(many, answers, strict=True) if answer != WRONG_ROWS] == []


def test_rows_that_are_run_in_pieces_are_joined_or_refused(server):
    rows = [float(number) for number in range(20)]  # two whole pieces and half of one
    assert ask_many(server, "fails_below_zero", [rows]) == [(CODE.OK, rows)]
    assert ask_many(server, "none", [rows[:16], rows]) == [WRONG_ROWS] * 2


def test_a_model_that_hangs_is_stopped_at_the_deadline_and_lets_others_answer(server):
    """More hang than run at the same time: were they not stopped, nobody else would ever be answered."""
    with ThreadPoolExecutor(1) as executor:
        hanging = executor.submit(ask_many, server, "hangs", [[number] for number in range(4 * THREADS)], 1)
        server.assert_answers()
        assert {code for code, _ in hanging.result()} == {CODE.DEADLINE_EXCEEDED}
    status, data = server.post(
        "/v1/models/faulty:predict", json.dumps({"signature_name": "hangs", "inputs": [1]}).encode()
    )
    assert (status, json.loads(data)) == (504, {"error": "Timed out waiting for notification"})


def test_the_drain_does_not_wait_for_a_model_that_hangs(server):
    """Comes last: it ends the server."""
    with ThreadPoolExecutor(1) as executor:
        hanging = executor.submit(ask_many, server, "hangs", [[1.0]], 20 * SECONDS)
        request = b'{"signature_name": "hangs", "inputs": [1]}'
        assert server.post("/v1/models/faulty:predict", request)[0] == 504  # so the one before runs by now
        assert server.end() == 0
        ((code, _),) = hanging.result()
        assert code in (CODE.UNAVAILABLE, CODE.CANCELLED)
    until(lambda: "running requests have 2 s to finish" in server.log())

"""Requests that wait are run together, and nobody notices but for the time it takes."""

import json
import logging
import re
import threading

import grpc
import numpy as np
import pytest
import tensorflow as tf
from serving_models import save, save_tf1
from tensorflow_serving.apis import prediction_service_pb2_grpc, regression_pb2

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.batching import batch_queue
from keras_selfattn.serving.server.runtime.batching_parameters import BatchingParameters, batching_parameters
from keras_selfattn.serving.wire import codec
from keras_selfattn.serving.wire import messages_pb2 as pb


class Rows(tf.Module):
    """Squares of rows; a row that begins with 13 fails. And outputs whose shapes are not the rows'."""

    def __init__(self):
        super().__init__()
        self.zero = tf.Variable(0.0)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32, name="x")])
    def serve(self, x):
        checked = tf.debugging.assert_none_equal(x[:, 0], 13.0, message="a row of bad luck")
        with tf.control_dependencies([checked]):
            return {"y": tf.reduce_sum(x * x, axis=1) + self.zero}

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32, name="x")])
    def widest(self, x):
        return {"y": x + self.zero}

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32, name="x")])
    def total(self, x):
        return {"sum": tf.reduce_sum(x) + self.zero}


class Sizes(tf.Module):
    """Stands for a model that writes texts, by its card; it answers with the bytes of each."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(self, text):
        return {"y": tf.strings.length(text)}


def with_card(version, **more):
    (version / "assets.extra").mkdir(exist_ok=True)
    (version / "assets.extra" / "model_card.json").write_text(json.dumps({"format": 1, "files": {}, **more}))


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    module = Rows()
    version = save(module, folder, serving_default=module.serve, widest=module.widest, total=module.total)
    with_card(version)
    return folder


@pytest.fixture(scope="module")
def plain_base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    module = Rows()
    save(module, folder, serving_default=module.serve, widest=module.widest, total=module.total)
    return folder


class Gate:
    """Holds a model's runs up; notes how many rows each has."""

    def __init__(self, server, model="rows"):
        self.sizes = []
        self._server = server
        self._open = threading.Semaphore(0)
        self.model = server.models._models[model]
        with self.model.loaded.lease(None) as servable:
            self._run = servable.run
        servable.run = self._noted

    def _noted(self, feeds, fetches, timeout):
        self.sizes.append(next(array.shape for array in feeds.values()))
        assert self._open.acquire(timeout=30)
        return self._run(feeds, fetches, timeout)

    def let(self, runs):
        for _ in range(runs):
            self._open.release()

    def counted(self):
        """The server's metrics of batches, but for the buckets."""
        lines = [line.rsplit(" ", 1) for line in self._server._metrics.text().splitlines()]
        prefix = ":tensorflow:serving:batching_session:"
        return {
            name.removeprefix(prefix): float(value)
            for name, value in lines
            if name.startswith(prefix) and "_bucket" not in name
        }


@pytest.fixture
def serve(in_background, until):
    """Serves a base path; gives a function that asks in the background, and the gate."""
    opened = []

    def start(base, **settings):
        server = Server(ServerConfig("rows", base, port=0, **settings)).start()
        client = Client(server.target, "rows", timeout=60)
        opened.extend([client.close, lambda: server.stop(grace=0)])
        gate = Gate(server)

        def ask(x, signature="serving_default"):
            running = gate.model.running
            future = in_background(client.predict, {"x": np.float32(x)}, signature)
            until(lambda: gate.model.running == running + 1)
            return future

        gate.client = client
        return ask, gate

    yield start
    for close in opened:
        close()


def one_thread(tmp_path, more=""):
    """Batching by the flags, with a single thread so that what comes second waits."""
    file = tmp_path / "batching.conf"
    file.write_text(f"num_batch_threads {{ value: 1 }} {more}")
    return {"enable_batching": True, "batching_parameters_file": file}


def gauges(gate):
    """The number of requests that wait, and True if one has no answer yet."""
    text = gate._server._metrics.text({"rows": [1]})
    found = {}
    for name in ("waiting_requests", "oldest_request_age_seconds"):
        assert f"# TYPE :tensorflow:serving:{name} gauge\n" in text
        (found[name],) = re.findall(rf'^:tensorflow:serving:{name}{{model_name="rows"}} (.*)$', text, re.M)
    return int(found["waiting_requests"]), float(found["oldest_request_age_seconds"]) > 0


@pytest.mark.parametrize("batching", [True, False])
def test_gauges_tell_what_waits_and_how_long(serve, plain_base, tmp_path, until, batching):
    one = one_thread(tmp_path) if batching else {"grpc_max_threads": 1}
    ask, gate = serve(plain_base, **one)
    assert gauges(gate) == (0, False)
    first = ask([[1.0, 2.0]])
    until(lambda: gauges(gate) == (0, True))
    others = [ask([[1.0, 2.0]]) for _ in range(2)]
    until(lambda: gauges(gate) == (2, True))
    gate.let(3)
    for each in (first, *others):
        each.result()
    assert gauges(gate) == (0, False)


@pytest.fixture
def lone_thread(monkeypatch):
    """The server's own batching, with a single thread."""
    monkeypatch.setattr(
        "keras_selfattn.serving.server.server.batching_parameters",
        lambda config: BatchingParameters(num_batch_threads=1),
    )


def answers(*futures):
    return [future.result(60)["y"].tolist() for future in futures]


@pytest.mark.usefixtures("lone_thread")
def test_what_arrives_during_a_run_is_run_together_and_each_gets_its_own_rows(base, serve, until):
    ask, gate = serve(base)
    first = ask([[1, 2]])
    until(lambda: gate.sizes == [(1, 2)])
    second, third, fourth = ask([[3, 4]]), ask([[5, 6], [7, 8]]), ask([[1, 1]])
    gate.let(2)
    assert answers(first, second, third, fourth) == [[5.0], [25.0], [61.0, 113.0], [2.0]]
    assert gate.sizes == [(1, 2), (4, 2)]
    counted = gate.counted()
    assert counted.pop('queuing_latency_sum{thread_pool_name=""}') > 0
    assert counted == {
        'queuing_latency_count{thread_pool_name=""}': 4,
        "input_batch_size_count{}": 4,
        "input_batch_size_sum{}": 5,
        "processed_batch_size_count{}": 2,
        "processed_batch_size_sum{}": 5,
        'padding_size_count{execution_batch_size="1"}': 1,
        'padding_size_sum{execution_batch_size="1"}': 0,
        'padding_size_count{execution_batch_size="4"}': 1,
        'padding_size_sum{execution_batch_size="4"}': 0,
        "wrapped_run_count{}": 2,
    }


@pytest.fixture
def threads(monkeypatch):
    """Sets the threads of the server's own batching, and for how long it remembers the most rows."""

    def set_to(count, remembered=1e-9):
        monkeypatch.setattr(batch_queue, "HALF_LIFE_SECONDS", remembered)
        monkeypatch.setattr(batch_queue, "_LONG_SECONDS", 1e9)  # the gate makes all runs long
        monkeypatch.setattr(
            "keras_selfattn.serving.server.server.batching_parameters",
            lambda config: BatchingParameters(num_batch_threads=count),
        )

    return set_to


def test_few_clients_have_a_thread_each_and_share_what_more_of_them_ask(base, serve, until, threads):
    threads(2)
    ask, gate = serve(base)
    futures = [ask([[1, 2]])]
    until(lambda: len(gate.sizes) == 1)
    futures.append(ask([[1, 2]]))
    until(lambda: len(gate.sizes) == 2)
    futures += [ask([[1, 2]]) for _ in range(7)]
    gate.let(1)
    until(lambda: len(gate.sizes) == 3)  # of 8 rows a half
    gate.let(1)
    until(lambda: len(gate.sizes) == 4)
    gate.let(2)
    assert answers(*futures) == [[5.0]] * 9
    assert gate.sizes == [(1, 2), (1, 2), (4, 2), (3, 2)]


def test_a_run_starts_beside_another_when_it_has_its_share(base, serve, until, threads):
    threads(3)
    ask, gate = serve(base)
    first = ask([[1, 2]])
    gate.let(1)
    answers(first)  # from here on it is known how long a row takes
    gate.sizes.clear()
    futures = [ask(np.ones((8, 2)))]
    until(lambda: len(gate.sizes) == 1)
    futures += [ask(np.ones((2, 2))), ask([[1, 2, 3]])]
    until(lambda: gate.sizes == [(8, 2), (1, 3)])  # another kind does not wait for the first
    futures.append(ask(np.ones((2, 2))))  # 4 rows of 13
    until(lambda: gate.sizes == [(8, 2), (1, 3), (4, 2)])
    gate.let(3)
    assert [len(each) for each in answers(*futures)] == [8, 2, 1, 2]


def test_shares_are_of_the_most_rows_that_there_were_lately(base, serve, until, threads):
    threads(2, remembered=1e9)
    ask, gate = serve(base)
    futures = [ask(np.ones((2, 2))), ask(np.ones((2, 2)))]
    until(lambda: len(gate.sizes) == 2)
    gate.let(2)
    assert answers(*futures) == [[2.0] * 2] * 2
    futures = [ask([[1, 2]])]
    until(lambda: len(gate.sizes) == 3)
    futures.append(ask([[1, 2]]))  # clients were more, and may ask again
    futures.append(ask([[1, 2]]))
    until(lambda: len(gate.sizes) == 4)
    gate.let(2)
    assert answers(*futures) == [[5.0]] * 3
    assert gate.sizes == [(2, 2), (2, 2), (1, 2), (2, 2)]


def test_what_is_soon_done_waits_for_a_run_instead_of_making_one(base, serve, until, threads, monkeypatch):
    monkeypatch.setattr(batch_queue, "_WORTH_SECONDS", 1e9)
    threads(2)
    ask, gate = serve(base)
    futures = [ask([[1, 2]])]
    until(lambda: len(gate.sizes) == 1)
    gate.let(1)
    answers(*futures)  # from here on it is known how long a row takes
    futures += [ask([[1, 2]])]
    until(lambda: len(gate.sizes) == 2)
    futures += [ask([[1, 2]]) for _ in range(3)]
    gate.let(2)
    assert answers(*futures) == [[5.0]] * 5
    assert gate.sizes == [(1, 2), (1, 2), (3, 2)]


def test_rows_that_nobody_waits_for_any_more_are_in_nobodys_share(base, serve, until, threads):
    threads(2)
    ask, gate = serve(base)
    futures = [ask([[1, 2]]), ask([[1, 2]])]
    until(lambda: len(gate.sizes) == 2)
    for _ in range(6):
        with pytest.raises(errors.DeadlineExceededError):
            gate.client.predict({"x": np.float32([[1, 2]])}, timeout=0.05)
    until(lambda: gate.model.running == 2)
    gate.let(2)
    assert answers(*futures) == [[5.0]] * 2
    futures = [ask([[1, 2]]), ask([[1, 2]])]
    until(lambda: gate.sizes == [(1, 2)] * 4)
    gate.let(2)
    assert answers(*futures) == [[5.0]] * 2


@pytest.mark.usefixtures("lone_thread")
def test_a_run_takes_no_more_rows_than_fit_and_a_large_request_runs_by_itself(base, serve, until):
    ask, gate = serve(base)
    waiting = [ask([[1, 2]])]
    until(lambda: len(gate.sizes) == 1)
    waiting += [ask(np.ones((rows, 2))) for rows in (40, 24, 1)]
    large = ask(np.ones((65, 2)))
    until(lambda: len(gate.sizes) == 2)  # beside the batch, not behind it
    gate.let(4)
    assert [len(each) for each in answers(*waiting, large)] == [1, 40, 24, 1, 65]
    assert sorted(gate.sizes) == [(1, 2), (1, 2), (64, 2), (65, 2)]


@pytest.mark.usefixtures("lone_thread")
def test_rows_of_other_lengths_and_signatures_are_run_apart(base, serve, until):
    ask, gate = serve(base)
    first = ask([[1, 2]])
    until(lambda: len(gate.sizes) == 1)
    others = [ask([[1, 2, 3]]), ask([[2, 2]]), ask([[2, 2, 2]])]
    gate.let(3)
    assert answers(first, *others) == [[5.0], [14.0], [8.0], [12.0]]
    assert sorted(gate.sizes) == [(1, 2), (1, 2), (2, 3)]


@pytest.mark.usefixtures("lone_thread")
@pytest.mark.parametrize(("card", "apart"), [({"decoding": {"row_bytes": 1}}, True), ({}, False)])
def test_texts_of_other_lengths_are_run_apart_where_a_model_writes(
    serve, until, tmp_path, in_background, card, apart
):
    module = Sizes()
    of_ours = {"files": {"digest": "sha256:", "bytes": 0}, **card}
    with_card(save(module, tmp_path / "sizes", serving_default=module.serve), **of_ours)
    _, gate = serve(tmp_path / "sizes")

    def ask(size):
        running = gate.model.running
        future = in_background(gate.client.predict, {"text": ["x" * size]})
        until(lambda: gate.model.running == running + 1)
        return future

    futures = [ask(1)]
    until(lambda: len(gate.sizes) == 1)
    futures += [ask(size) for size in (200, 3, 201, 2)]
    gate.let(3)
    assert answers(*futures) == [[1], [200], [3], [201], [2]]
    assert gate.sizes == ([(1,), (2,), (2,)] if apart else [(1,), (4,)])


@pytest.mark.usefixtures("lone_thread")
def test_outputs_as_wide_as_the_longest_row_are_never_batched_by_default(base, serve, until):
    ask, gate = serve(base)
    futures = [ask([[1, 2]], "widest") for _ in range(3)]
    until(lambda: len(gate.sizes) == 3)
    gate.let(3)
    assert answers(*futures) == [[[1.0, 2.0]]] * 3


@pytest.mark.usefixtures("lone_thread")
def test_a_model_without_our_card_is_batched_only_when_asked_to(plain_base, serve, until):
    ask, gate = serve(plain_base)
    futures = [ask([[1, 2]]) for _ in range(3)]
    until(lambda: len(gate.sizes) == 3)
    gate.let(3)
    assert answers(*futures) == [[5.0]] * 3


@pytest.mark.usefixtures("lone_thread")
def test_a_row_that_fails_is_refused_by_itself(base, serve, until):
    ask, gate = serve(base)
    first = ask([[1, 2]])
    until(lambda: len(gate.sizes) == 1)
    bad, good = ask([[13, 0]]), ask([[3, 4]])
    gate.let(4)
    assert answers(first, good) == [[5.0], [25.0]]
    with pytest.raises(errors.InvalidArgumentError, match="a row of bad luck"):
        bad.result(60)
    assert gate.sizes == [(1, 2), (2, 2), (1, 2), (1, 2)]
    counted = gate.counted()
    assert counted["wrapped_run_count{}"] == 4
    assert counted['queuing_latency_count{thread_pool_name=""}'] == 3


def test_requests_that_expire_or_are_cancelled_leave_the_queue(base, in_background, until, monkeypatch):
    monkeypatch.setattr(
        "keras_selfattn.serving.server.server.batching_parameters",
        lambda config: BatchingParameters(num_batch_threads=1),
    )
    with (
        Server(ServerConfig("rows", base, port=0)) as server,
        Client(server.target, "rows", timeout=60) as client,
        grpc.insecure_channel(server.target) as channel,
    ):
        gate = Gate(server)
        first = in_background(client.predict, {"x": np.float32([[1, 2]])})
        until(lambda: len(gate.sizes) == 1)
        with pytest.raises(errors.DeadlineExceededError):
            client.predict({"x": np.float32([[3, 4]])}, timeout=0.3)
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        inputs = {"x": codec.encode(np.float32([[5, 6]]))}
        request = pb.PredictRequest(model_spec=pb.ModelSpec(name="rows"), inputs=inputs)
        cancelled = call.future(request.SerializeToString())
        until(lambda: gate.model.running == 2)
        cancelled.cancel()
        until(lambda: gate.model.running == 1)
        last = in_background(client.predict, {"x": np.float32([[7, 8]])})
        until(lambda: gate.model.running == 2)
        gate.let(2)
        assert answers(first, last) == [[5.0], [113.0]]
        assert gate.sizes == [(1, 2), (1, 2)]


def test_batching_by_the_flags_takes_any_model_and_pads_where_told_to(plain_base, serve, until, tmp_path):
    more = (
        "pad_variable_length_inputs: true allowed_batch_sizes: 4 allowed_batch_sizes: 8 "
        "max_batch_size { value: 8 }"
    )
    ask, gate = serve(plain_base, **one_thread(tmp_path, more))
    first = ask([[1, 2]])
    until(lambda: len(gate.sizes) == 1)
    others = [ask([[1, 2, 3]]), ask([[2, 2], [3, 3]])]
    gate.let(2)
    # What is missing repeats a tensor's first element: 2 2 2, and 3 3 2.
    assert answers(first, *others) == [[5.0], [14.0], [12.0, 22.0]]
    assert gate.sizes == [(4, 2), (4, 3)]
    counted = gate.counted()
    assert counted["processed_batch_size_sum{}"] == 8
    assert counted['padding_size_sum{execution_batch_size="4"}'] == 4


@pytest.mark.slow
def test_the_parameters_bound_tasks_and_queues(plain_base, serve, until, tmp_path):
    more = "max_batch_size { value: 2 } max_enqueued_batches { value: 1 }"
    ask, gate = serve(plain_base, **one_thread(tmp_path, more))
    first = ask([[1, 2]])
    until(lambda: len(gate.sizes) == 1)
    second = ask([[1, 2], [3, 4]])
    client = gate.client
    with pytest.raises(errors.UnavailableError) as full:
        client.predict({"x": np.float32([[1, 1]])}, timeout=5)
    assert full.value.details == "The batch scheduling queue to which this task was submitted is full"
    with pytest.raises(errors.InvalidArgumentError) as large:
        client.predict({"x": np.ones((3, 2), np.float32)}, timeout=5)
    assert large.value.details == "Task size 3 is larger than maximum input batch size 2"
    gate.let(2)
    assert answers(first, second) == [[5.0], [5.0, 25.0]]
    # What is refused has been asked for, once for each of the client's tries, and is never run.
    assert gate.counted()["input_batch_size_count{}"] >= 4
    assert gate.counted()["processed_batch_size_sum{}"] == 3


def test_large_requests_are_split_where_told_to(plain_base, serve, tmp_path):
    more = (
        "max_batch_size { value: 8 } enable_large_batch_splitting { value: true } "
        "max_execution_batch_size { value: 3 }"
    )
    ask, gate = serve(plain_base, **one_thread(tmp_path, more))
    x = np.arange(14).reshape(7, 2)
    asked = ask(x)
    gate.let(3)
    assert answers(asked) == [(x * x).sum(axis=1).tolist()]
    assert gate.sizes == [(3, 2), (3, 2), (1, 2)]


def test_a_batch_that_is_not_full_waits_as_long_as_it_is_told(plain_base, serve, tmp_path):
    more = "max_batch_size { value: 3 } batch_timeout_micros { value: 60000000 }"
    ask, gate = serve(plain_base, **one_thread(tmp_path, more))
    futures = [ask([[1, 2]]) for _ in range(3)]
    gate.let(1)
    assert answers(*futures) == [[5.0]] * 3
    assert gate.sizes == [(3, 2)]


def with_own_parameters(tmp_path, text):
    """A model without our card, whose version brings parameters along."""
    module = Rows()
    version = save(module, tmp_path / "own", serving_default=module.serve)
    (version / "batching_params.pbtxt").write_text(text)
    return tmp_path / "own"


PER_MODEL = {"enable_per_model_batching_parameters": True}


def test_a_version_is_batched_as_its_own_file_says(serve, until, tmp_path):
    own = "max_batch_size { value: 4 } allowed_batch_sizes: 4 num_batch_threads { value: 7 }"
    base = with_own_parameters(tmp_path, own)
    # Of the server's file only the threads count, which all models share.
    ask, gate = serve(base, **one_thread(tmp_path, "max_batch_size { value: 2 }"), **PER_MODEL)
    first = ask([[1, 2]])
    until(lambda: len(gate.sizes) == 1)
    others = [ask([[3, 4]]), ask([[1, 1], [2, 2]])]
    gate.let(2)
    assert answers(first, *others) == [[5.0], [25.0], [2.0, 8.0]]
    assert gate.sizes == [(4, 2), (4, 2)]


def test_without_the_flag_a_version_s_own_file_is_ignored(serve, tmp_path):
    base = with_own_parameters(tmp_path, "max_batch_size { value: 4 } allowed_batch_sizes: 4")
    ask, gate = serve(base, **one_thread(tmp_path))
    asked = ask([[1, 2]])
    gate.let(1)
    assert answers(asked) == [[5.0]]
    assert gate.sizes == [(1, 2)]


def test_a_version_without_a_file_of_its_own_is_not_batched_by_the_flags(
    plain_base, base, serve, until, tmp_path
):
    ask, gate = serve(plain_base, **one_thread(tmp_path), **PER_MODEL)
    futures = [ask([[1, 2]]) for _ in range(3)]
    until(lambda: len(gate.sizes) == 3)
    gate.let(3)
    assert answers(*futures) == [[5.0]] * 3
    # One with our card is batched as it is without any flag: 64 rows, and not the 2 of the server's file.
    ask, gate = serve(base, **one_thread(tmp_path, "max_batch_size { value: 2 }"), **PER_MODEL)
    futures = [ask([[1, 2]])]
    until(lambda: len(gate.sizes) == 1)
    futures += [ask([[1, 2]]) for _ in range(3)]
    gate.let(2)
    assert answers(*futures) == [[5.0]] * 4
    assert gate.sizes == [(1, 2), (3, 2)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("size: 3", "2/batching_params.pbtxt': Error parsing text-format tensorflow.serving."),
        (
            "max_batch_size { value: 8 } allowed_batch_sizes: 4",
            "batching_params.pbtxt: Last entry in",
        ),
    ],
)
def test_a_wrong_file_keeps_its_version_from_serving_and_no_other(tmp_path, until, text, words):
    base = with_own_parameters(tmp_path, "")
    newer = save(Rows(), tmp_path / "away", 2)
    (newer / "batching_params.pbtxt").write_text(text)
    config = ServerConfig(
        "rows", base, port=0, enable_batching=True, file_system_poll_wait_seconds=0.02, **PER_MODEL
    )
    with Server(config) as server, Client(server.target, "rows") as client:
        newer.rename(base / "2")
        until(lambda: len(client.status()) == 2 and client.status()[0].message)
        assert words in client.status()[0].message
        assert str(tmp_path) not in client.status()[0].message
        assert client.predict({"x": np.float32([[1, 2]])})["y"].tolist() == [5.0]
        (base / "2" / "batching_params.pbtxt").write_text("max_batch_size { value: 8 }")
        until(lambda: server.models.available() == {"rows": [2]})


def test_own_parameters_without_batching_are_told_to_have_no_effect(plain_base, caplog):
    assert batching_parameters(ServerConfig("m", plain_base, **PER_MODEL)) == BatchingParameters()
    assert "no effect without --enable_batching" in caplog.text


def test_inputs_without_rows_are_refused_where_all_is_batched(half_base):
    config = ServerConfig("half", half_base, port=0, enable_batching=True)
    with Server(config) as server, Client(server.target, "half") as client:
        assert client.predict({"x": np.float32([2])})["y"].tolist() == [3.0]
        call = {"left": np.ones((2, 3), "f4"), "right": np.ones((3, 5), "f4")}
        with pytest.raises(errors.InvalidArgumentError, match="must have equal 0th-dimension size"):
            client.predict(call, "matmul")


def test_examples_are_batched_too(tmp_path):
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # TensorFlow 1's functions are all deprecated
    save_tf1(tmp_path / "model", 1)
    settings = one_thread(tmp_path)
    with (
        Server(ServerConfig("rows", tmp_path / "model", port=0, **settings)) as server,
        grpc.insecure_channel(server.target) as channel,
    ):
        gate = Gate(server)
        gate.let(10)
        request = regression_pb2.RegressionRequest()
        request.model_spec.name, request.model_spec.signature_name = "rows", "regress_x_to_y"
        for value in (2, 4):
            feature = request.input.example_list.examples.add().features.feature["x"]
            feature.float_list.value.append(value)
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        answer = stub.Regress(request, timeout=20)
        assert [each.value for each in answer.result.regressions] == [3.0, 4.0]

"""Short runs stay in the thread that asks for them; those that may not end never do."""

import time
from contextlib import closing

import numpy as np
import pytest
import serving_models as models
import tensorflow as tf

from keras_selfattn.serving import errors
from keras_selfattn.serving.server import ServerConfig, servable
from keras_selfattn.serving.server.loading import Loader
from keras_selfattn.serving.server.metrics import Metrics
from keras_selfattn.serving.server.short_runs import ShortRuns, may_stay, size_of


@pytest.fixture
def stayed(monkeypatch):
    """Whether each run stayed in its thread."""
    seen = []
    run = servable._session_run

    def spied(session, options, *rest):
        seen.append(options is servable._IN_THIS_THREAD)
        return run(session, options, *rest)

    monkeypatch.setattr(servable, "_session_run", spied)
    return seen


def loaded(path, **settings):
    return closing(Loader(ServerConfig("m", "m", **settings), Metrics()).load("m", 1, path))


def run(version, *numbers, timeout=10.0):
    signature = version.signatures["serving_default"]
    (fed,), (fetched,) = signature.inputs.values(), signature.outputs.values()
    shape = np.shape(numbers) if fed.tensor_shape.dim else ()
    feeds = {fed.name: np.float32(numbers).reshape(shape)}
    (array,) = version.run(feeds, [fetched.name], timeout)
    return array


def test_a_run_stays_when_others_of_its_size_were_short(half_base, stayed):
    with loaded(half_base / "3") as half:
        for _ in range(30):  # of which the first prepares the graph
            assert run(half, 2.0).tolist() == [3.0]
        assert (stayed[0], stayed[-1]) == (False, True)
        assert run(half, *range(1000))[:3].tolist() == [2.0, 2.5, 3.0]
        assert not stayed[-1]


@pytest.mark.parametrize("setting", ["tensorflow_inter_op_parallelism", "tensorflow_session_parallelism"])
def test_no_run_stays_where_the_operator_has_chosen_threads(half_base, stayed, setting):
    with loaded(half_base / "3", **{setting: 2}) as half:
        for _ in range(30):
            run(half, 2.0)
    assert not any(stayed)


def test_a_run_that_may_not_end_has_its_deadline_however_short_the_others_were(slow_base, stayed):
    with loaded(slow_base / "1") as slow:
        for _ in range(30):
            run(slow, 0.0)
        started = time.monotonic()
        with pytest.raises(errors.DeadlineExceededError):
            run(slow, 60.0, timeout=0.1)
        assert time.monotonic() - started < 30
    assert not any(stayed)


def test_loops_of_a_model_with_this_projects_card_end(slow_base, stayed, tmp_path):
    models.save(models.Slow(), tmp_path)
    (tmp_path / "1" / "assets.extra").mkdir()
    (tmp_path / "1" / "assets.extra" / "model_card.json").write_text("{}")
    with loaded(tmp_path / "1") as slow:
        for _ in range(30):
            run(slow, 0.0)
    assert stayed[-1]


def test_what_a_run_failed_with_is_the_same_in_its_thread(half_base, stayed):
    with loaded(half_base / "3") as half:
        for _ in range(30):
            run(half, 2.0)
        signature = half.signatures["matmul"]
        feeds = {info.name: np.zeros((1, 3), np.float32) for info in signature.inputs.values()}
        fetches = [info.name for info in signature.outputs.values()]
        messages = set()
        for _ in range(30):
            with pytest.raises(errors.InvalidArgumentError) as caught:
                half.run(feeds, fetches, 10.0)
            messages.add(str(caught.value))
    assert stayed[-1]
    assert len(messages) == 1


def graph_of(function):
    return function.get_concrete_function().graph.as_graph_def()


def test_loops_are_found_in_functions_of_functions():
    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
    def inner(x):
        return tf.while_loop(lambda i: i < x, lambda i: [i + 1], [tf.constant(0)])[0]

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
    def outer(x):
        return inner(x) + 1

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
    def plain(x):
        return tf.cond(x > 1, lambda: x + 1, lambda: x)

    assert may_stay(graph_of(outer))
    assert not may_stay(graph_of(plain))


def test_loops_and_queues_of_tensorflow_1_are_found():
    v1 = tf.compat.v1
    with tf.Graph().as_default() as looping:
        v1.disable_control_flow_v2()
        try:
            tf.while_loop(lambda i: i < 3, lambda i: [i + 1], [tf.constant(0)])
        finally:
            v1.enable_control_flow_v2()
    with tf.Graph().as_default() as waiting:
        tf.queue.FIFOQueue(1, [tf.float32]).dequeue()
    assert may_stay(looping.as_graph_def())
    assert may_stay(waiting.as_graph_def())


def test_what_is_expected_follows_what_is_seen():
    runs = ShortRuns(ends=True)
    assert not runs.expected(0)
    runs.took(0, 0.001)
    assert runs.expected(0)
    for _ in range(3):
        runs.took(0, 0.1)
    assert not runs.expected(0)
    for _ in range(30):
        runs.took(0, 0.001)
    assert runs.expected(0)
    assert not ShortRuns(ends=False).expected(0)


def test_the_size_of_an_input_is_its_strings_too():
    strings = np.array([[b"abc", b""], [b"d", b"ef"]], dtype=object)
    assert size_of([strings, np.zeros((2, 3), np.float32)]) == 6 + 24
    assert size_of([np.array(b"abc", dtype=object)]) == 3

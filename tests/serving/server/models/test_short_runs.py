"""Short runs stay in the thread that asks for them; those that may not end never do."""

import time
from contextlib import closing

import numpy as np
import pytest
import serving_models as models
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_selfattn.export import export_saved_model
from keras_selfattn.models import TextClassifier, TextConfig
from keras_selfattn.serving import errors
from keras_selfattn.serving.server import ServerConfig
from keras_selfattn.serving.server.models import saved_model_servable
from keras_selfattn.serving.server.models.loader import Loader
from keras_selfattn.serving.server.models.saved_model_servable import ShortRuns, is_sure_to_end, kind_of_run


@pytest.fixture
def stayed(monkeypatch):
    """True for each run that stayed in its thread."""
    seen = []
    run = saved_model_servable._session_run

    def spied(session, options, *rest):
        seen.append(options is saved_model_servable._IN_THIS_THREAD)
        return run(session, options, *rest)

    monkeypatch.setattr(saved_model_servable, "_session_run", spied)
    return seen


def loaded(path, **settings):
    return closing(Loader(ServerConfig("m", "m", **settings)).load("m", 1, path))


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


def test_a_search_for_answers_has_its_deadline_however_short_the_others_were(stayed, tmp_path):
    models.save(models.Slow(), tmp_path)
    (tmp_path / "1" / "assets.extra").mkdir()
    card = '{"format": 1, "files": {"bytes": 1, "digest": ""}, "decoding": {"row_bytes": 100}}'
    (tmp_path / "1" / "assets.extra" / "model_card.json").write_text(card)
    with loaded(tmp_path / "1") as slow:
        for _ in range(30):
            run(slow, 0.0)
        started = time.monotonic()
        with pytest.raises(errors.DeadlineExceededError):
            run(slow, 60.0, timeout=0.1)
        assert time.monotonic() - started < 30
    assert not any(stayed)


def test_what_a_run_failed_with_is_the_same_in_its_thread(half_base, stayed):
    with loaded(half_base / "3") as half:
        signature = half.signatures["matmul"]
        fetches = [info.name for info in signature.outputs.values()]

        def feeds(right):
            arrays = {"left": np.ones((1, 3), np.float32), "right": np.ones(right, np.float32)}
            return {signature.inputs[alias].name: array for alias, array in arrays.items()}

        messages = []
        for _ in range(2):
            with pytest.raises(errors.InvalidArgumentError) as caught:
                half.run(feeds((1, 3)), fetches, 10.0)
            messages.append(str(caught.value))
            for _ in range(30):
                half.run(feeds((3, 1)), fetches, 10.0)
    assert (stayed[0], stayed[31], stayed[-1]) == (False, True, True)
    assert messages[0] == messages[1]


def test_what_failed_tells_nothing_of_runs_of_its_kind(half_base, stayed):
    with loaded(half_base / "3") as half:
        signature = half.signatures["matmul"]
        feeds = {info.name: np.zeros((1, 3), np.float32) for info in signature.inputs.values()}
        fetches = [info.name for info in signature.outputs.values()]
        for _ in range(30):
            with pytest.raises(errors.InvalidArgumentError):
                half.run(feeds, fetches, 10.0)
    assert not any(stayed)


def graph_of(function):
    return function.get_concrete_function().graph.as_graph_def()


INTEGER = [tf.TensorSpec([], tf.int32)]


@tf.function(input_signature=INTEGER)
def plain(x):
    return tf.cond(x > 1, lambda: x + 1, lambda: x)


@tf.function(input_signature=INTEGER)
def looping(x):
    return tf.while_loop(lambda i: i < x, lambda i: [i + 1], [tf.constant(0)])[0]


@tf.function(input_signature=INTEGER)
def looping_inside(x):
    return looping(x) + 1


@tf.function(input_signature=INTEGER)
def counting(x):
    body = tf.function(lambda _, y: y + 1, input_signature=INTEGER * 2).get_concrete_function()
    return tf.raw_ops.For(start=0, limit=x, delta=1, input=[x], body=body)[0]


@tf.function(input_signature=INTEGER)
def reading(x):
    return tf.data.Dataset.range(tf.cast(x, tf.int64)).reduce(np.int64(0), lambda a, b: a + b)


@tf.function(input_signature=INTEGER)
def waiting(x):
    return tf.raw_ops.BatchFunction(
        in_tensors=[x[None]],
        captured_tensors=[],
        f=plain.get_concrete_function(),
        num_batch_threads=1,
        max_batch_size=1,
        batch_timeout_micros=1,
        Tout=[tf.int32],
    )[0]


@tf.function(input_signature=INTEGER)
def calling_a_lot(x):
    one_more = tf.function(lambda y: y + 1, input_signature=INTEGER)
    for _ in range(400):
        x = one_more(x)
    return x


@tf.function(input_signature=INTEGER)
def calling_what_is_not_inlined(x):
    return tf.function(lambda y: y + 1, input_signature=INTEGER, experimental_attributes={"_noinline": True})(
        x
    )


@pytest.mark.parametrize(
    "function",
    [looping, looping_inside, counting, reading, waiting, calling_a_lot, calling_what_is_not_inlined],
    ids=lambda function: function.__name__,
)
def test_graphs_that_may_go_on_or_wait_or_nest_are_found(function):
    assert not is_sure_to_end(graph_of(function), loops_end=False)


def test_graphs_that_end_are_found():
    assert is_sure_to_end(graph_of(plain), loops_end=False)


def test_a_card_speaks_for_loops_alone():
    assert is_sure_to_end(graph_of(looping_inside), loops_end=True)
    for function in (counting, reading, waiting, calling_a_lot):
        assert not is_sure_to_end(graph_of(function), loops_end=True)


def test_loops_and_queues_of_tensorflow_1_are_found():
    v1 = tf.compat.v1
    with tf.Graph().as_default() as looping_graph:
        v1.disable_control_flow_v2()
        try:
            tf.while_loop(lambda i: i < 3, lambda i: [i + 1], [tf.constant(0)])
        finally:
            v1.enable_control_flow_v2()
    with tf.Graph().as_default() as queue_graph:
        tf.queue.FIFOQueue(1, [tf.float32]).enqueue(1.0)
    assert not is_sure_to_end(looping_graph.as_graph_def(), loops_end=False)
    assert not is_sure_to_end(queue_graph.as_graph_def(), loops_end=True)


@pytest.mark.process
def test_an_exported_classifier_is_known_to_end(tmp_path, unchecked):
    model = TextClassifier(
        TextConfig(width=8, num_layers=1, num_heads=2), vocabulary=["a"], labels=["b", "c"]
    )
    saved = saved_model_pb2.SavedModel.FromString(
        (export_saved_model(model, tmp_path) / "saved_model.pb").read_bytes()
    )
    assert is_sure_to_end(saved.meta_graphs[0].graph_def, loops_end=True)


def test_what_is_expected_follows_what_is_seen():
    runs = ShortRuns(ends=True)
    assert not runs.expected("a")
    runs.took("a", 0.001)
    assert runs.expected("a")
    assert not runs.expected("b")
    runs.took("a", 0.1)  # one is enough
    assert not runs.expected("a")
    for _ in range(30):
        runs.took("a", 0.001)
    assert runs.expected("a")
    runs = ShortRuns(ends=False)
    runs.took("a", 0.001)
    assert not runs.expected("a")


def test_kinds_that_clients_make_up_do_not_fill_the_memory():
    runs = ShortRuns(ends=True)
    for kind in range(5000):
        runs.took(kind, 0.001)
    assert len(runs._seconds) <= 1000


def test_runs_are_of_a_kind_that_fetch_the_same_and_are_fed_as_much():
    strings = np.array([[b"abc", b""], [b"d", b"ef"]], dtype=object)  # 6 bytes
    numbers = np.zeros((2, 3), np.float32)  # 24 bytes
    assert kind_of_run(["y"], [strings, numbers]) == kind_of_run(["y"], [np.zeros(31, np.int8)])
    assert kind_of_run(["y"], [strings, numbers]) != kind_of_run(["y"], [np.zeros(32, np.int8)])
    assert kind_of_run(["y"], [strings]) != kind_of_run(["z"], [strings])
    assert kind_of_run(["y"], [np.array(b"abc", dtype=object)]) == kind_of_run(["y"], [np.zeros(3, np.int8)])

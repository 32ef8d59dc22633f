"""The memory of requests is bounded, not only their size; the event loop allocates nothing large."""

import contextlib
import gc
import gzip
import json
import re
import threading
import urllib.error
import urllib.request

import grpc
import numpy as np
import pytest
import serving_models as models

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.api import grpc_server, inference_api
from keras_selfattn.serving.server.api.admission import Admission
from keras_selfattn.serving.server.models import quantized_tensors
from keras_selfattn.serving.server.rest import json_in
from keras_selfattn.serving.wire import codec
from keras_selfattn.serving.wire import messages_pb2 as pb

PREDICT = "/tensorflow.serving.PredictionService/Predict"
CLASSIFY = "/tensorflow.serving.PredictionService/Classify"
MULTI_INFERENCE = "/tensorflow.serving.PredictionService/MultiInference"
ONE = np.float32(1).tobytes()
REFUSED = "at most .* bytes more in memory .max_request_tensor_bytes.; its values take about"


def tensor(dtype, *sizes, **values):
    dims = [pb.TensorShapeProto.Dim(size=size) for size in sizes]
    return pb.TensorProto(dtype=dtype, tensor_shape=pb.TensorShapeProto(dim=dims), **values)


def asked(server, method, request):
    with grpc.insecure_channel(server.target) as channel:
        return channel.unary_unary(method)(request.SerializeToString(), timeout=20)


def refusal(server, method, request):
    with pytest.raises(grpc.RpcError) as raised:
        asked(server, method, request)
    return raised.value.code().name, raised.value.details()


@pytest.fixture
def decoded(monkeypatch):
    """The threads in which tensors were taken out of their messages."""
    seen = []
    decode = quantized_tensors.decode

    def spied(proto):
        seen.append(threading.current_thread().name)
        return decode(proto)

    monkeypatch.setattr(quantized_tensors, "decode", spied)
    return seen


@pytest.fixture(scope="module")
def server(half_base, tmp_path_factory):
    """Serves `half`; requests may grow by 1 MiB."""
    with Server(
        ServerConfig("half", half_base, port=0, rest_api_port=-1, max_request_tensor_bytes=2**20)
    ) as server:
        yield server


@pytest.mark.parametrize(
    "sent",
    [
        tensor(pb.DT_FLOAT, 2**28, float_val=ONE),
        tensor(pb.DT_FLOAT, 2**14, 2**14),
        tensor(pb.DT_STRING, 2**25, string_val=[b"x"]),
        tensor(pb.DT_STRING, 2**15 + 1),  # 32 bytes each
        tensor(pb.DT_INT32, 2**18 + 64, int_val=[1]),
    ],
    ids=["one value", "no value", "a text", "empty texts", "just too many"],
)
def test_a_small_message_of_a_large_tensor_is_refused_before_anything_is_made(server, decoded, sent):
    request = pb.PredictRequest(model_spec=pb.ModelSpec(name="half"), inputs={"x": sent})
    code, details = refusal(server, PREDICT, request)
    assert code == "INVALID_ARGUMENT"
    assert re.search(REFUSED, details)
    assert decoded == []


def test_a_shape_of_thousands_of_axes_costs_nothing_and_is_refused(server, decoded):
    """Their product would be a number of a hundred thousand digits."""
    sent = tensor(pb.DT_FLOAT, *[2**62] * 20_000)
    assert codec.decoded_bytes(sent) == 0
    request = pb.PredictRequest(model_spec=pb.ModelSpec(name="half"), inputs={"x": sent})
    assert refusal(server, PREDICT, request) == ("INVALID_ARGUMENT", "tensor parsing error: x")


def test_tensors_are_bounded_together(server, decoded):
    halves = {name: tensor(pb.DT_FLOAT, 2**17 + 1, float_val=ONE) for name in "ab"}
    request = pb.PredictRequest(model_spec=pb.ModelSpec(name="half"), inputs=halves)
    assert refusal(server, PREDICT, request)[0] == "INVALID_ARGUMENT"
    assert decoded == []


def test_what_fits_is_made_in_a_thread_and_answered(server, decoded):
    sent = tensor(pb.DT_FLOAT, 2**18, float_val=ONE)
    request = pb.PredictRequest(model_spec=pb.ModelSpec(name="half"), inputs={"x": sent})
    response = pb.PredictResponse.FromString(asked(server, PREDICT, request))
    assert set(codec.decode(response.outputs["y"]).tolist()) == {2.5}
    assert all(name.startswith("run") for name in decoded)


def test_a_message_as_large_as_its_tensor_is_no_growth(server):
    with Client(server.target, "half") as client:
        many = np.arange(2**20, dtype=np.float32)  # 4 MiB
        assert client.predict({"x": many})["y"][-1] == 0.5 * many[-1] + 2


def test_a_context_counts_once_for_each_example(server):
    request = pb.SerializedInputRequest(model_spec=pb.ModelSpec(name="half"))
    shared = request.input.example_list_with_context
    shared.examples.extend([b""] * 1000)
    shared.context = b" " * 900
    assert "at most" not in refusal(server, CLASSIFY, request)[1]
    shared.context = b" " * 1100
    code, details = refusal(server, CLASSIFY, request)
    assert code == "INVALID_ARGUMENT"
    assert re.search(REFUSED, details)


def test_all_requests_together_are_bounded(half_base):
    admission = Admission(ServerConfig("half", half_base, max_request_tensor_bytes=2**20))
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(admission.growth(size=40, becomes=2**20))
        stack.enter_context(admission.growth(size=2**30, becomes=2**30))
        with pytest.raises(errors.ResourceExhaustedError, match="this one would take 961 more; try again"):
            stack.enter_context(admission.growth(size=40, becomes=1001))
    with admission.growth(size=40, becomes=2**20):  # those have their answers
        pass


def rest(server, body, **headers):
    request = urllib.request.Request(f"{server.rest_url}/v1/models/half:predict", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.parametrize(
    "row", [b"0.5", b"[[]]", b'{"x": 1}', b'""'], ids=["numbers", "lists", "objects", "texts"]
)
def test_a_body_of_more_values_than_fit_is_refused_before_it_is_read(server, monkeypatch, row):
    monkeypatch.setattr(json_in, "document", None)
    status, answer = rest(server, b'{"instances": [' + b",".join([row] * 30_000) + b"]}")
    assert status == 400
    assert re.search(REFUSED, answer["error"])


def test_a_small_body_that_inflates_is_inflated_in_a_thread_and_bounded(server, monkeypatch):
    from keras_selfattn.serving.server.rest import body as request_body

    threads = []
    inflated = request_body._inflated

    def watched(chunks, **limits):
        threads.append(threading.current_thread().name)
        return inflated(chunks, **limits)

    monkeypatch.setattr(request_body, "_inflated", watched)
    body = gzip.compress(b'{"instances": [' + b",".join([b"1"] * 100_000) + b"]}")
    assert len(body) < 1000
    status, answer = rest(server, body, **{"Content-Encoding": "gzip"})
    assert (status, bool(re.search(REFUSED, answer["error"]))) == (400, True)
    assert [name.rstrip("0123456789") for name in threads] == ["run_"]


@pytest.mark.slow
def test_refused_requests_are_counted_and_told_when_to_come_again(slow_base, in_background, until):
    config = ServerConfig("slow", slow_base, port=0, rest_api_port=-1, max_concurrent_requests=1)
    with Server(config) as server, Client(server.target, "slow") as client:
        running = in_background(client.predict, {"seconds": np.float32(2)})
        until(lambda: server.models._models["slow"].running == 1)
        for _ in range(3):
            with pytest.raises(errors.ResourceExhaustedError):
                client.predict({"seconds": np.float32(0)})
        task = pb.InferenceTask(model_spec=pb.ModelSpec(name="slow"))
        both = pb.SerializedMultiInferenceRequest(tasks=[task, task])
        assert refusal(server, MULTI_INFERENCE, both)[0] == "RESOURCE_EXHAUSTED"
        body = b'{"inputs": {"seconds": 0}}'
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{server.rest_url}/v1/models/slow:predict", body, timeout=20)
        assert (refused.value.code, refused.value.headers["Retry-After"]) == (429, "1")
        refused.value.close()
        counted = ':tensorflow:serving:request_count{model_name="slow",status="RESOURCE_EXHAUSTED"} 5'
        url = f"{server.rest_url}/monitoring/prometheus/metrics"
        assert counted in urllib.request.urlopen(url, timeout=20).read().decode()
        assert running.result()["rounds"] > 0


@pytest.mark.slow
def test_calls_are_taken_from_grpc_ahead_of_the_one_that_is_looked_after(half_base, caplog, monkeypatch):
    """Calls that wait in gRPC's core are not refused; accepts without a call leave nothing behind."""
    servers = []
    monkeypatch.setattr(grpc_server, "_Ahead", spied := type("Spied", (grpc_server._Ahead,), {}))
    monkeypatch.setattr(
        spied, "__init__", lambda self, *a: servers.append(self) or super(spied, self).__init__(*a)
    )
    with Server(ServerConfig("half", half_base, port=0)) as server, Client(server.target, "half") as client:
        for _ in range(3):
            assert client.predict({"x": np.float32([2])})["y"].tolist() == [3.0]
        # One of them is awaited.
        assert [len(found._asked_for) for found in servers] == [grpc_server._AHEAD - 1]
    servers.clear()
    gc.collect()
    assert not [record for record in caplog.records if record.name in ("asyncio", "grpc._cython.cygrpc")]


def test_a_batch_of_more_rows_than_may_wait_is_refused_as_a_whole(tmp_path):
    models.save(models.HalfPlusTwo(), tmp_path / "half")
    file = tmp_path / "batching"
    file.write_text(
        "max_batch_size { value: 4 } "
        "max_enqueued_batches { value: 8 } enable_large_batch_splitting { value: true }"
    )
    config = ServerConfig(
        "half", tmp_path / "half", port=0, enable_batching=True, batching_parameters_file=file
    )
    many = tensor(pb.DT_FLOAT, 2**20, float_val=ONE)
    with Server(config) as server:
        request = pb.PredictRequest(model_spec=pb.ModelSpec(name="half"), inputs={"x": many})
        assert refusal(server, PREDICT, request)[0] == "UNAVAILABLE"


def test_more_inputs_than_a_model_can_have_are_refused_before_each_is_parsed(half_base):
    empty = b"\x12\x00"  # an entry of `inputs` without key and value
    with (
        Server(ServerConfig("half", half_base, port=0)) as server,
        grpc.insecure_channel(server.target) as channel,
    ):
        predict = channel.unary_unary(PREDICT)
        spec = pb.PredictRequest(model_spec=pb.ModelSpec(name="half")).SerializeToString()
        with pytest.raises(grpc.RpcError) as raised:
            predict(spec + empty * 10_001, timeout=20)
        assert (
            raised.value.details()
            == "a request must have at most 10000 fields, such as inputs. Received more"
        )
        with pytest.raises(grpc.RpcError) as raised:
            predict(spec + empty * 9_999, timeout=20)
        assert "fields" not in raised.value.details()


def test_both_transports_enter_by_one_door_with_the_address_of_the_caller(server, monkeypatch):
    inside, entered, left, doors = [], [], [], []
    enter, leave = Admission.enter, Admission.leave
    monkeypatch.setattr(
        Admission, "enter", lambda door, client: entered.append(client) or enter(door, client)
    )
    monkeypatch.setattr(Admission, "leave", lambda door, client: left.append(client) or leave(door, client))
    infer = inference_api.InferenceApi.infer

    async def inside_of(api, *arguments):
        doors.append(api.admission)
        inside.append((api.admission._entered, api.admission.entered_of("127.0.0.1")))
        return await infer(api, *arguments)

    monkeypatch.setattr(inference_api.InferenceApi, "infer", inside_of)
    request = pb.PredictRequest(
        model_spec=pb.ModelSpec(name="half"), inputs={"x": tensor(pb.DT_FLOAT, 1, float_val=ONE)}
    )
    asked(server, PREDICT, request)
    assert rest(server, b'{"instances": [1]}')[0] == 200
    assert entered == left == ["127.0.0.1", "127.0.0.1"]
    assert inside == [(1, 1), (1, 1)]  # each has left before the next one enters
    assert doors[0]._entered_of == {}  # clients that have gone take no memory


def test_the_door_counts_the_requests_of_each_client(caplog):
    door = Admission(ServerConfig("half", "models/half", max_concurrent_requests=3))
    one, other = "192.0.2.7", "2001:db8::7"
    for client in (one, one, other):
        door.enter(client)
    assert (door.entered_of(one), door.entered_of(other), door.entered_of("192.0.2.8")) == (2, 1, 0)
    with caplog.at_level("DEBUG"), pytest.raises(errors.ResourceExhaustedError):
        door.enter(one)
    assert f"a request of {one} is refused: 3 wait or run, 2 of this client" in caplog.text
    assert door.entered_of(one) == 2  # the refused one is not inside
    door.leave(one)
    assert (door.entered_of(one), door.entered_of(other)) == (1, 1)
    door.enter(other)
    assert (door.entered_of(one), door.entered_of(other)) == (1, 2)


def test_more_texts_than_one_request_may_have_written_are_refused_before_they_run(tmp_path):
    models.save(models.Backwards(), tmp_path)
    (tmp_path / "1" / "assets.extra").mkdir()
    files = {"bytes": 1, "digest": ""}
    card = json.dumps({"format": 1, "files": files, "decoding": {"row_bytes": 2**20}})
    (tmp_path / "1" / "assets.extra" / "model_card.json").write_text(card)
    config = ServerConfig("it", str(tmp_path), port=0, rest_api_port=-1, max_request_search_bytes=2**21 + 1)
    with Server(config) as server, Client(server.target, model="it") as client:
        client.wait_until_ready(60)
        assert client.predict({"text": ["ab", "cd"]})["text"].tolist() == ["ba", "dc"]
        words = (
            r"at most 2097153 bytes of candidates \(max_request_search_bytes\); those to 3 rows may take "
            "3145728. Send 2 or fewer at a time"
        )
        with pytest.raises(errors.InvalidArgumentError, match=words):
            client.predict({"text": ["a", "b", "c"]})
        body = json.dumps({"instances": ["a", "b", "c"]}).encode()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{server.rest_url}/v1/models/it:predict", body, timeout=20)
        assert (refused.value.code, "Send 2 or fewer" in refused.value.read().decode()) == (400, True)


def test_a_model_of_which_no_row_fits_says_so():
    door = Admission(ServerConfig("it", "models/it", max_request_search_bytes=2**20))
    with pytest.raises(errors.InvalidArgumentError, match="Not one row of this model fits: raise the bound"):
        door.check_search(1, 2**20 + 1)
    door.check_search(1, 2**20)

"""An array that does not fit its input is refused in one sentence over all protocols, before it is run."""

import json
import re
import urllib.error
import urllib.request

import grpc
import numpy as np
import pytest
import tensorflow as tf
from serving_models import save
from tensorflow_serving.apis import (
    classification_pb2,
    inference_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)
from test_batching import Gate, with_card

from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.wire import open_inference_pb2 as oip
from keras_selfattn.serving.wire import open_inference_tensors as tensors


class Shapes(tf.Module):
    """Inputs of fixed and of open sizes; each graph fails, or is wrong, for another number of axes."""

    def __init__(self):
        super().__init__()
        self.one = tf.Variable([1.0])
        self.two_rows = tf.Variable([[1.0], [2.0]])
        self.lines = tf.function(self._lines, input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        self.columns = tf.function(
            self._plus_one, input_signature=[tf.TensorSpec([None, 1], tf.float32, name="x")]
        )
        self.rows = tf.function(self._sums, input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
        self.square = tf.function(self._sums, input_signature=[tf.TensorSpec([2, 3], tf.float32, name="x")])
        self.fixed = tf.function(self._fixed, input_signature=[tf.TensorSpec([2, 3], tf.float32, name="x")])
        self.number = tf.function(self._sums, input_signature=[tf.TensorSpec([], tf.float32, name="x")])
        self.any = tf.function(self._plus_one, input_signature=[tf.TensorSpec(None, tf.float32, name="x")])
        self.pair = tf.function(self._pair, input_signature=[tf.TensorSpec([2], tf.string, name="inputs")])

    def _lines(self, x):
        return {"y": tf.concat([x, self.one], 0)[:-1]}

    def _sums(self, x):
        return {"y": tf.reduce_sum(x * self.one, axis=-1 if x.shape.rank else None)}

    def _fixed(self, x):
        return {"y": tf.concat([x, self.two_rows], 1)}

    def _plus_one(self, x):
        return {"y": x + self.one}

    def _pair(self, inputs):
        return {"scores": tf.zeros([tf.size(inputs), 2]) + self.one}


SIGNATURES = ("lines", "columns", "rows", "square", "fixed", "number", "any", "pair")
MODELS = ("plain", "ours")


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """One SavedModel, as others save it, and with this project's card."""
    folder, module = tmp_path_factory.mktemp("shapes"), Shapes()
    for name in MODELS:
        version = save(module, folder / name, **{each: getattr(module, each) for each in SIGNATURES})
        if name == "ours":
            with_card(version)
    return folder


def listed(folder):
    entries = [
        f"config {{ name: '{name}' base_path: '{folder / name}' model_platform: 'tensorflow' }}"
        for name in MODELS
    ]
    file = folder / "models.conf"
    file.write_text(f"model_config_list {{ {' '.join(entries)} }}")
    return file


@pytest.fixture(scope="module", params=["alone", "batched"])
def server(bases, request):
    config = ServerConfig(
        model_config_file=listed(bases), port=0, rest_api_port=-1, enable_batching=request.param == "batched"
    )
    with Server(config) as server:
        yield server


def predict(server, model, signature, array):
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = model, signature
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(array))
    with grpc.insecure_channel(server.target) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        return tf.make_ndarray(stub.Predict(request, timeout=20).outputs["y"])


def model_infer(server, model, signature, array):
    request = oip.ModelInferRequest(model_name=model, raw_input_contents=[tensors.to_raw(array)])
    request.parameters["signature_name"].string_param = signature
    request.inputs.add(name="x", datatype="FP32", shape=array.shape)
    with grpc.insecure_channel(server.target) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        answer = oip.ModelInferResponse.FromString(call(request.SerializeToString(), timeout=20))
    (output,) = answer.outputs
    return tensors.from_raw(output.datatype, output.shape, answer.raw_output_contents[0])


def posted(server, path, body):
    data = json.dumps(body).encode()
    with urllib.request.urlopen(f"{server.rest_url}{path}", data, timeout=20) as response:
        return json.load(response)


def rows(server, model, signature, array):
    body = {"signature_name": signature, "instances": array.tolist()}
    return np.array(posted(server, f"/v1/models/{model}:predict", body)["predictions"])


def columns(server, model, signature, array):
    body = {"signature_name": signature, "inputs": {"x": array.tolist()}}
    return np.array(posted(server, f"/v1/models/{model}:predict", body)["outputs"])


def rest_infer(server, model, signature, array):
    x = {"name": "x", "datatype": "FP32", "shape": array.shape, "data": array.reshape(-1).tolist()}
    body = {"parameters": {"signature_name": signature}, "inputs": [x]}
    (output,) = posted(server, f"/v2/models/{model}/infer", body)["outputs"]
    return np.array(output["data"]).reshape(output["shape"])


V1 = {"Predict": predict, "rows": rows, "columns": columns}
V2 = {"ModelInfer": model_infer, "infer": rest_infer}


def refusal(call, *args):
    """The words of a refusal for a wrong argument."""
    with pytest.raises((grpc.RpcError, urllib.error.HTTPError)) as raised:
        call(*args)
    error = raised.value
    if isinstance(error, urllib.error.HTTPError):
        with error:
            assert error.code == 400
            return json.load(error)["error"]
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    return error.details()


WRONG = {
    "another width": ("rows", (5, 4), "[5, 4]. The model wants float32 [None, 3]"),
    "no rows": ("rows", (3,), "[3]. The model wants float32 [None, 3]: pass a list of rows"),
    "an axis more": ("rows", (5, 2, 3), "[5, 2, 3]. The model wants float32 [None, 3]"),
    "a table for a line": ("lines", (5, 2), "[5, 2]. The model wants float32 [None]"),
    "a line for a number": ("number", (5,), "[5]. The model wants float32 []"),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("protocol", [*V1, *V2])
@pytest.mark.parametrize("case", WRONG)
def test_other_sizes_or_another_number_of_axes_than_declared_are_refused(server, model, protocol, case):
    signature, shape, words = WRONG[case]
    array = np.ones(shape, np.float32)
    assert refusal({**V1, **V2}[protocol], server, model, signature, array) == f"input 'x' has shape {words}"


ONES = {"lines": ((5, 1), (5,)), "columns": ((5,), (5, 1)), "rows": ((5, 3, 1), (5, 3)), "number": ((1,), ())}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("protocol", V2)
@pytest.mark.parametrize("signature", ONES)
def test_in_the_open_inference_protocol_axes_of_one_at_the_end_make_no_difference(
    server, model, protocol, signature
):
    if signature == "number" and server.config.enable_batching:
        pytest.skip("TensorFlow Serving's batching has no numbers without rows")
    sent, declared = ONES[signature]
    values = np.arange(1, 1 + np.prod(sent), dtype=np.float32)
    found = V2[protocol](server, model, signature, values.reshape(sent))
    np.testing.assert_array_equal(found, V2[protocol](server, model, signature, values.reshape(declared)))


@pytest.mark.parametrize("protocol", V1)
@pytest.mark.parametrize("model", MODELS)
def test_what_a_kernel_refuses_is_refused_in_the_same_sentence(server, model, protocol):
    words = refusal(V1[protocol], server, model, "lines", np.ones((5, 1), np.float32))
    assert words == "input 'x' has shape [5, 1]. The model wants float32 [None]"


@pytest.mark.parametrize("protocol", V1)
def test_graphs_of_others_get_what_tensorflow_serving_gives_them(server, protocol):
    # The first example of its documentation: [3] for [-1, 1].
    found = V1[protocol](server, "plain", "columns", np.float32([1, 2, 5]))
    np.testing.assert_array_equal(found, [2, 3, 6])
    words = refusal(V1[protocol], server, "ours", "columns", np.float32([1, 2, 5]))
    assert words == "input 'x' has shape [3]. The model wants float32 [None, 1]: pass a list of rows"


@pytest.mark.parametrize("protocol", [*V1, *V2])
def test_graphs_of_others_that_fix_the_rows_may_take_any_number(server, protocol):
    call = {**V1, **V2}[protocol]
    np.testing.assert_array_equal(call(server, "plain", "square", np.ones((5, 3), np.float32)), [3] * 5)
    words = "input 'x' has shape [5, 3]. The model wants float32 [2, 3]"
    assert refusal(call, server, "ours", "square", np.ones((5, 3), np.float32)) == words
    assert refusal(call, server, "plain", "fixed", np.ones((5, 3), np.float32)) == words


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("protocol", [*V1, *V2])
@pytest.mark.parametrize("shape", [(2,), (2, 3), (2, 3, 1)])
def test_an_input_of_any_number_of_axes_takes_all(server, model, protocol, shape):
    found = {**V1, **V2}[protocol](server, model, "any", np.full(shape, 2.0, np.float32))
    np.testing.assert_array_equal(found, np.full(shape, 3.0))


@pytest.mark.parametrize("model", MODELS)
def test_another_type_is_refused_for_its_type(server, model):
    with pytest.raises(grpc.RpcError) as raised:
        predict(server, model, "rows", np.ones((5, 4), np.int64))
    assert raised.value.details() == "Expects arg[0] to be float but int64 is provided"


def test_the_number_of_examples_may_be_fixed_too(server):
    model = "ours"
    classify = classification_pb2.ClassificationRequest()
    for _ in range(3):
        classify.input.example_list.examples.add().features.feature["x"].float_list.value.append(1)
    classify.model_spec.name, classify.model_spec.signature_name = model, "pair"
    several = inference_pb2.MultiInferenceRequest(input=classify.input)
    several.tasks.add(model_spec=classify.model_spec, method_name="tensorflow/serving/classify")
    words = "input 'inputs' has shape [3]. The model wants string [2]"
    with grpc.insecure_channel(server.target) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        assert refusal(stub.Classify, classify) == words
        assert refusal(stub.MultiInference, several) == words
    body = {"signature_name": "pair", "examples": [{"x": 1.0}] * 3}
    assert refusal(posted, server, f"/v1/models/{model}:classify", body) == words


def test_a_wrong_row_never_joins_its_neighbours(bases, in_background, until, tmp_path):
    parameters = tmp_path / "batching.conf"
    parameters.write_text("num_batch_threads { value: 1 } pad_variable_length_inputs: true")
    config = ServerConfig(
        model_config_file=listed(bases),
        port=0,
        enable_batching=True,
        batching_parameters_file=parameters,
    )
    with Server(config) as server:
        gate = Gate(server, "plain")
        try:
            asked = []
            for count in range(1, 4):
                asked.append(in_background(predict, server, "plain", "rows", np.ones((count, 3), np.float32)))
                until(lambda: gate.model.running == len(asked))
            wrong = in_background(refusal, predict, server, "plain", "rows", np.ones((2, 4), np.float32))
            assert re.search(r"has shape \[2, 4\]", wrong.result(timeout=20))
        finally:
            gate.let(9)
        assert [each.result().tolist() for each in asked] == [[3.0], [3.0] * 2, [3.0] * 3]
        assert gate.sizes == [(1, 3), (5, 3)]

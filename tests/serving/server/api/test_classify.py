"""Classify, Regress and MultiInference: to a stock client, in TensorFlow Serving's own words."""

import re
import urllib.request

import grpc
import numpy as np
import pytest
import serving_models as models
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    inference_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from keras_selfattn.serving.client import Client, serialized_example
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.wire import messages_pb2 as pb

CLASSIFY, REGRESS = "tensorflow/serving/classify", "tensorflow/serving/regress"


@pytest.fixture(scope="module")
def target(tf1_base):
    with Server(ServerConfig("default", tf1_base, port=0)) as server:
        yield server.target


@pytest.fixture(scope="module")
def stub(target):
    with grpc.insecure_channel(target) as channel:
        yield prediction_service_pb2_grpc.PredictionServiceStub(channel)


@pytest.fixture(scope="module")
def strict(tf1_base):
    with (
        Server(ServerConfig("default", tf1_base, port=0, enable_signature_method_name_check=True)) as server,
        grpc.insecure_channel(server.target) as channel,
    ):
        yield prediction_service_pb2_grpc.PredictionServiceStub(channel)


def filled(request, signature, *values, name="default"):
    request.model_spec.name = name
    request.model_spec.signature_name = signature
    for value in values:
        example = request.input.example_list.examples.add()
        example.features.feature["x"].float_list.value.append(value)
    return request


def to_classify(signature, *values, **kwargs):
    return filled(classification_pb2.ClassificationRequest(), signature, *values, **kwargs)


def to_regress(signature, *values, **kwargs):
    return filled(regression_pb2.RegressionRequest(), signature, *values, **kwargs)


def to_infer(*tasks, values=(2.0,)):
    request = inference_pb2.MultiInferenceRequest()
    for name, signature, method in tasks:
        task = request.tasks.add(method_name=method)
        task.model_spec.name = name
        task.model_spec.signature_name = signature
    for value in values:
        example = request.input.example_list.examples.add()
        example.features.feature["x"].float_list.value.append(value)
    return request


def refused(call, request):
    with pytest.raises(grpc.RpcError) as caught:
        call(request, timeout=20)
    return caught.value.code().name, caught.value.details()


def spec_of(response):
    spec = response.model_spec
    return spec.name, spec.version.value, spec.signature_name


def test_classify_answers_labels_and_scores_as_the_signature_has_them(stub):
    def classes(signature):
        response = stub.Classify(to_classify(signature, 2.0, 4.0), timeout=20)
        assert spec_of(response) == ("default", 123, signature)
        rows = response.result.classifications
        return [[(each.label, each.score) for each in row.classes] for row in rows]

    assert classes("classify_x_to_y") == [[("", 3.0)], [("", 4.0)]]
    assert classes("classify_with_labels") == [[("y", 3.0)], [("y", 4.0)]]
    assert classes("classify_labels") == [[("y", 0.0)], [("y", 0.0)]]


def test_regress_answers_a_value_for_each_example(stub):
    response = stub.Regress(to_regress("regress_x_to_y", 2.0, 4.0), timeout=20)
    assert [each.value for each in response.result.regressions] == [3.0, 4.0]
    assert spec_of(response) == ("default", 123, "regress_x_to_y")


def test_one_run_answers_all_tasks_of_a_multi_inference_in_their_order(stub):
    request = to_infer(("default", "regress_x_to_y", REGRESS), ("default", "classify_with_labels", CLASSIFY))
    first, second = stub.MultiInference(request, timeout=20).results
    assert [each.value for each in first.regression_result.regressions] == [3.0]
    (row,) = second.classification_result.classifications
    assert [(each.label, each.score) for each in row.classes] == [("y", 3.0)]
    assert [spec_of(each) for each in (first, second)] == [
        ("default", 123, "regress_x_to_y"),
        ("default", 123, "classify_with_labels"),
    ]


class TwoHeads(tf.Module):
    """Classify and Regress as TensorFlow 2 exports them: each signature has an input tensor of its own."""

    @staticmethod
    def _x(examples):
        return tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
    def classify(self, inputs):
        return {"scores": self._x(inputs) * 3.0}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
    def regress(self, inputs):
        return {"outputs": self._x(inputs) * 5.0}


HEADS = (("default", "regress", REGRESS), ("default", "classify", CLASSIFY))


def infer_with_two_heads(base, **settings):
    """The results of a MultiInference on two rows, and how many rows the metrics counted."""
    with (
        Server(ServerConfig("default", base, port=0, rest_api_port=-1, **settings)) as server,
        grpc.insecure_channel(server.target) as channel,
    ):
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        response = stub.MultiInference(to_infer(*HEADS, values=(2.0, 4.0)), timeout=20)
        metrics = f"{server.rest_url}/monitoring/prometheus/metrics"
        with urllib.request.urlopen(metrics, timeout=20) as page:
            counted = re.search(r"request_example_count_total\{[^}]*\} (\d+)", page.read().decode())
        return response.results, int(counted[1])


@pytest.mark.parametrize("settings", [{}, {"enable_batching": True}], ids=["alone", "batched"])
def test_each_input_tensor_of_a_multi_inference_gets_the_examples(tmp_path, settings):
    """A plain TensorFlow 2 export: no tensor is shared, and the method names are Predict's."""
    module = TwoHeads()
    models.save(module, tmp_path, classify=module.classify, regress=module.regress)
    (regressed, classified), rows = infer_with_two_heads(tmp_path, **settings)
    assert [each.value for each in regressed.regression_result.regressions] == [10.0, 20.0]
    scores = [row.classes[0].score for row in classified.classification_result.classifications]
    assert scores == [6.0, 12.0]
    assert [spec_of(each)[2] for each in (regressed, classified)] == ["regress", "classify"]
    assert rows == 2, "each row is one example, however many tensors it is fed to"


def test_a_tensorflow_2_export_with_its_method_names_set_passes_their_check(tmp_path):
    module = TwoHeads()
    saved = models.save(module, tmp_path, classify=module.classify, regress=module.regress)
    with pytest.raises(grpc.RpcError, match=f"method_name to be {REGRESS}. Was: tensorflow/serving/predict"):
        infer_with_two_heads(tmp_path, enable_signature_method_name_check=True)
    updater = tf.compat.v1.saved_model.signature_def_utils.MethodNameUpdater(str(saved))
    updater.replace_method_name("classify", CLASSIFY)
    updater.replace_method_name("regress", REGRESS)
    updater.save()
    (regressed, _), _ = infer_with_two_heads(tmp_path, enable_signature_method_name_check=True)
    assert [each.value for each in regressed.regression_result.regressions] == [10.0, 20.0]


def test_a_tensor_that_takes_no_examples_is_the_graphs_own_error(stub):
    """`other_input` takes numbers: it is fed the examples as every signature is."""
    tasks = ("default", "regress_labels", REGRESS), ("default", "other_input", REGRESS)
    code, text = refused(stub.MultiInference, to_infer(*tasks))
    assert code == "INVALID_ARGUMENT"
    assert "float" in text
    assert "string" in text


def test_a_context_is_shared_by_all_examples_and_each_may_override_it(stub):
    request = to_regress("regress_x_to_y")
    listed = request.input.example_list_with_context
    listed.context.features.feature["x"].float_list.value.append(10.0)
    listed.examples.add()
    listed.examples.add().features.feature["x"].float_list.value.append(2.0)
    response = stub.Regress(request, timeout=20)
    assert [each.value for each in response.result.regressions] == [7.0, 3.0]


def test_classify_refuses_in_tensorflow_servings_words(stub, strict):
    def words(signature, *values, through=stub):
        return refused(through.Classify, to_classify(signature, *(values or (2.0,))))

    assert words("none") == ("INVALID_ARGUMENT", "No signature was found with the name: none")
    assert words("two_inputs") == ("INVALID_ARGUMENT", "Expected one input Tensor.")
    code, text = words("renamed")
    assert code == "FAILED_PRECONDITION"
    assert text.startswith("No classification inputs found in SignatureDef: ")
    code, text = words("values")
    assert code == "FAILED_PRECONDITION"
    assert text.startswith(
        'Expected classification signature outputs to contain at least one of "classes" or "scores". '
        "Signature was: "
    )
    request = classification_pb2.ClassificationRequest()
    assert refused(stub.Classify, request) == ("INVALID_ARGUMENT", "Missing ModelSpec")
    request.model_spec.name = "default"
    request.model_spec.signature_name = "classify_x_to_y"
    assert refused(stub.Classify, request) == ("INVALID_ARGUMENT", "Input is empty.")
    request.model_spec.name = "other"
    assert refused(stub.Classify, request) == (
        "NOT_FOUND",
        "Servable not found for request: Latest(other)",
    )
    assert words("regress_x_to_y", through=strict) == (
        "INVALID_ARGUMENT",
        f"Expected classification signature method_name to be {CLASSIFY}. Was: {REGRESS}",
    )
    assert strict.Classify(to_classify("classify_x_to_y", 2.0), timeout=20).result.classifications


def test_regress_refuses_in_tensorflow_servings_words(stub, strict):
    def words(signature, through=stub):
        return refused(through.Regress, to_regress(signature, 2.0))

    assert words("none") == ("INVALID_ARGUMENT", "No signature was found with the name: none")
    assert words("two_inputs") == ("INVALID_ARGUMENT", "Expected one input Tensor.")
    assert words("classify_with_labels") == ("INVALID_ARGUMENT", "Expected one output Tensor.")
    assert words("renamed")[1].startswith("No regression inputs found in SignatureDef: ")
    assert words("values")[1].startswith("No regression outputs found in SignatureDef: ")
    assert words("regress_labels") == (
        "INVALID_ARGUMENT",
        "Expected output Tensor of DT_FLOAT.  Got: DT_STRING",
    )
    assert words("classify_x_to_y", through=strict) == (
        "INVALID_ARGUMENT",
        f"Expected regression signature method_name to be {REGRESS}. Was: {CLASSIFY}",
    )


def test_a_multi_inference_that_contradicts_itself_is_refused(stub):
    def words(*tasks, **kwargs):
        return refused(stub.MultiInference, to_infer(*tasks, **kwargs))

    task = ("default", "regress_x_to_y", REGRESS)
    assert words(task, task) == ("INVALID_ARGUMENT", "Duplicate evaluation of signature: regress_x_to_y")
    assert words(task, ("", "x", REGRESS)) == (
        "INVALID_ARGUMENT",
        "Found ModelSpec with an empty model name.",
    )
    assert words(task, ("other", "x", REGRESS)) == (
        "INVALID_ARGUMENT",
        "All ModelSpecs in a MultiInferenceRequest must access the same model name.",
    )
    assert words(("default", "none", REGRESS)) == (
        "INVALID_ARGUMENT",
        "Requested signature not found in model graph: none",
    )
    assert words(("default", "serving_default", "tensorflow/serving/predict")) == (
        "UNIMPLEMENTED",
        "Unsupported signature method_name: tensorflow/serving/predict",
    )
    assert words(task, values=()) == ("INVALID_ARGUMENT", "Input is empty.")
    assert words() == ("INVALID_ARGUMENT", "ModelSpec has no name specified.")


@pytest.mark.parametrize(
    ("outputs", "rows", "message"),
    [
        ({"scores": tf.ones([3])}, 3, "Expected Tensor shape: [batch_size num_classes] but got [3]"),
        ({"scores": tf.ones([2, 3], tf.float64)}, 2, "Expected scores Tensor of DT_FLOAT. Got: DT_DOUBLE"),
        ({"classes": tf.ones([2, 3])}, 2, "Expected classes Tensor of DT_STRING. Got: DT_FLOAT"),
        ({"scores": tf.ones([2, 3])}, 5, "Expected scores output batch size of 5. Got: 2"),
        (
            {"scores": tf.ones([2, 3]), "classes": tf.fill([2, 5], "x")},
            2,
            "Tensors class and score should match in dim_size(1). Got 5 vs. 3",
        ),
    ],
)
def test_a_graph_whose_output_is_no_classification_is_refused(tmp_path, outputs, rows, message):
    class Wrong(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
        def serve(self, inputs):
            return {name: tf.identity(value) for name, value in outputs.items()}

    models.save(Wrong(), tmp_path)
    with (
        Server(ServerConfig("default", tmp_path, port=0)) as server,
        grpc.insecure_channel(server.target) as channel,
    ):
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        request = to_classify("", *[1.0] * rows)
        assert refused(stub.Classify, request) == ("INVALID_ARGUMENT", message)


@pytest.mark.parametrize(
    ("value", "rows", "message"),
    [
        (tf.ones([2, 3]), 2, "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but "
         "got [2,3]"),
        (tf.ones([2]), 3, "Input batch size did not match output batch size: 3 vs. 2"),
    ],
)  # fmt: skip
def test_a_graph_whose_output_is_no_regression_is_refused(tmp_path, value, rows, message):
    class Wrong(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
        def serve(self, inputs):
            return {"outputs": tf.identity(value)}

    models.save(Wrong(), tmp_path)
    with (
        Server(ServerConfig("default", tmp_path, port=0)) as server,
        grpc.insecure_channel(server.target) as channel,
    ):
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        assert refused(stub.Regress, to_regress("", *[1.0] * rows)) == ("INVALID_ARGUMENT", message)


def test_an_example_that_lacks_a_feature_is_the_graphs_own_error(stub):
    request = to_regress("regress_x_to_y")
    request.input.example_list.examples.add()
    code, text = refused(stub.Regress, request)
    assert code == "INVALID_ARGUMENT"
    assert "Feature: x (data type: float) is required but could not be found." in text


def test_our_client_asks_these_signatures_with_predict_on_serialized_examples(target):
    with Client(target) as client:
        rows = [serialized_example({"x": np.float32(x)}) for x in (2, 4)]
        assert client.predict(rows, "regress_x_to_y")["outputs"].ravel().tolist() == [3.0, 4.0]
        classes = client.predict(rows, "classify_with_labels")
        assert classes["classes"].ravel().tolist() == ["y", "y"]
        assert classes["scores"].ravel().tolist() == [3.0, 4.0]


def test_predict_on_a_model_of_tensorflow_1_answers(target):
    with Client(target) as client:
        assert client.predict({"x": np.float32([[2], [4]])})["y"].tolist() == [[3.0], [4.0]]


def test_bytes_that_are_no_example_are_refused_whatever_they_are(target):
    with grpc.insecure_channel(target) as channel:
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Regress")
        request = pb.SerializedInputRequest()
        request.model_spec.name = "default"
        request.model_spec.signature_name = "regress_x_to_y"
        request.input.example_list.examples.append(b"\xff\xfe")
        with pytest.raises(grpc.RpcError) as caught:
            call(request.SerializeToString(), timeout=20)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "Could not parse example input" in caught.value.details()

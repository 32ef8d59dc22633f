"""A model server of TensorFlow Serving's own stubs and TensorFlow's own codec: the other side is not ours."""

from concurrent import futures
from dataclasses import dataclass, field

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

AVAILABLE = get_model_status_pb2.ModelVersionStatus.AVAILABLE


@dataclass
class StockSignature:
    """A signature's inputs and outputs, and its function from arrays to arrays."""

    inputs: dict
    function: object
    outputs: dict = field(default_factory=dict)
    defaults: dict = field(default_factory=dict)
    method_name: str = "tensorflow/serving/predict"


def doubled(name="x", dtype=tf.float32, shape=(None, 2)):
    """y = 2 x."""
    return StockSignature(
        {name: (dtype, shape)}, lambda arrays: {"y": arrays[name] * 2}, {"y": (dtype, shape)}
    )


class StockServing(
    prediction_service_pb2_grpc.PredictionServiceServicer, model_service_pb2_grpc.ModelServiceServicer
):
    """Answers for one model whatever name it is asked by; keeps every request.

    `before(rpc, request, context)` may abort a call, or hold it up.
    """

    def __init__(self, signatures=None, version=1, before=None, content=False):
        self.signatures = {"serving_default": doubled()} if signatures is None else signatures
        self.version = version
        self.before = before
        self.content = content  # whether to answer with tensor_content, where stock answers with *_val
        self.requests = []
        self.metadata_of_calls = []

    def received(self, rpc):
        return [request for name, request in self.requests if name == rpc]

    def _receive(self, rpc, request, context):
        self.requests.append((rpc, request))
        self.metadata_of_calls.append(dict(context.invocation_metadata()))
        if self.before is not None:
            self.before(rpc, request, context)

    def _answer_spec(self, response, request):
        response.model_spec.CopyFrom(request.model_spec)
        response.model_spec.version.value = self.version

    def Predict(self, request, context):  # noqa: N802 - the stub's name
        self._receive("Predict", request, context)
        signature = self.signatures.get(request.model_spec.signature_name or "serving_default")
        if signature is None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "Serving signature key not found.")
        arrays = signature.defaults | {name: tf.make_ndarray(proto) for name, proto in request.inputs.items()}
        for name, (dtype, _) in signature.inputs.items():
            if name not in arrays:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"input {name} is missing")
            if name in request.inputs and request.inputs[name].dtype != dtype.as_datatype_enum:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"expected {dtype.name}")
        response = predict_pb2.PredictResponse()
        self._answer_spec(response, request)
        for name, array in signature.function(arrays).items():
            if not request.output_filter or name in request.output_filter:
                response.outputs[name].CopyFrom(as_answered(array, self.content))
        return response

    def GetModelMetadata(self, request, context):  # noqa: N802 - the stub's name
        self._receive("GetModelMetadata", request, context)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        for name, signature in self.signatures.items():
            proto = signatures.signature_def[name]
            proto.method_name = signature.method_name
            for specs, infos in ((signature.inputs, proto.inputs), (signature.outputs, proto.outputs)):
                for alias, (dtype, shape) in specs.items():
                    infos[alias].dtype = tf.as_dtype(dtype).as_datatype_enum
                    infos[alias].tensor_shape.CopyFrom(tf.TensorShape(shape).as_proto())
            for alias, array in signature.defaults.items():
                proto.defaults[alias].CopyFrom(tf.make_tensor_proto(array))
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.metadata["signature_def"].Pack(signatures)
        self._answer_spec(response, request)
        return response

    def Classify(self, request, context):  # noqa: N802 - the stub's name
        self._receive("Classify", request, context)
        response = classification_pb2.ClassificationResponse(result=self._classes(request.input))
        self._answer_spec(response, request)
        return response

    def Regress(self, request, context):  # noqa: N802 - the stub's name
        self._receive("Regress", request, context)
        response = regression_pb2.RegressionResponse(result=self._numbers(request.input))
        self._answer_spec(response, request)
        return response

    def MultiInference(self, request, context):  # noqa: N802 - the stub's name
        self._receive("MultiInference", request, context)
        response = inference_pb2.MultiInferenceResponse()
        for task in request.tasks:
            result = response.results.add()
            self._answer_spec(result, task)
            if task.method_name == "tensorflow/serving/classify":
                result.classification_result.CopyFrom(self._classes(request.input))
            else:
                result.regression_result.CopyFrom(self._numbers(request.input))
        return response

    def GetModelStatus(self, request, context):  # noqa: N802 - the stub's name
        self._receive("GetModelStatus", request, context)
        response = get_model_status_pb2.GetModelStatusResponse()
        response.model_version_status.add(version=self.version, state=AVAILABLE)
        return response

    def HandleReloadConfigRequest(self, request, context):  # noqa: N802 - the stub's name
        self._receive("HandleReloadConfigRequest", request, context)
        return model_management_pb2.ReloadConfigResponse()

    def _rows(self, proto):
        """Each row's features, as TensorFlow Serving merges them with the context."""
        kind = proto.WhichOneof("kind")
        shared = {}
        if kind == "example_list_with_context":
            shared = dict(proto.example_list_with_context.context.features.feature)
        return [shared | dict(row.features.feature) for row in getattr(proto, kind).examples]

    def _classes(self, proto):
        """Two classes: how many bytes all the features' strings have, and their integers' sum."""
        result = classification_pb2.ClassificationResult()
        for features in self._rows(proto):
            row = result.classifications.add()
            strings = [value for each in features.values() for value in each.bytes_list.value]
            integers = [value for each in features.values() for value in each.int64_list.value]
            row.classes.add(label="bytes", score=sum(map(len, strings)))
            row.classes.add(label="integers", score=sum(integers))
        return result

    def _numbers(self, proto):
        result = regression_pb2.RegressionResult()
        for features in self._rows(proto):
            floats = [value for each in features.values() for value in each.float_list.value]
            result.regressions.add(value=sum(floats))
        return result

    def serve(self, port=0, workers=8, credentials=None):
        """A started server, and the port it has."""
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        executor = futures.ThreadPoolExecutor(workers)
        server = grpc.server(executor, options=[*options, ("grpc.so_reuseport", 0)])
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(self, server)
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(self, server)
        address = f"localhost:{port}" if credentials else f"127.0.0.1:{port}"
        if credentials is None:
            found = server.add_insecure_port(address)
        else:
            found = server.add_secure_port(address, credentials)
        server.start()
        return server, found


def as_answered(array, content):
    """A tensor as TensorFlow Serving writes it: in the typed fields, unless told otherwise."""
    array = np.asarray(array)
    proto = tf.make_tensor_proto(array)
    if content or not proto.tensor_content:
        return proto
    typed = tf.make_tensor_proto(array.reshape(-1)[:1])
    flat = array.reshape(-1)
    for field_name in (
        "float_val",
        "double_val",
        "int_val",
        "int64_val",
        "bool_val",
        "uint32_val",
        "uint64_val",
    ):
        if len(getattr(typed, field_name)):
            proto.ClearField("tensor_content")
            getattr(proto, field_name).extend(flat.tolist())
    return proto


def main():
    """Serves in a process of its own, with the health service: prints the port and waits."""
    import sys

    from grpc_health.v1 import health, health_pb2, health_pb2_grpc

    serving = StockServing(version=int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    executor = futures.ThreadPoolExecutor(64)
    server = grpc.server(executor, options=[("grpc.so_reuseport", 0)])
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(serving, server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(serving, server)
    status = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(status, server)
    status.set("", health_pb2.HealthCheckResponse.SERVING)
    print(server.add_insecure_port(f"127.0.0.1:{sys.argv[2] if len(sys.argv) > 2 else 0}"), flush=True)
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()

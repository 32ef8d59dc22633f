"""Writes the messages of this folder with TensorFlow Serving's own stubs (tensorflow-serving-api).

    python tests/serving/stock_messages/make.py

They stand for a recording of TensorFlow Serving itself, which no package index has: each
message is what its C++ server or a client of its stubs would send, with the typed fields in answers that
Tensor::AsProtoField writes.
"""

import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
    predict_pb2,
)

FOLDER = Path(__file__).parent
X = np.float32([[1.5, -2.0, 0.25]])


def asked(message, model="film", signature="serving_default", version=None, label=None):
    """`message` with its model_spec filled in."""
    message.model_spec.name = model
    message.model_spec.signature_name = signature
    if version is not None:
        message.model_spec.version.value = version
    if label is not None:
        message.model_spec.version_label = label
    return message


def predict_request():
    request = asked(predict_pb2.PredictRequest(output_filter=["y"]), version=3)
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(X))
    return request


def predict_request_by_label():
    request = asked(predict_pb2.PredictRequest(), label="stable")
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(["good", "schön"]))
    return request


def predict_response():
    response = asked(predict_pb2.PredictResponse(), version=3)
    shape = tf.TensorShape([2]).as_proto()
    values = {
        "float": (tf.float32, {"float_val": [1.5, -2.0]}),
        "double": (tf.float64, {"double_val": [0.1, 2.0]}),
        "int": (tf.int32, {"int_val": [7, -8]}),
        "int8": (tf.int8, {"int_val": [7, -8]}),
        "long": (tf.int64, {"int64_val": [2**40, -1]}),
        "bool": (tf.bool, {"bool_val": [True, False]}),
        "half": (tf.half, {"half_val": [0x3C00, 0xC000]}),
        "complex": (tf.complex64, {"scomplex_val": [1.0, 2.0, 3.0, -4.0]}),
        "string": (tf.string, {"string_val": [b"good", "schön".encode()]}),
        "repeated": (tf.float32, {"float_val": [0.5]}),
        "zeros": (tf.int64, {}),
        "content": (tf.uint16, {"tensor_content": np.uint16([1, 65535]).tobytes()}),
    }
    for name, (dtype, fields) in values.items():
        proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum, tensor_shape=shape, **fields)
        response.outputs[name].CopyFrom(proto)
    return response


def metadata_response():
    signatures = get_model_metadata_pb2.SignatureDefMap()
    signature = signatures.signature_def["serving_default"]
    signature.method_name = "tensorflow/serving/predict"
    for infos, name, dtype, shape in (
        (signature.inputs, "x", tf.float32, [None, 3]),
        (signature.inputs, "scale", tf.float32, []),
        (signature.outputs, "y", tf.float32, None),
    ):
        infos[name].name = f"{name}:0"
        infos[name].dtype = dtype.as_datatype_enum
        infos[name].tensor_shape.CopyFrom(tf.TensorShape(shape).as_proto())
    signature.defaults["scale"].CopyFrom(tf.make_tensor_proto(1.0))
    response = asked(get_model_metadata_pb2.GetModelMetadataResponse(), signature="", version=3)
    response.metadata["signature_def"].Pack(signatures, deterministic=True)
    return response


def status_response():
    states = get_model_status_pb2.ModelVersionStatus
    response = get_model_status_pb2.GetModelStatusResponse()
    response.model_version_status.add(version=4, state=states.LOADING)
    ended = response.model_version_status.add(version=3, state=states.END)
    ended.status.error_code, ended.status.error_message = 5, "gone"
    return response


def reload_request():
    request = model_management_pb2.ReloadConfigRequest()
    model = request.config.model_config_list.config.add(name="film", base_path="/models/film")
    model.model_platform = "tensorflow"
    model.model_version_policy.specific.versions.extend([2, 3])
    model.version_labels["stable"] = 2
    return request


MESSAGES = [
    predict_request,
    predict_request_by_label,
    predict_response,
    metadata_response,
    status_response,
    reload_request,
]


def main():
    for make in MESSAGES:
        (FOLDER / f"{make.__name__}.bin").write_bytes(make().SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()

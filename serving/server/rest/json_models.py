"""Status and metadata of models as JSON, in protobuf's own form of it.

Reference: ToJsonString in tensorflow_serving/model_servers/http_rest_api_util.cc;
protobuf.dev/programming-guides/json.
"""

import json
from collections.abc import Mapping
from typing import Any

from google.protobuf import json_format

# TensorFlow's own messages: their enums have the names that JSON shows.
from tensorflow_serving.apis import (  # pyright: ignore[reportMissingImports]
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
)

from ...wire import messages_pb2 as pb

_status: Any = get_model_status_pb2
_metadata: Any = get_model_metadata_pb2
_model: Any = model_pb2


def status_json(response: pb.GetModelStatusResponse) -> bytes:
    """The states of a model's versions.

    Example:
        >>> status_json(pb.GetModelStatusResponse())
        b'{"model_version_status": []}'
    """
    return _dumped(_status_dict(response))


def models_json(models: Mapping[str, pb.GetModelStatusResponse]) -> bytes:
    """The states of all models, as a list with the name of each."""
    listed = [{"name": name, **_status_dict(response)} for name, response in models.items()]
    return _dumped({"models": listed})


def metadata_json(response: pb.GetModelMetadataResponse) -> bytes:
    """The signatures of a model."""
    spec = _model.ModelSpec.FromString(response.model_spec.SerializeToString())
    signatures = _metadata.SignatureDefMap.FromString(response.metadata["signature_def"].value)
    return _dumped({"model_spec": _dict(spec), "metadata": {"signature_def": _dict(signatures)}})


def _status_dict(response: pb.GetModelStatusResponse) -> dict[str, Any]:
    return _dict(_status.GetModelStatusResponse.FromString(response.SerializeToString()))


def _dict(message: Any) -> dict[str, Any]:
    return json_format.MessageToDict(
        message, always_print_fields_with_no_presence=True, preserving_proto_field_name=True
    )


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()

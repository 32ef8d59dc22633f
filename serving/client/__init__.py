"""The client: NumPy and strings in, typed answers out, without TensorFlow."""

from keras_selfattn.extras import importing

with importing("client", __name__):
    from keras_selfattn.rows.text_spans import Span

    from .aio import AsyncClient
    from .answers import (
        Candidate,
        Classification,
        Contributions,
        Explanation,
        Generated,
        Labelling,
        Prediction,
        Ranked,
        VersionStatus,
    )
    from .function_transport import FunctionTransport
    from .inputs import serialized_example
    from .management import ModelConfig
    from .model_metadata import ModelMetadata, Signature, TensorSpec
    from .server_ref import Label
    from .sync import Client
    from .transport.base import AsyncTransport, PendingAnswer, Request, Transport
    from .transport.connection_settings import TLS

__all__ = [
    "TLS",
    "AsyncClient",
    "AsyncTransport",
    "Candidate",
    "Classification",
    "Client",
    "Contributions",
    "Explanation",
    "FunctionTransport",
    "Generated",
    "Label",
    "Labelling",
    "ModelConfig",
    "ModelMetadata",
    "PendingAnswer",
    "Prediction",
    "Ranked",
    "Request",
    "Signature",
    "Span",
    "TensorSpec",
    "Transport",
    "VersionStatus",
    "serialized_example",
]

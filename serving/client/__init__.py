"""The client: NumPy and strings in, typed answers out, without TensorFlow."""

from keras_selfattn.extras import importing

with importing("client", __name__):
    from .aio import AsyncClient
    from .answers import (
        Classification,
        ClassScore,
        Contributions,
        Explanation,
        Labelling,
        Prediction,
        VersionStatus,
    )
    from .management import ModelConfig
    from .model_metadata import ModelMetadata, Signature, TensorSpec
    from .sync import Client
    from .tf_examples import serialized_example
    from .transport.base import AsyncTransport, PendingAnswer, Request, Transport
    from .transport.connection import TLS

__all__ = [
    "TLS",
    "AsyncClient",
    "AsyncTransport",
    "ClassScore",
    "Classification",
    "Client",
    "Contributions",
    "Explanation",
    "Labelling",
    "ModelConfig",
    "ModelMetadata",
    "PendingAnswer",
    "Prediction",
    "Request",
    "Signature",
    "TensorSpec",
    "Transport",
    "VersionStatus",
    "serialized_example",
]

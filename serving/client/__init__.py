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
    from .transport.security import TLS

__all__ = [
    "TLS",
    "AsyncClient",
    "ClassScore",
    "Classification",
    "Client",
    "Contributions",
    "Explanation",
    "Labelling",
    "ModelConfig",
    "ModelMetadata",
    "Prediction",
    "Signature",
    "TensorSpec",
    "VersionStatus",
    "serialized_example",
]

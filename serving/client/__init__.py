"""The client: NumPy and strings in, typed answers out, without TensorFlow."""

from .answers import ModelMetadata, Signature, TensorSpec, VersionStatus
from .sync import Client

__all__ = ["Client", "ModelMetadata", "Signature", "TensorSpec", "VersionStatus"]

"""A served model that answers batches of rows, through the client."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_selfattn.asking.commands import signature_of
from keras_selfattn.asking.raw_texts import SignatureChoice
from keras_selfattn.batch.model_graph import RowError
from keras_selfattn.serving.client import Client, Signature
from keras_selfattn.serving.errors import InvalidArgumentError, InvalidInputError


class RemoteModel:
    """One version of a served model: all rows are answered by the same one.

    Args:
        client: connected to the server.
        name: of the signature, or the choice of one.
        version: the version; None for the latest as of now.

    Attributes:
        signature: its inputs and outputs.
        version: the version that answers.

    Raises:
        ServingError: if the server or the model is not there, or has no such signature.
    """

    def __init__(self, client: Client, name: str | SignatureChoice, version: int | None) -> None:
        metadata = client.metadata(version)
        self._client = client
        self._name = name if isinstance(name, str) else name.of(metadata.signatures)
        self.signature: Signature = signature_of(metadata, self._name)
        self.version = metadata.version

    def answers(self, inputs: Mapping[str, Sequence[Any]], outputs: Sequence[str]) -> Mapping[str, Any]:
        """As in `length_batches.BatchModel`."""
        try:
            return self._client.predict(dict(inputs), self._name, outputs, self.version)
        except (InvalidArgumentError, InvalidInputError) as error:
            raise RowError(error.details) from error

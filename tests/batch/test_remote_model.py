"""A served model as the batch reads it, over a function in a server's place."""

import numpy as np
import pytest

from keras_selfattn.batch.model_graph import RowError
from keras_selfattn.batch.remote_model import RemoteModel
from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client, FunctionTransport, Signature, TensorSpec

TEXT, NUMBER = TensorSpec("string", (None,)), TensorSpec("int64", (None,))


def lengths(inputs):
    if "bad" in inputs["text"]:
        raise errors.InvalidArgumentError("a bad text")
    return {"length": np.array([len(text) for text in inputs["text"]])}


def test_a_served_model_answers_batches_by_one_version_and_tells_rows_that_it_refuses():
    transport = FunctionTransport(lengths, Signature({"text": TEXT}, {"length": NUMBER}), version=7)
    model = RemoteModel(Client(transport=transport), "serving_default", None)
    assert (model.version, list(model.signature.inputs)) == (7, ["text"])
    assert model.answers({"text": ["a", "bc"]}, ["length"])["length"].tolist() == [1, 2]
    with pytest.raises(RowError, match="a bad text"):
        model.answers({"text": ["a", "bad"]}, ["length"])
    with pytest.raises(RowError, match="input 'text'"):
        model.answers({"text": [1, 2]}, ["length"])
    with pytest.raises(errors.FailedPreconditionError, match="no signature 'embed'"):
        RemoteModel(Client(transport=transport), "embed", None)

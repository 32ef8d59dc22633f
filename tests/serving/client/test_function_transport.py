"""The client over another transport than gRPC's: functions that answer, and a user's own."""

import asyncio
import threading

import numpy as np
import pytest

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import (
    AsyncClient,
    Client,
    FunctionTransport,
    Label,
    Request,
    Signature,
    TensorSpec,
    Transport,
)

X = TensorSpec("float32", (None, 2))
Y = TensorSpec("float32", (None,))
TEXT = TensorSpec("string", (None,))


def summed(inputs):
    return {"y": inputs["x"].sum(-1)}


def answering(inputs):
    return {"label": [text.upper() for text in inputs["text"]], "score": np.full(len(inputs["text"]), 0.75)}


@pytest.fixture
def sums():
    return FunctionTransport(summed, Signature({"x": X}, {"y": Y}), version=4)


@pytest.fixture
def texts():
    return FunctionTransport(answering, Signature({"text": TEXT}, {"label": TEXT, "score": Y}))


def test_a_function_answers_the_calls_of_a_client(sums):
    with Client(transport=sums, model="m") as client:
        answer = client.predict({"x": [[1, 2], [3, 5]]})
        assert (answer.model, answer.version, answer["y"].tolist()) == ("m", 4, [3, 8])
        assert client.metadata().signatures["serving_default"] == Signature(
            {"x": X}, {"y": Y}, method_name="tensorflow/serving/predict"
        )
        assert client.versions() == [4]
        assert client.wait_until_ready(5)[0].available
        assert (
            client.predict([[1, 2]], version=4).version
            == client.predict([[1, 2]], version=Label("a")).version
        )
        assert repr(client) == "Client('FunctionTransport', 'm', timeout=10)"
    assert [call["x"].tolist() for call in sums.calls] == [[[1, 2], [3, 5]], [[1, 2]], [[1, 2]]]


def test_a_function_answers_the_calls_of_an_async_client(sums):
    async def ask():
        async with AsyncClient(transport=sums) as client:
            parts = [
                outputs["y"] async for outputs in client.predict_iter([[1, 2], [3, 5], [4, 4]], batch_size=2)
            ]
            return (await client.predict([[1, 2]]))["y"].tolist(), [float(part) for part in parts]

    assert asyncio.run(ask()) == ([3], [3, 8, 8])


def test_strings_are_text_both_ways_and_tasks_work(texts):
    client = Client(transport=texts)
    assert [(row.label, row.score) for row in client.classify(["a", "ü"])] == [("A", 0.75), ("Ü", 0.75)]
    assert texts.calls[0]["text"].tolist() == ["a", "ü"]


def test_the_clients_own_checks_and_batches_are_the_real_ones(sums):
    client = Client(transport=sums, max_batch_size=2)
    assert client.predict(np.ones((5, 2)))["y"].tolist() == [2.0] * 5
    assert [len(call["x"]) for call in sums.calls] == [2, 2, 1]
    with pytest.raises(errors.InvalidInputError, match=r"input 'x' has shape \[1, 3\]"):
        client.predict([[1, 2, 3]])
    with pytest.raises(errors.NotFoundError, match="FunctionTransport"):
        client.predict([[1, 2]], version=5)
    with pytest.raises(errors.FailedPreconditionError, match="'serving_default'"):
        client.predict([[1, 2]], "explain")
    with pytest.raises(errors.UnimplementedError, match="has a function alone"):
        client.reload([])
    assert len(sums.calls) == 3


def test_further_signatures_are_functions_too(texts):
    texts.add("sums", summed, Signature({"x": X}, {"y": Y}))
    client = Client(transport=texts)
    assert client.predict([[1, 2]], "sums")["y"].tolist() == [3]
    assert list(client.metadata().signatures) == ["serving_default", "sums"]
    with pytest.raises(errors.InvalidInputError, match="Received 'float'"):
        texts.add("other", summed, Signature({"x": TensorSpec("float", None)}, {"y": Y}))


def test_a_function_may_fail_as_a_server_does():
    def busy(inputs):
        raise errors.UnavailableError("busy")

    client = Client(transport=FunctionTransport(busy, Signature({"x": X}, {"y": Y})), max_batch_size=1)
    for rows in ([[1, 2]], [[1, 2], [3, 5]]):
        with pytest.raises(errors.UnavailableError, match="busy"):
            client.predict(rows)


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"z": [1.0]}, r"returned the outputs \['z'\]; the signature has \['y'\]"),
        ({"y": ["a"]}, "output 'y' of the function"),
        ({"y": [[1.0]]}, r"output 'y' of the function has shape \[1, 1\]. It is float32 \[None\]"),
    ],
)
def test_a_function_that_does_not_fit_its_signature_is_told(outputs, message):
    client = Client(transport=FunctionTransport(lambda inputs: outputs, Signature({"x": X}, {"y": Y})))
    with pytest.raises(errors.InvalidInputError, match=message):
        client.predict([[1, 2]])


class Slow(Transport):
    """Sends on what it gets to another transport, and keeps what it was given."""

    def __init__(self, other):
        self.other, self.seen, self.closed = other, [], 0

    def send(self, request: Request, timeout: float) -> bytes:
        self.seen.append((request.method.rpartition("/")[2], request.rows, timeout, threading.get_ident()))
        return self.other.send(request, timeout)

    def close(self):
        self.closed += 1


def test_a_transport_of_ones_own_gets_each_call_its_rows_and_its_time(sums):
    slow = Slow(sums)
    with Client(transport=slow, max_batch_size=2, timeout=7) as client:
        client.predict([[1, 2]] * 3)
    assert slow.closed == 1
    assert [(name, rows) for name, rows, _, _ in slow.seen] == [
        ("GetModelMetadata", None),
        ("Predict", range(2)),
        ("Predict", range(2, 3)),
    ]
    assert all(6 < timeout <= 7 and thread == threading.get_ident() for _, _, timeout, thread in slow.seen)


@pytest.mark.parametrize(
    "settings", [{"connections": 2}, {"insecure": True}, {"metadata": {"a": "b"}}, {"wait_for_ready": True}]
)
def test_settings_of_grpcs_connections_are_not_for_another_transport(sums, settings):
    with pytest.raises(errors.InvalidInputError, match="transport= carries the calls itself"):
        Client(transport=sums, **settings)


def test_a_client_without_target_and_transport_is_told_so():
    with pytest.raises(errors.InvalidInputError, match="target must be"):
        Client()
    assert repr(Client("localhost:8500", transport=Slow(None))).startswith("Client('localhost:8500'")

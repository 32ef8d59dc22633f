"""The whole path: a trained model is exported, served, and queried by our client and the stock one."""

import grpc
import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from keras_selfattn import models
from keras_selfattn.export import export_saved_model
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig

TEXTS = ["good film", "a bore", "", "it never saw these", "ünï¢ødé ☃", "x " * 500_000, "y" * 1_000_000]


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    config = models.TextConfig(width=12, num_layers=2, num_heads=3, ngram_buckets=64, max_tokens=300)
    made = models.TextClassifier(config)
    made.compile(keras.optimizers.Adam(0.01))
    texts, labels = ["good film", "fine film", "bad film", "a bore"] * 20, ["+", "+", "-", "ü"] * 20
    made.fit(texts, labels, epochs=10, verbose=0)
    return made


@pytest.fixture(scope="module")
def server(model, tmp_path_factory):
    base = tmp_path_factory.mktemp("base")
    export_saved_model(model, base)
    with Server(ServerConfig("film", str(base), port=0)) as running:
        yield running


@pytest.mark.process
def test_our_client_gets_the_models_own_answers(model, server):
    wanted = model.predict(TEXTS, verbose=0)
    with Client(server.target, model="film", timeout=60) as client:
        client.wait_until_ready(60)
        np.testing.assert_allclose(client.predict({"text": TEXTS})["probabilities"], wanted, atol=1e-5)
        answers = client.classify(TEXTS)
    assert [answer.label for answer in answers] == [model.labels[index] for index in wanted.argmax(-1)]
    np.testing.assert_allclose([answer.score for answer in answers], wanted.max(-1), atol=1e-5)
    assert answers[0].label == "+"
    assert answers[1].label == "ü"
    assert [list(answer.scores) for answer in answers] == [model.labels] * len(TEXTS)
    np.testing.assert_allclose([list(answer.scores.values()) for answer in answers], wanted, atol=1e-5)


@pytest.mark.process
def test_our_client_gets_the_weights_between_the_tokens_of_each_text(model, server):
    with Client(server.target, model="film", timeout=60) as client:
        film, empty, long = client.explain(["good film", "", "x " * 1000])
    assert film.tokens[:2] == ["good", "film"]
    for explanation in (film, empty, long):
        length = len(explanation.tokens)
        assert explanation.weights.shape == (2, 3, length, length)
        np.testing.assert_allclose(explanation.weights.sum(-1), 1, atol=1e-5)
    assert len(long.tokens) == 300  # the model's max_tokens


@pytest.mark.process
def test_large_batches_are_split_to_the_same_answers(server):
    texts = TEXTS[:5] * 7
    with Client(server.target, model="film", timeout=60) as whole:
        expected = whole.predict(texts)
        classes = whole.classify(texts)
    with Client(server.target, model="film", timeout=60, max_batch_size=4) as parts:
        np.testing.assert_allclose(
            parts.predict(texts)["probabilities"], expected["probabilities"], atol=1e-6
        )
        assert [answer.label for answer in parts.classify(texts)] == [answer.label for answer in classes]
        assert [row["label"] for row in parts.predict_iter(texts)] == expected["label"].tolist()
        assert [len(each.tokens) for each in parts.explain(texts[:6])] == [
            len(each.tokens) for each in parts.explain(texts[:1]) + parts.explain(texts[1:6])
        ]


@pytest.mark.process
def test_the_stock_client_gets_the_same_numbers_to_the_last_bit(server):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "film"
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(TEXTS))
    with grpc.insecure_channel(server.target) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        outputs = stub.Predict(request, timeout=60).outputs
    with Client(server.target, model="film", timeout=60) as client:
        ours = client.predict({"text": TEXTS})
    assert set(ours) == set(outputs) == {"probabilities", "label", "score"}
    np.testing.assert_array_equal(ours["probabilities"], tf.make_ndarray(outputs["probabilities"]))
    np.testing.assert_array_equal(ours["score"], tf.make_ndarray(outputs["score"]))
    assert ours["label"].tolist() == [label.decode() for label in tf.make_ndarray(outputs["label"])]


@pytest.mark.process
def test_a_long_text_does_not_change_the_answer_to_its_neighbour(server):
    with Client(server.target, model="film", timeout=60) as client:
        alone, among = (
            client.predict({"text": texts}) for texts in (["good film"], ["good film", "x " * 200])
        )
    np.testing.assert_allclose(among["probabilities"][:1], alone["probabilities"], rtol=1e-5)

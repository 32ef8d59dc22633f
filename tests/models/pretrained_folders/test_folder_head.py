"""Classifiers that others have trained: read from folders with their heads, imported, and trained further."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from pretrained_folders import (
    BERT,
    DEBERTA,
    DISTILBERT,
    ELECTRA,
    MODERNBERT,
    MPNET,
    ROBERTA,
    XLM_ROBERTA,
    class_logits,
    classifier_of,
    classifier_weights,
    pieces_of,
    write_classifier,
    write_folder,
)

from keras_selfattn import models
from keras_selfattn.cli.main import main
from keras_selfattn.errors import ConfigError
from keras_selfattn.runs.run_folder import load_run

LABELS = ["good", "bad", "mixed"]  # not in alphabetical order
TEXTS = ["a good film .", "bad", "", "the films badly"]
WORDS = [["a", "good", "film", "."], ["bad"], [], ["the", "film", "##s", "bad", "##ly"]]
FAMILIES = [
    BERT,
    DEBERTA,
    ELECTRA,
    DISTILBERT,
    ROBERTA,
    XLM_ROBERTA,
    MPNET,
    MODERNBERT,
    MODERNBERT | {"classifier_pooling": "mean"},
]


def ids_of(config, words):
    """Returns the ids of a text as its folder has them."""
    pieces = pieces_of(config)
    first, last = ("<s>", "</s>") if "<s>" in pieces else ("[CLS]", "[SEP]")
    return [pieces.index(piece) for piece in (first, *words, last)]


def softmax(logits):
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


@pytest.mark.parametrize(
    "config",
    [FAMILIES[0], *(pytest.param(config, marks=pytest.mark.slow) for config in FAMILIES[1:])],
    ids=lambda config: config["model_type"] + config.get("classifier_pooling", ""),
)
def test_probabilities_are_those_of_the_formulas(tmp_path, config):
    tensors = classifier_weights(config, 3)
    model = models.TextClassifier.from_folder(write_classifier(tmp_path / "m", LABELS, config, tensors))
    assert (model.labels, model.multi_label, model.wide) == (LABELS, False, None)
    wanted = [softmax(class_logits(config, tensors, ids_of(config, words))) for words in WORDS]
    np.testing.assert_allclose(model.predict(TEXTS, verbose=0), wanted, atol=1e-5)


def test_several_labels_have_sigmoids(tmp_path):
    tensors = classifier_weights(DISTILBERT, 3)
    several = {"problem_type": "multi_label_classification"}
    model = models.TextClassifier.from_folder(
        write_classifier(tmp_path / "m", LABELS, DISTILBERT, tensors, **several)
    )
    assert model.multi_label
    logits = [class_logits(DISTILBERT, tensors, ids_of(DISTILBERT, words)) for words in WORDS]
    np.testing.assert_allclose(
        model.predict(TEXTS, verbose=0), 1 / (1 + np.exp(-np.array(logits))), atol=1e-5
    )


def test_load_returns_the_classifier_and_text_encoder_the_encoder(tmp_path):
    folder = write_classifier(tmp_path / "m", LABELS)
    found = models.load(folder)
    assert isinstance(found, models.TextClassifier)
    assert isinstance(models.TextEncoder(start=folder), models.TextEncoder)
    pooled = write_folder(
        tmp_path / "sentences",
        classifier_of(BERT, LABELS),
        classifier_weights(BERT, 3),
        modules__json=[
            {"type": "sentence_transformers.models.Transformer"},
            {"type": "sentence_transformers.models.Pooling", "path": "p"},
        ],
        **{"p/config__json": {"pooling_mode": "max"}},
    )
    assert isinstance(models.load(pooled), models.TextEncoder)
    found.save(tmp_path / "m.keras")
    again = models.load(tmp_path / "m.keras")
    assert (again.labels, again.config.hidden_head) == (LABELS, "tanh")
    np.testing.assert_allclose(again.predict(TEXTS, verbose=0), found.predict(TEXTS, verbose=0), atol=1e-6)


@pytest.mark.parametrize(
    ("config", "settings", "rates"),
    [
        (BERT, {"hidden_dropout_prob": 0.3}, (0.0, 0.3)),
        (BERT, {"hidden_dropout_prob": 0.3, "classifier_dropout": 0.4}, (0.0, 0.4)),
        (ELECTRA, {"classifier_dropout": 0.4}, (0.4, 0.4)),
        (DISTILBERT, {}, (0.0, 0.2)),
        (DISTILBERT, {"seq_classif_dropout": 0.5}, (0.0, 0.5)),
        (MPNET, {"hidden_dropout_prob": 0.3, "classifier_dropout": 0.4}, (0.3, 0.3)),
    ],
)
def test_dropout_is_that_of_the_folder(tmp_path, config, settings, rates):
    model = models.TextClassifier.from_folder(write_classifier(tmp_path / "m", LABELS, config, **settings))
    assert (model.config.hidden_dropout, model.config.head_dropout) == rates
    layers = [model.core.get_layer(name).rate for name in ("hidden_dropout", "head_dropout")]
    assert tuple(layers) == rates


@pytest.mark.parametrize(
    ("settings", "labels"),
    [({}, ["LABEL_0", "LABEL_1"]), ({"num_labels": 3}, ["LABEL_0", "LABEL_1", "LABEL_2"])],
)
def test_labels_without_names_are_numbered(tmp_path, settings, labels):
    config = classifier_of(BERT, None, **settings)
    folder = write_folder(tmp_path / "m", config, classifier_weights(BERT, len(labels)))
    assert models.TextClassifier.from_folder(folder).labels == labels


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        (
            {"problem_type": "regression"},
            "has 3 outputs, a number and no class .* `TextRegressor.from_fol",
        ),
        ({"problem_type": "other"}, "problem_type 'other' in config.json. Those that can be read are"),
        ({"id2label": {"0": "score"}}, "has 1 output, a number and no class .* `TextRegressor.from_folder`"),
        (
            {"id2label": {"0": "a", "2": "b"}},
            "each id, from 0 on, .* another id, such as '2'; the id 1 is missing",
        ),
        ({"id2label": {"0": "a", "1": "a"}}, "all different. Received 'a' more than once"),
        ({"id2label": {"0": "a", "1": ""}}, r"id2label .* Label 1 \(counted from 0\) is missing"),
        ({"id2label": {"0": "a", "1": 7}}, "id2label .* Received 7 for 1"),
        ({"id2label": ["a", "b"]}, r"id2label .* Received \['a', 'b'\]"),
        ({"id2label": None, "num_labels": 10**9}, "num_labels .* from 1 to 100,000.* Received 1000000000"),
        (
            {"architectures": ["BertForMaskedLM"]},
            "holds no classifier of texts: its model is BertForMaskedLM",
        ),
        ({"architectures": None}, "its model is unnamed"),
        ({"classifier_dropout": 2}, "`head_dropout` must be a number"),
        ({"model_type": "gpt2"}, "the family 'gpt2'. The encoders that can be read are"),
        ({"is_decoder": True}, "holds a decoder"),
    ],
)
def test_what_is_no_classifier_is_refused(tmp_path, settings, match):
    config = classifier_of(BERT, LABELS, **settings)
    folder = write_folder(tmp_path / "m", config, classifier_weights(BERT, 3))
    with pytest.raises(ConfigError, match=match):
        models.TextClassifier.from_folder(folder)


def test_a_head_of_modernbert_that_cannot_be_read_is_named_and_its_encoder_can(tmp_path):
    folder = write_classifier(tmp_path / "m", LABELS, MODERNBERT, classifier_pooling="max")
    with pytest.raises(
        ConfigError, match="classifier_pooling is 'max' in config.json. It must be cls or mean"
    ):
        models.load(folder)
    folder = write_classifier(tmp_path / "n", LABELS, MODERNBERT, classifier_activation="mish")
    with pytest.raises(ConfigError, match="The activation 'mish' of config.json is not known"):
        models.load(folder)
    width = MODERNBERT["hidden_size"]
    assert models.TextEncoder(start=folder).predict(["good"], verbose=0).shape == (1, width)


@pytest.mark.parametrize("change", [{"classifier_bias": True}, {"norm_bias": True}])
def test_biases_that_a_modernbert_says_it_has_must_be_there(tmp_path, change):
    tensors = classifier_weights({**MODERNBERT, "norm_bias": "norm_bias" in change}, 3)
    folder = write_classifier(tmp_path / "m", LABELS, {**MODERNBERT, **change}, tensors)
    with pytest.raises(ConfigError, match=r"head\.(dense|norm)\.bias is missing"):
        models.load(folder)


@pytest.mark.slow
def test_an_imported_modernbert_is_saved_and_trains_further(tmp_path):
    model = models.TextClassifier.from_folder(write_classifier(tmp_path / "m", LABELS, MODERNBERT))
    model.save(tmp_path / "m.keras")
    again = models.load(tmp_path / "m.keras")
    np.testing.assert_allclose(again.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0), atol=1e-6)
    before = {name: again.core.get_layer(name).get_weights() for name in ("hidden_head", "hidden_norm")}
    again.compile()
    again.fit(TEXTS * 4, ["good", "bad", "bad", "mixed"] * 4, epochs=1, verbose=0)
    for name, (weights,) in before.items():
        assert np.any(again.core.get_layer(name).get_weights()[0] != weights)


def test_all_faults_of_the_head_are_named_at_once(tmp_path):
    tensors = classifier_weights(BERT, 4)
    del tensors["bert.pooler.dense.bias"], tensors["bert.encoder.layer.0.output.dense.bias"]
    tensors["classifier.more.weight"] = np.zeros(3, np.float32)
    with pytest.raises(ConfigError) as caught:
        models.TextClassifier.from_folder(write_classifier(tmp_path / "m", LABELS, BERT, tensors))
    message = str(caught.value)
    assert "in 5 places" in message
    assert "bert.pooler.dense.bias is missing" in message
    assert "bert.encoder.layer.0.output.dense.bias is missing" in message
    assert "classifier.weight has shape [4, 8] where config.json needs [3, 8]" in message
    assert "classifier.bias has shape [4] where config.json needs [3]" in message
    assert "classifier.more.weight has no place in this family" in message


def test_an_encoder_ignores_the_head(tmp_path):
    tensors = {**classifier_weights(BERT, 4), "classifier.more.weight": np.zeros(3, np.float32)}
    models.TextEncoder(start=write_classifier(tmp_path / "m", LABELS, BERT, tensors))


def head_weights(model):
    return {
        name: [np.array(weight) for weight in model.core.get_layer(name).weights]
        for name in ("hidden_head", "logits")
    }


def test_training_for_the_same_labels_begins_with_the_head(tmp_path):
    folder = write_classifier(tmp_path / "m", LABELS)
    theirs = models.TextClassifier.from_folder(folder)
    model = models.TextClassifier({"wide": False}, start=folder)
    targets = ["mixed", "bad", "good", "bad"]
    model.adapt(TEXTS, targets)
    assert model.labels == ["bad", "good", "mixed"]
    order = [LABELS.index(label) for label in model.labels]
    np.testing.assert_allclose(
        model.predict(TEXTS, verbose=0), theirs.predict(TEXTS, verbose=0)[:, order], atol=1e-6
    )
    assert "and its head for the same 3 labels;" in model.start.described(TEXTS, targets)


@pytest.mark.parametrize(
    ("targets", "several"), [(["+", "-", "+", "-"], False), ([["good"], ["bad", "mixed"], [], []], True)]
)
def test_for_other_labels_it_begins_with_the_hidden_layer(tmp_path, targets, several):
    folder = write_classifier(tmp_path / "m", LABELS)
    wanted = head_weights(models.TextClassifier.from_folder(folder))
    model = models.TextClassifier({"wide": False}, start=folder)
    model.adapt(TEXTS, targets)
    assert model.multi_label == several
    found = head_weights(model)
    for ours, theirs in zip(found["hidden_head"], wanted["hidden_head"], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert not found["logits"][1].any()  # the biases of a new layer
    assert "a new output layer for other labels than its own" in model.start.described(TEXTS, targets)


def test_labels_begin_with_the_hidden_layer_of_a_score(tmp_path):
    model = models.TextClassifier(start=write_classifier(tmp_path / "m", ["score"]))
    assert model.config.hidden_head == "tanh"
    targets = ["+", "-", "+", "-"]
    assert "the hidden layer of its head, and a new output layer" in model.start.described(TEXTS, targets)
    model.adapt(TEXTS, targets)
    assert not head_weights(model)["logits"][1].any()  # the biases of a new layer


@pytest.mark.slow
def test_an_imported_classifier_trains_further_with_its_head(tmp_path):
    model = models.TextClassifier.from_folder(write_classifier(tmp_path / "m", LABELS))
    before = head_weights(model)
    model.compile()
    model.fit(TEXTS * 4, ["good", "bad", "bad", "mixed"] * 4, epochs=1, verbose=0)
    for name, weights in head_weights(model).items():
        assert all(np.any(old != new) for old, new in zip(before[name], weights, strict=True))


def test_the_hidden_layer_of_the_folder_cannot_be_changed(tmp_path):
    folder = write_classifier(tmp_path / "m", LABELS)
    with pytest.raises(ConfigError, match=r"`hidden_head` is 'tanh' in .*: leave it out"):
        models.TextClassifier({"hidden_head": None}, start=folder)
    with pytest.raises(
        ConfigError,
        match="`hidden_head` must be one of None, tanh, relu, gelu, gelu_tanh, silu. Received 'x'",
    ):
        models.FineTunedConfig(hidden_head="x")


def invoke(*arguments):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return done.exit_code, " ".join(done.output.split())


def test_data_needs_a_run(tmp_path):
    folder = write_classifier(tmp_path / "m", LABELS)
    code, output = invoke("export", folder, tmp_path / "base", "--data", tmp_path / "rows.csv")
    assert code != 0
    assert "write a run of it first, with `keras-selfattn import`" in output


@pytest.mark.slow
def test_train_begins_with_the_head_and_says_so(tmp_path):
    folder, run, table = write_classifier(tmp_path / "m", LABELS), tmp_path / "run", tmp_path / "rows.jsonl"
    rows = zip(TEXTS * 6, ["good", "bad", "mixed", "bad"] * 6, strict=True)
    table.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    # Too slow to change anything, so that the answers are those of the folder.
    settings = ("--no-wide", "--epochs", 1, "--learning-rate", 1e-9, "--refit")
    code, output = invoke("train", table, "--output", run, "--from", folder, *settings)
    assert code == 0, output
    assert "bert, 2 blocks of width 8, and its head for the same 3 labels;" in output
    model, theirs = load_run(run), models.TextClassifier.from_folder(folder)
    found = dict(zip(model.labels, model.predict(TEXTS, verbose=0).T, strict=True))
    wanted = dict(zip(theirs.labels, theirs.predict(TEXTS, verbose=0).T, strict=True))
    for label in LABELS:
        np.testing.assert_allclose(found[label], wanted[label], atol=1e-4)


def test_explain_has_the_padding_that_a_text_has(tmp_path):
    model = models.TextClassifier.from_folder(write_classifier(tmp_path / "m", LABELS))
    (found,) = model.explain(["a [PAD] film"])
    assert found.tokens == ["[CLS]", "a", "[PAD]", "film", "[SEP]"]
    assert found.weights.min() > 0  # each token sees each other
    np.testing.assert_allclose(found.weights.sum(axis=-1), 1, atol=1e-5)


@pytest.mark.process
def test_the_path_from_a_folder_to_a_served_classifier(tmp_path):
    from keras_selfattn.export import read_card
    from keras_selfattn.serving.client import Client
    from keras_selfattn.serving.server import Server, ServerConfig

    folder, run = write_classifier(tmp_path / "m", LABELS), tmp_path / "run"
    rows = zip(TEXTS, ["good", "bad", "bad", "mixed"], strict=True)
    table = tmp_path / "rows.jsonl"
    table.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    for arguments in (
        ("import", folder, "--output", run),
        ("evaluate", run, table),
        ("export", run, tmp_path / "imported"),
        ("export", run, tmp_path / "int8", "--data", table, "--precision", "int8-weights"),
        ("export", folder, tmp_path / "direct"),
    ):
        code, output = invoke(*arguments)
        assert code == 0, output
    card = read_card(tmp_path / "imported" / "1")
    assert (card["task"], card["labels"]) == ("text-classification", LABELS)
    assert set(card["signatures"]) == {"serving_default", "classify", "explain"}
    asked = [*TEXTS, "[PAD] a good [PAD] film"]
    wanted = models.TextClassifier.from_folder(folder).predict(asked, verbose=0)
    for name, tolerance in (("imported", 1e-5), ("direct", 1e-5), ("int8", 0.1)):
        with Server(ServerConfig(name, tmp_path / name, port=0)) as server:
            with Client(server.target, model=name) as client:
                answers = client.classify(asked)
            code, output = invoke("query", name, TEXTS[0], "--target", server.target)
        found = [[answer.scores[label] for label in LABELS] for answer in answers]
        np.testing.assert_allclose(found, wanted, atol=tolerance)
        assert code == 0, output
        assert LABELS[int(wanted[0].argmax())] in output

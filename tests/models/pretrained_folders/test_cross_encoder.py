"""Cross-encoders of others: the marks of their folders, and their scores by the formulas."""

import json

import numpy as np
import pytest
from pretrained_folders import BERT, class_logits, classifier_weights, pieces_of, write_classifier

from keras_selfattn import models
from keras_selfattn.errors import ConfigError, RunError
from keras_selfattn.models.heads.score_heads import ScoreHead

SIGMOID, IDENTITY = "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"
SOFTMAX = "torch.nn.modules.activation.Softmax"
PAIRS = [("a good film .", "bad"), ("the films badly", "good"), ("", "good film")]
WORDS = [
    (["a", "good", "film", "."], ["bad"]),
    (["the", "film", "##s", "bad", "##ly"], ["good"]),
    ([], ["good", "film"]),
]
MODULES = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.Transformer"}]
OLDER, OLDEST = "sentence_transformers", "sbert_ce_default_activation_function"


def newest(**found):
    """Returns the files of a CrossEncoder of sentence-transformers 6."""
    return {
        "config_sentence_transformers.json": {"model_type": "CrossEncoder", **found},
        "modules.json": MODULES,
    }


def write(folder, labels=("score",), files=(), tensors=None, **settings):
    """Writes the folder of a BERT with these outputs, and these files by name."""
    write_classifier(folder, list(labels), BERT, tensors, **settings)
    for name, content in dict(files).items():
        (folder / name).write_text(json.dumps(content))
    return folder


def logits_of_pairs(tensors):
    """Returns the logits of PAIRS, `[rows, outputs]`, by the formulas."""
    pieces, found = pieces_of(BERT), []
    for first, second in WORDS:
        ids = [pieces.index(piece) for piece in ("[CLS]", *first, "[SEP]", *second, "[SEP]")]
        types = [0] * (len(first) + 2) + [1] * (len(second) + 1)
        found.append(class_logits(BERT, tensors, ids, types))
    return np.array(found)


def sigmoid(logits):
    return 1 / (1 + np.exp(-logits))


@pytest.mark.parametrize(
    ("files", "settings", "bounded"),
    [
        # A newer place wins.
        (newest(activation_fn=IDENTITY), {OLDER: {"activation_fn": SIGMOID}}, False),
        ({}, {OLDER: {"activation_fn": IDENTITY, "version": "5.0"}, OLDEST: SIGMOID}, False),
        ({}, {OLDEST: SIGMOID, "problem_type": "regression"}, True),
        # Without a function it is a sigmoid in sentence-transformers, whatever the problem.
        (newest(), {"problem_type": "regression"}, True),
        ({}, {OLDER: {"activation_fn": None}, OLDEST: IDENTITY}, True),
    ],
    ids=["newest", "older", "oldest", "newest without", "older without"],
)
def test_the_scores_of_pairs_are_those_of_the_formulas(tmp_path, files, settings, bounded):
    tensors = classifier_weights(BERT, 1)
    model = models.load(write(tmp_path / "m", files=files, tensors=tensors, **settings))
    assert isinstance(model, models.TextRegressor)
    assert (model.text_pairs, model.config.bounded, model.wide) == (True, bounded, None)
    wanted = logits_of_pairs(tensors)
    found = model.predict(PAIRS, verbose=0)
    np.testing.assert_allclose(found, sigmoid(wanted) if bounded else wanted, atol=1e-5)
    assert model.baselines(PAIRS) == {}  # no mean of targets that nobody trained on


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "bounded", "reason"),
    [
        ({"problem_type": "regression"}, False, "`problem_type` of config.json"),
        ({}, True, "the default of transformers' pipelines; no field names a function"),
    ],
)
def test_a_folder_that_says_nothing_of_pairs_needs_to_be_told(tmp_path, settings, bounded, reason):
    tensors = classifier_weights(BERT, 1)
    folder = write(tmp_path / "m", tensors=tensors, **settings)
    with pytest.raises(ConfigError, match=r"do not say if its score is of one text or of two.*--text-pairs"):
        models.load(folder)
    one = models.TextRegressor.from_folder(folder, text_pairs=False)
    assert (one.text_pairs, one.config.bounded) == (False, bounded)
    assert one.start.folder_head(scores=True).reason == reason
    pieces = pieces_of(BERT)
    wanted = class_logits(BERT, tensors, [pieces.index(piece) for piece in ("[CLS]", "good", "[SEP]")])
    found = one.predict(["good"], verbose=0)[0]
    np.testing.assert_allclose(found, sigmoid(wanted) if bounded else wanted, atol=1e-5)


@pytest.mark.slow
def test_several_numbers_of_a_regression_are_scores(tmp_path):
    tensors = classifier_weights(BERT, 3)
    folder = write(tmp_path / "m", "abc", tensors=tensors, problem_type="regression")
    model = models.TextRegressor.from_folder(folder, text_pairs=True)
    np.testing.assert_allclose(model.predict(PAIRS, verbose=0), logits_of_pairs(tensors), atol=1e-5)
    # A training has its own units, even where their mean is 0 and their deviation 1.
    trained = ScoreHead.from_targets(ScoreHead.read([[1, -1, 1], [-1, 1, -1]]))
    assert model.start.has_output_layer_for(model.head)
    assert not model.start.has_output_layer_for(trained)


@pytest.mark.parametrize(("files", "asked"), [(newest(activation_fn=IDENTITY), None), ({}, True)])
def test_labels_of_pairs_have_the_probabilities_of_the_formulas(tmp_path, files, asked):
    tensors = classifier_weights(BERT, 3)
    folder = write(tmp_path / "m", ["entailed", "other", "opposed"], files, tensors)
    model = models.TextClassifier.from_folder(folder, text_pairs=asked)
    logits = np.exp(logits_of_pairs(tensors))
    found = model.predict(PAIRS, verbose=0)
    np.testing.assert_allclose(found, logits / logits.sum(axis=1, keepdims=True), atol=1e-5)


@pytest.mark.parametrize(
    ("labels", "files", "settings", "match"),
    [
        (
            "s",
            newest(activation_fn="my.Own"),
            {},
            "of config_sentence_transformers.json is 'my.Own'. The f",
        ),
        ("s", {}, {OLDER: {"activation_fn": "torch.nn.Tanh"}}, "in config.json is 'torch.nn.Tanh'. The func"),
        ("s", {}, {OLDEST: 3}, f"`{OLDEST}` of config.json is 3. The functions"),
        ("s", {}, {OLDER: "x"}, "`sentence_transformers` in .* must be an object. Received 'x'"),
        ("s", newest(activation_fn=SOFTMAX), {}, "is a softmax, but its outputs are scores"),
        ("ab", newest(activation_fn=SIGMOID), {}, "is a sigmoid, which does not fit the problem_type None"),
        (
            "ab",
            newest(activation_fn=SOFTMAX),
            {"problem_type": "multi_label_classification"},
            "is a softmax, which does not fit the problem_type 'multi_label_classification'",
        ),
    ],
)
def test_other_functions_are_refused_by_name(tmp_path, labels, files, settings, match):
    with pytest.raises(ConfigError, match=match):
        models.load(write(tmp_path / "m", labels, files, **settings))


def test_contradictions_are_refused_by_name(tmp_path):
    folder = write(tmp_path / "m", files=newest(activation_fn=IDENTITY))
    with pytest.raises(ConfigError, match="holds a cross-encoder, whose rows are two texts .*--one-text"):
        models.TextRegressor.from_folder(folder, text_pairs=False)
    with pytest.raises(ConfigError, match=r"has 2 labels .* Read it with `TextClassifier.from_folder`"):
        models.TextRegressor.from_folder(write(tmp_path / "labels", "ab"))
    with pytest.raises(ConfigError, match="`text_pairs` must be True, False or None. Received 'yes'"):
        models.TextClassifier.from_folder(tmp_path / "labels", text_pairs="yes")
    (folder / "modules.json").unlink()
    with pytest.raises(RunError, match="lacks modules.json, which a CrossEncoder"):
        models.load(folder)


@pytest.mark.slow
def test_a_score_is_saved_and_one_in_bounds_is_trained_further(tmp_path):
    folder = write(tmp_path / "m", files=newest(activation_fn=SIGMOID))
    theirs = models.load(folder)
    theirs.save(tmp_path / "m.keras")
    wanted = theirs.predict(PAIRS, verbose=0)
    np.testing.assert_allclose(models.load(tmp_path / "m.keras").predict(PAIRS, verbose=0), wanted, atol=1e-6)
    further = models.TextRegressor({"wide": False, "bounded": True}, start=folder)
    targets = [np.array([each]) for each in (0.0, 1.0, 0.5)]
    further.adapt(PAIRS, targets)
    np.testing.assert_allclose(further.predict(PAIRS, verbose=0), wanted, atol=1e-6)
    said = further.start.described(PAIRS, targets, bounded=True)
    # Of 8, 9 and 5 pieces, special ones included.
    assert "and its head for scores in [0, 1]; 7 pieces a pair, of which 0.00% are unknown" in said
    assert "and a new output layer;" in further.start.described(PAIRS, targets)


@pytest.mark.slow
def test_a_score_without_bounds_begins_with_the_hidden_layer(tmp_path):
    """Its output layer is of the folder's units, not of deviations of the targets."""
    folder = write(tmp_path / "m", files=newest(activation_fn=IDENTITY))
    model = models.TextRegressor({"wide": False}, start=folder)
    model.adapt(PAIRS, [1.0, 5.0, 3.0])
    of_folder = models.load(folder)
    hidden, wanted = (each.core.get_layer("hidden_head").get_weights() for each in (model, of_folder))
    np.testing.assert_array_equal(hidden[0], wanted[0])
    assert not model.core.get_layer("logits").get_weights()[1].any()


@pytest.mark.process
def test_the_path_from_a_folder_to_ranked_documents(tmp_path):
    from keras_selfattn.export import export_saved_model
    from keras_selfattn.serving.client import Client
    from keras_selfattn.serving.server import Server, ServerConfig

    tensors = classifier_weights(BERT, 1)
    model = models.load(write(tmp_path / "m", files=newest(activation_fn=SIGMOID), tensors=tensors))
    export_saved_model(model, tmp_path / "ranker")
    wanted = sigmoid(logits_of_pairs(tensors))[:, 0]
    with (
        Server(ServerConfig("ranker", tmp_path / "ranker", port=0)) as server,
        Client(server.target, model="ranker") as client,
    ):
        np.testing.assert_allclose(client.score(PAIRS), wanted, atol=1e-5)
        query, documents = PAIRS[0][0], ["good film", PAIRS[0][1], "the"]
        ranked = client.rank(query, documents)
    scores = model.predict([(query, document) for document in documents], verbose=0)[:, 0]
    assert [each.index for each in ranked] == np.argsort(-scores, kind="stable").tolist()
    np.testing.assert_allclose([each.score for each in ranked], np.sort(scores)[::-1], atol=1e-5)

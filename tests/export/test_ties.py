"""The check of an export forgives another label at a tie of the rule that chose it, and nowhere else."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn import models
from keras_selfattn.export import check, export_saved_model
from keras_selfattn.export.signatures.answers import Classification, Labelling, LabelSets
from keras_selfattn.models.heads import label_rules
from keras_selfattn.models.tokens import span_labels
from keras_selfattn.models.tokens.span_labels import SpanDecoder
from keras_selfattn.serving.wire import signature_names


def refused(run, outputs):
    """Return why `check.py` refuses the answers of `run`, None if it takes them."""
    case = {"signature": "s", "inputs": {}, "outputs": outputs, "tolerance": 1e-5}
    return check.wrong(case, lambda *_: run(0), lambda *_: run(0))


def test_the_check_which_imports_nothing_has_the_names_and_bounds_of_the_rules():
    names = (check._LABEL, check._LABELS, check._SCORE, check._PROBABILITIES)
    wanted = (signature_names.LABEL, signature_names.LABELS, signature_names.SCORE)
    assert names == (*wanted, signature_names.PROBABILITIES)
    assert check._COUNT == signature_names.COUNT
    assert (check._THRESHOLD, check._LEAST) == (label_rules.THRESHOLD, span_labels._LEAST)


# The model's answers, and those of a graph whose probabilities differ by half of the tolerance: at a tie each
# has other labels, by the same rule.
_NEAR = np.float32(4e-6)
_BEFORE_TIE = np.float32([[0.9, 0.5 + _NEAR, 0.1], [0.2, 0.8, 0.7]])
_AFTER_TIE = np.float32([[0.9, 0.5 - _NEAR, 0.1], [0.2, 0.8, 0.7]])


def answered(answers, probabilities, mask=None):
    """Return answers of the graph, as `check.py` reads them."""
    outputs = tf.constant(probabilities)
    if mask is not None:
        outputs._keras_mask = tf.constant(mask)
    return {name: value.numpy() for name, value in answers.named(outputs).items()}


def with_value(outputs, name, place, value):
    changed = outputs[name].copy()
    changed[place] = value
    return {**outputs, name: changed}


def test_labels_of_a_row_may_differ_where_a_probability_is_one_half_and_only_there():
    answers = LabelSets(["a", "b", "c"])
    wanted, found = (answered(answers, each) for each in (_BEFORE_TIE, _AFTER_TIE))
    assert [each["labels"].tolist()[0] for each in (wanted, found)] == [[b"a", b"b", b""], [b"a", b"", b""]]
    assert refused(lambda _: found, wanted) is None
    assert refused(lambda _: wanted, found) is None
    for place, value in (((0, 0), b""), ((0, 2), b"c"), ((1, 1), b""), ((0, 1), b"c")):
        wrong = with_value(found, "labels", place, value)
        assert refused(lambda _, wrong=wrong: wrong, wanted) == "labels differs from the model's"


# B-A I-A and O O are equally probable, 0.4 * 0.6 = 0.6 * 0.4, while no two labels of one token are; O I-A is
# not valid.
_TIED_SPANS = np.float32([[[0.4, 0.0, 0.6], [0.0, 0.6, 0.4], [0, 0, 0]], [[0.7, 0.1, 0.2]] * 3])
_TIED_MASK = [[True, True, False], [True, True, True]]


def tied_paths():
    """Return the answers of a labeller of spans to rows of which one has two paths of equal probability."""
    answers = Labelling(["B-A", "I-A", "O"], SpanDecoder(["B-A", "I-A", "O"]))
    raised = np.zeros_like(_TIED_SPANS)
    raised[0, 0, 0] = _NEAR
    return [answered(answers, _TIED_SPANS + sign * raised, _TIED_MASK) for sign in (1, -1)]


def test_a_path_of_labels_and_its_scores_may_differ_where_two_paths_tie():
    spans, outside = tied_paths()
    assert spans["label"].tolist()[0] == [b"B-A", b"I-A", b""]
    assert outside["label"].tolist()[0] == [b"O", b"O", b""]
    assert refused(lambda _: outside, spans) is None
    assert refused(lambda _: spans, outside) is None


@pytest.mark.parametrize(
    ("output", "place", "value", "reason"),
    [
        # Of a path that ties with none.
        ("label", (1, 0), b"O", "label differs from the model's"),
        ("score", (1, 0), 0.2, "score differs from the model's by 0.5 (allowed: 1e-05)"),
        # Of the tied one: a label without its score, scores without their labels, and padding with a score.
        ("label", (0, 0), b"B-A", "score differs from the model's by 0.2 (allowed: 1e-05)"),
        ("score", (0, 0), 0.5, "label differs from the model's"),
        ("score", (0, 1), 0.6, "label differs from the model's"),
        ("score", (0, 2), 0.4, "label differs from the model's"),
    ],
)
def test_a_wrong_label_or_score_beside_a_tie_is_refused(output, place, value, reason):
    spans, outside = tied_paths()
    found = with_value(outside, output, place, value)
    assert refused(lambda _: found, spans) == reason


def test_a_wrong_label_with_its_own_low_score_is_refused():
    """The less probable one of two rows of labels, each label with its probability."""
    spans, _ = tied_paths()
    wrong = with_value(with_value(spans, "label", (1, 2), b"O"), "score", (1, 2), 0.2)
    assert "differs from the model's" in refused(lambda _: wrong, spans)


def labelled(probabilities):
    """Return the answers of a labeller of three classes to one row, `[positions, 3]`."""
    return answered(Labelling(["a", "b", "c"]), np.float32(probabilities)[None])


def with_wrong(wanted, place, probability):
    """Return answers with the second class at a position, which has that probability."""
    found = with_value(wanted, "label", (0, place), b"b")
    return with_value(found, "score", (0, place), np.float32(probability))


@pytest.mark.parametrize("positions", [2, 20, 100, 500])
@pytest.mark.parametrize("tolerance", [1e-5, 5e-2])
def test_a_wrong_label_in_a_row_of_any_length_is_refused(positions, tolerance):
    """The tolerance of labels that both answers have counts for nothing, however many they are."""
    wanted = labelled([[0.6, 0.25, 0.15]] + [[0.7, 0.2, 0.1]] * (positions - 1))
    found = with_wrong(wanted, 0, 0.25)
    case = {"signature": "s", "inputs": {}, "outputs": wanted, "tolerance": tolerance}
    assert "differs from the model's" in check.wrong(case, lambda *_: found, lambda *_: found)


def test_a_wrong_label_beside_a_shared_one_of_nearly_no_probability_is_refused():
    """A score below the tolerance, which both answers have, excuses no other label."""
    wanted = labelled([[0.7, 0.1, 0.2], [0.4, 0.3, 0.3]])
    wanted = with_value(wanted, "score", (0, 1), np.float32(1e-6))
    wanted = with_value(wanted, "probabilities", (0, 1), np.float32([1e-6, 0.5, 0.5]))
    found = with_wrong(wanted, 0, 0.1)
    assert "differs from the model's" in refused(lambda _: found, wanted)


def test_padding_has_no_label_at_any_tie():
    spans, _ = tied_paths()
    found = with_value(spans, "label", (0, 2), b"O")
    assert refused(lambda _: found, spans) == "label differs from the model's"


def test_a_label_at_a_tie_is_that_of_a_class_with_its_score():
    """The third class, which ties with none, has another probability than the score."""
    outputs = np.float32([[0.4, 0.4, 0.2]])
    wanted = answered(Classification(["a", "b", "c"]), outputs)
    assert wanted["label"].tolist() == [b"a"]
    assert refused(lambda _: {**wanted, "label": np.array([b"b"])}, wanted) is None
    third = {**wanted, "label": np.array([b"c"]), "score": np.float32([0.2])}
    assert "differs from the model's" in refused(lambda _: third, wanted)


@pytest.mark.process
@pytest.mark.slow
def test_a_model_of_many_labels_a_row_is_exported_in_half_precision(tmp_path):
    """Some of its probabilities are nearer to one half than the graph is to the model."""
    keras.utils.set_random_seed(0)
    config = models.TextConfig(width=16, num_layers=2, num_heads=2, wide=False, members=1)
    labels = [f"label {place}" for place in range(400)]
    model = models.TextClassifier(
        config, vocabulary=["good", "film"], labels=labels, multi_label=True, dtype="bfloat16"
    )
    random = np.random.default_rng(0)
    for weight in model.core.get_layer("logits").weights:
        weight.assign(random.normal(0, 0.05, weight.shape))
    folder = export_saved_model(model, tmp_path)
    answers = tf.saved_model.load(str(folder)).signatures["serving_default"](text=tf.constant(["good film"]))
    chosen = answers["probabilities"].numpy()[0] >= 0.5
    wanted = [label.encode() if is_there else b"" for label, is_there in zip(labels, chosen, strict=True)]
    assert answers["labels"].numpy()[0].tolist() == wanted
    assert 0 < chosen.sum() < 400


def test_spans_may_differ_in_texts_whose_tokens_are_near_another_label_and_only_there():
    wanted = {
        "label": np.array([[b"A", b"B"], [b"A", b""], [b"", b""]], object),
        "start": np.int32([[0, 4], [2, 0], [0, 0]]),
        "score": np.float32([[0.5, 0.9], [0.9, 0], [0, 0]]),
        "count": np.int32([2, 1, 0]),
    }
    # The first text has one span, so that the answer of all is narrower.
    found = {name: value[:, 1:] if value.ndim > 1 else np.int32([1, 1, 0]) for name, value in wanted.items()}
    found = {
        name: np.concatenate([value[:1], wanted[name][1:, :1]]) if value.ndim > 1 else value
        for name, value in found.items()
    }

    def refused_of(found, margins):
        case = {"signature": "s", "inputs": {}, "outputs": wanted, "tolerance": 1e-5, "margins": margins}
        return check.wrong(case, lambda *_: found, lambda *_: found)

    assert refused_of(found, [1e-5, 0.5, 1]) is None
    assert refused_of(found, [-1, 0.5, 1]) is None
    assert "has shape (3, 1) instead of (3, 2)" in refused_of(found, [3e-5, 0.5, 1])
    assert (
        refused_of(with_value(found, "start", (1, 0), 3), [1e-5, 0.5, 1]) == "start differs from the model's"
    )
    assert (
        refused_of(with_value(found, "count", 1, 0), [1e-5, 0.5, 1])
        == "label has shape (2, 0) instead of (2, 1)"
    )


def test_texts_may_differ_in_rows_whose_search_is_near_another_choice_and_only_there():
    wanted = {
        "text": np.array([b"a b", b"c"], object),
        "candidates": np.array([[b"a b", b"a"], [b"c", b"d"]], object),
        "candidate_scores": np.float32([[-1, -2], [-0.5, -3]]),
    }
    found = with_value(with_value(wanted, "text", 0, b"a"), "candidate_scores", (0, 0), -1.5)

    def refused_of(found, margins):
        case = {"signature": "s", "inputs": {}, "outputs": wanted, "tolerance": 1e-5, "margins": margins}
        return check.wrong(case, lambda *_: found, lambda *_: found)

    assert refused_of(found, [1e-5, 0.5]) is None
    assert refused_of(found, [3e-5, 0.5]) == "text differs from the model's"
    # The columns of certain rows are compared, all of them.
    assert refused_of(with_value(found, "candidates", (1, 1), b"e"), [1e-5, 1]) == (
        "candidates differs from the model's"
    )
    longer = {**found, "candidates": found["candidates"][:, :1]}
    assert refused_of(longer, [1e-5, 1]) == "candidates has shape (1, 1) instead of (1, 2)"


def test_values_whose_sizes_follow_from_an_answer_may_differ_if_no_row_is_certain():
    wanted = {
        "target_tokens": np.array([[b"a", b"b"]], object),
        "weights": np.ones((1, 2, 3, 2, 5), "float32"),
    }
    found = {"target_tokens": np.array([[b"a"]], object), "weights": np.ones((1, 2, 3, 1, 5), "float32")}

    def refused_of(found, margins):
        case = {"signature": "s", "inputs": {}, "outputs": wanted, "tolerance": 1e-5, "margins": margins}
        return check.wrong(case, lambda *_: found, lambda *_: found)

    assert refused_of(found, [1e-6]) is None
    assert refused_of(found, [1]) == "target_tokens has shape (1, 1) instead of (1, 2)"
    assert "the outputs are" in refused_of({"weights": found["weights"]}, [1e-6])

"""TextClassifier: raw strings in, names out, and everything it needs in one file."""

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from keras_selfattn import export, models
from keras_selfattn.errors import ConfigError, DataError, RunError
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.text.tokenizer import split
from keras_selfattn.models.tokens.token_features import PIECES, spellings

NOTHING_DROPPED = dict.fromkeys(("dropout", "word_dropout", "embedding_dropout", "head_dropout"), 0.0)
SMALL = models.TextConfig(width=8, num_layers=1, num_heads=2, ngram_buckets=64, **NOTHING_DROPPED)
TEXTS = ["good film", "a fine film indeed", "bad film", "poor", "good", "bad bad bad"] * 8
LABELS = ["+", "+", "-", "-", "+", "-"] * 8


def words(config, text):
    return [token.decode() for token in split(config, tf.constant([text])).to_list()[0]]


@pytest.fixture(scope="module")
def trained():
    keras.utils.set_random_seed(0)
    model = models.TextClassifier(SMALL)
    model.compile(keras.optimizers.Adam(0.02))
    model.fit(TEXTS, LABELS, epochs=15, verbose=0)
    return model


def test_longer_texts_are_counted_in_a_warning():
    model = models.TextClassifier(models.TextConfig(max_tokens=2))
    with pytest.warns(UserWarning, match="1 of 3 texts are longer than max_tokens=2"):
        model.adapt(["a b c", "a b", "a"], ["+", "-", "+"])


def test_a_token_attends_as_far_as_the_window_reaches():
    keras.utils.set_random_seed(0)
    config = models.TextConfig(width=8, num_heads=2, window=2, wide=False)
    model = models.TextClassifier(config, vocabulary=["it", "was"], labels=["+", "-"])
    encoded = keras.Model(model.core.input, model.core.get_layer("encoder").output)
    one, other = (np.asarray(encoded(np.array([[2] * 11 + [last]]))) for last in (2, 3))
    # Of words the convolution before it reaches one further.
    assert (np.abs(one - other).max(-1) > 1e-7)[0].tolist() == [False] * 8 + [True] * 4


def test_training_reads_runs_of_long_texts_and_answers_are_from_all_of_them():
    config = models.TextConfig(width=8, num_heads=2, wide=False, training_span=5, min_count=1)
    model = models.TextClassifier(config)
    texts = ["good " * 20, "bad " * 4] * 8
    model.adapt(texts, ["+", "-"] * 8)
    rows = Rows(texts, ["+", "-"] * 8)
    assert {ids.shape[1] for ids, _ in model.batches(rows, 1, training=True)} == {4, 5}
    assert {ids.shape[1] for ids, _ in model.batches(rows, 1)} == {4, 20}


@pytest.mark.slow
def test_the_last_word_of_a_long_text_counts():
    keras.utils.set_random_seed(0)
    model = models.TextClassifier(models.TextConfig(width=8, num_heads=2, wide=False))
    model.adapt([" ".join(["word"] * 99_999 + [last]) for last in ("good", "bad")], ["+", "-"])
    found = [model.predict([" ".join(["word"] * 99_999 + [last])], verbose=0) for last in ("word", "it")]
    assert np.abs(found[0] - found[1]).max() > 0


def test_words_of_one_stem_share_pieces_and_the_model_knows_them_by_id():
    vocabulary = ["play", "played", "of", "2024"]
    pieces = spellings(vocabulary, 65_537)
    assert (pieces.shape, pieces.dtype) == ((4, PIECES), np.int32)
    play, played, of, year = map(set, pieces.tolist())
    assert len(play & played) == 5, "four beginnings and the shape"
    assert len(play & of) == 1, "the shape"
    assert not play & year
    model = models.TextClassifier(SMALL, vocabulary=vocabulary, labels=["+", "-"])
    places = np.asarray(model.core.get_layer("spelling").places)
    np.testing.assert_array_equal(places[2:], spellings(vocabulary, SMALL.ngram_buckets + 1))
    assert not places[:2].any(), "padding and unknown words have no spelling"


def test_words_look_at_their_neighbours_and_characters_do_not():
    def layers(tokens):
        config = models.TextConfig(width=8, num_heads=2, ngram_buckets=64, tokens=tokens)
        model = models.TextClassifier(config, vocabulary=["a", "b"], labels=["+", "-"])
        return {layer.name for layer in model.core.layers}

    assert {"spelling", "hidden", "neighbours"} <= layers("words")
    assert not {"spelling", "hidden", "neighbours"} & layers("characters")


@pytest.mark.parametrize("tokens", ["words", "characters"])
def test_padding_changes_no_answer(tokens):
    config = models.TextConfig(width=8, num_heads=2, ngram_buckets=64, tokens=tokens, max_ngram=3)
    core = models.TextClassifier(config, vocabulary=["a", "b", "c"], labels=["+", "-"]).core
    random = np.random.default_rng(0)
    for weight in core.trainable_variables:
        weight.assign(random.normal(size=weight.shape))
    alone, padded = (np.asarray(core(np.array([[4, 2, 1] + [0] * count]))) for count in (0, 5))
    np.testing.assert_allclose(padded, alone, rtol=1e-4)
    assert np.abs(alone - np.asarray(core(np.array([[2, 4, 1]])))).max() > 1e-3, "order matters"


@pytest.mark.slow
def test_fit_predict_and_evaluate_take_strings_and_keep_their_order(trained):
    probabilities = trained.predict(TEXTS[:6], batch_size=4, verbose=0)
    assert probabilities.shape == (6, 2)
    one_by_one = np.concatenate([trained.predict([text], verbose=0) for text in TEXTS[:6]])
    np.testing.assert_allclose(probabilities, one_by_one, atol=1e-6)
    assert [trained.labels[i] for i in probabilities.argmax(-1)] == LABELS[:6]
    assert trained.evaluate(TEXTS, LABELS, verbose=0)[1] == 1.0


@pytest.mark.parametrize("container", [list, tuple, np.array, pd.Series, tf.constant])
def test_texts_come_in_any_container(trained, container):
    wanted = trained.predict(["good film", "poor"], verbose=0)
    np.testing.assert_array_equal(trained.predict(container(["good film", "poor"]), verbose=0), wanted)


def test_a_string_tensor_can_be_called(trained):
    wanted = trained.predict(["good film", "poor"], verbose=0)
    np.testing.assert_allclose(np.asarray(trained(tf.constant(["good film", "poor"]))), wanted, atol=1e-6)


@pytest.mark.slow
def test_empty_and_strange_texts_are_answered(trained):
    rows = ["", " ", "\x00", "🙂", "\ud800", "x" * 1_000_000, "ſ" * 5000]
    assert np.isfinite(trained.predict(rows, verbose=0)).all()
    assert trained.predict([], verbose=0).shape == (0, 2)


@pytest.mark.slow
def test_steps_of_training_and_evaluation_are_traced_once(monkeypatch):
    """Tracing takes seconds, and again as many if the first step creates variables."""
    model, traced = models.TextClassifier(SMALL), []
    model.compile()
    for name in ("train_step", "test_step"):
        step = getattr(model, name)
        monkeypatch.setattr(
            model, name, lambda data, name=name, step=step: (traced.append(name), step(data))[1]
        )
    model.fit(["good film", "bad film"] * 4, ["+", "-"] * 4, epochs=2, verbose=0)
    model.evaluate(["good film", "bad film"] * 4, ["+", "-"] * 4, verbose=0)
    assert traced == ["train_step", "test_step"]


@pytest.mark.slow
def test_a_saved_file_carries_vocabulary_labels_and_the_compiled_state(trained, tmp_path):
    trained.save(tmp_path / "model.keras")
    again = models.load(tmp_path / "model.keras")
    assert again.labels == ["+", "-"]
    assert again.config == SMALL
    found, wanted = (model.predict(TEXTS[:6], verbose=0) for model in (again, trained))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    again.fit(TEXTS, LABELS, epochs=1, verbose=0)
    assert again.evaluate(TEXTS, LABELS, verbose=0)[1] == 1.0


def test_a_new_model_can_be_saved_and_loaded_before_training(tmp_path):
    with pytest.warns(UserWarning, match="not yet been built"):
        models.TextClassifier(SMALL).save(tmp_path / "model.keras")
    assert models.load(tmp_path / "model.keras").labels == []


@pytest.mark.slow
def test_validation_split_weights_and_class_weights_reach_keras():
    model = models.TextClassifier(SMALL)
    model.compile(weighted_metrics=[])
    ones = np.ones(len(TEXTS))
    history = model.fit(TEXTS, LABELS, validation_split=0.25, sample_weight=ones, epochs=1, verbose=0).history
    assert "val_loss" in history
    model.fit(TEXTS, LABELS, class_weight={0: 1.0, 1: 2.0}, epochs=1, verbose=0)


def test_integer_labels_are_names_in_the_order_of_their_values():
    model = models.TextClassifier(SMALL)
    model.adapt(["a b", "b c", "c d"], [10, 9, 2])
    assert model.labels == ["2", "9", "10"]


@pytest.mark.parametrize(
    ("texts", "labels", "said"),
    [
        ([], [], "There are no rows"),
        (["a", "b"], ["+"], "Received 2 and 1"),
        (["a", "b"], ["+", "+"], "only '\\+'"),
        (["a", "b"], ["+", None], "Label 1 .* is missing"),
        (["a", "b"], ["+", float("nan")], "Label 1 .* is missing"),
        (["a", "b"], ["+", np.float32("nan")], "Label 1 .* is missing"),
        (["a", "b"], ["+", pd.NA], "Label 1 .* is missing"),
        (["a", "b"], [[1, 0], [0, 1]], "zeros and ones.* two ways"),
        (["a", None], ["+", "-"], "Text 1 .* is not a string. Received None"),
        (["", " "], ["+", "-"], "hold no words: all of them are blank"),
        (["a", "b"], None, "Labels are needed"),
        ("a text", ["+"], "wrap it in a list"),
    ],
)
def test_rows_that_cannot_train_are_refused(texts, labels, said):
    model = models.TextClassifier(SMALL)
    model.compile()
    with pytest.raises(DataError, match=said):
        model.fit(texts, labels, verbose=0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"validation_data": (["a", "b"], ["+"])}, "Texts and labels differ in number. Received 2 and 1"),
        ({"validation_data": (["a"], ["+", "-"])}, "Received 1 and 2"),
        ({"validation_data": ([], [])}, "There are no rows"),
        ({"validation_data": ()}, "must be rows, targets and, if any, weights. It has 0"),
        ({"sample_weight": [1.0]}, "Texts and sample weights differ in number. Received 2 and 1"),
        ({"validation_split": 1.0}, "`validation_split` must be in \\[0, 1\\). Received 1.0"),
    ],
)
def test_columns_that_do_not_go_together_are_refused(given, said):
    model = models.TextClassifier(SMALL)
    model.compile()
    with pytest.raises(ValueError, match=said):
        model.fit(["a", "b"], ["+", "-"], verbose=0, **given)


@pytest.mark.slow
def test_compile_takes_what_keras_takes():
    model = models.TextClassifier(SMALL)
    for metrics in (None, ["accuracy"], [keras.metrics.SparseCategoricalAccuracy()]):
        model.compile(metrics=metrics)
        model.fit(TEXTS, LABELS, batch_size=None, validation_data=[TEXTS, LABELS], verbose=0)
    assert not model.supports_jit, "strings and ever new shapes are not for XLA"


@pytest.mark.slow
def test_rows_bear_any_number_of_labels(tmp_path):
    keras.utils.set_random_seed(0)
    model = models.TextClassifier(SMALL)
    model.compile(keras.optimizers.Adam(0.02))
    texts = ["good fast", "good slow", "bad fast", "bad slow"] * 12
    labels = [[word for word in ("good", "fast") if word in text] for text in texts]
    model.fit(texts, labels, epochs=12, verbose=0)
    assert (model.labels, model.multi_label) == (["fast", "good"], True)
    assert (model.predict(texts[:4], verbose=0) >= 0.5).tolist() == [
        [True, True],
        [False, True],
        [True, False],
        [False, False],
    ]
    assert model.evaluate(texts, labels, verbose=0)[1] == 1.0
    model.save(tmp_path / "model.keras")
    again = models.load(tmp_path / "model.keras")
    assert again.multi_label
    np.testing.assert_allclose(again.predict(texts[:4], verbose=0), model.predict(texts[:4], verbose=0))
    with pytest.raises(ConfigError, match="`class_weight` is for one label a row"):
        model.fit(texts, labels, class_weight="balanced", verbose=0)
    with pytest.raises(DataError, match="The labels of row 0 .* must be a list. Received 'good'"):
        model.evaluate(["good"], ["good"], verbose=0)


def column_of(labels):
    return np.array(labels)[:, None]


@pytest.mark.slow
@pytest.mark.parametrize("in_column", [column_of, lambda labels: [(label,) for label in labels]])
def test_a_column_of_labels_is_one_label_a_row_wherever_it_is_given(in_column):
    """As scikit-learn and Keras users have it: with validation rows, weights, and in `evaluate`."""
    keras.utils.set_random_seed(0)
    labels, model = in_column(LABELS), models.TextClassifier(SMALL)
    model.compile(keras.optimizers.Adam(0.02))
    given = {"validation_data": (TEXTS, labels, np.ones((len(TEXTS), 1))), "class_weight": "balanced"}
    model.fit(TEXTS, labels, sample_weight=np.ones((len(TEXTS), 1)), epochs=2, verbose=0, **given)
    assert not model.multi_label
    np.testing.assert_allclose(model.predict(TEXTS[:4], verbose=0).sum(axis=1), 1, rtol=1e-5)
    assert model.evaluate(TEXTS, labels, verbose=0) == model.evaluate(TEXTS, LABELS, verbose=0)


def test_rows_bear_several_labels_where_that_is_asked_for_even_if_each_has_one(tmp_path):
    model = models.TextClassifier(SMALL, multi_label=True)
    model = models.TextClassifier.from_config(model.get_config())
    model.adapt(TEXTS, column_of(LABELS))
    assert model.multi_label
    model.save(tmp_path / "model.keras")
    assert models.load(tmp_path / "model.keras").multi_label
    model = models.TextClassifier(SMALL, multi_label=False)
    with pytest.raises(DataError, match="Label 0 .* must be one name or number"):
        model.adapt(["one", "two"], [["a"], ["a", "b"]])
    with pytest.raises(ConfigError, match="`multi_label` must be True, False or None. Received 'yes'"):
        models.TextClassifier(SMALL, multi_label="yes")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([None], "Text 0 .* is not a string. Received None"),
        ([["nested"]], "Text 0 .* is not a string. Received \\['nested'\\]"),
        (["good", None], "Text 1 .* is not a string. Received None"),
        ([1.5], "Text 0 .* is not a string. Received 1.5"),
        ([[2, 3], [4, 5]], "Text 0 .* is not a string"),
        ([np.array(["good"])], "Text 0 .* is not a string"),
        (np.array([["good"]]), r"must have one axis. Received shape \(1, 1\)"),
        ([{"text": "good"}], "Text 0 .* is not a string"),
    ],
)
def test_what_is_no_text_is_refused_in_our_words_with_its_row(rows, said, trained):
    for ask in (trained.predict, lambda x, verbose: trained.evaluate(x, ["+"] * len(x), verbose=verbose)):
        with pytest.raises(DataError, match=said):
            ask(rows, verbose=0)


def test_lists_of_labels_come_in_other_containers():
    series = pd.Series([["a"], [], ["a", "b"]])
    for labels in (series, np.array(series), [("a",), (), {"a"}]):
        model = models.TextClassifier(SMALL)
        model.adapt(["one", "two", "three"], labels)
        assert model.multi_label


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([[], []], "No row has a label"),
        ([["a"], "b"], "labels of row 1 .* must be a list. Received 'b'"),
        ([["a", "b"], [None]], "A label of row 1 .* is missing"),
        ([["a"], [None]], "Label 1 .* is missing"),
        ([["a"]], "Received 2 and 1"),
    ],
)
def test_lists_of_labels_that_cannot_train_are_refused(labels, said):
    with pytest.raises(DataError, match=said):
        models.TextClassifier(SMALL).adapt(["one", "two"], labels)


@pytest.mark.parametrize("asked", [{}, {"jit_compile": False}])
def test_the_choice_to_compile_steps_is_saved_for_its_backend(asked):
    model = models.TextClassifier()
    model.compile(**asked)
    saved = model.get_compile_config()
    assert saved["jit_compile"] == ({keras.backend.backend(): False} if asked else {})
    again = models.TextClassifier()
    again.compile_from_config(saved)
    assert again.get_compile_config()["jit_compile"] == saved["jit_compile"]


def test_an_unknown_label_is_named(trained):
    with pytest.raises(DataError, match="no label 'new' .*It knows: \\+, -"):
        trained.evaluate(["good"], ["new"], verbose=0)


def test_before_training_a_model_says_what_to_call():
    with pytest.raises(DataError, match="Call `fit` or `adapt`"):
        models.TextClassifier(SMALL).predict(["good"], verbose=0)


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"tokens": "bytes"}, "`tokens`.*'bytes'"),
        ({"width": 10, "num_heads": 4}, "width=10, num_heads=4"),
        ({"max_ngram": 4}, "`max_ngram`.*4"),
        ({"dropout": 1.0}, "`dropout`.*1.0"),
        ({"dropout": "0.1"}, "`dropout`.*'0.1'"),
        ({"word_dropout": -0.1}, "`word_dropout`.*-0.1"),
        ({"embedding_dropout": 1.5}, "`embedding_dropout`.*1.5"),
        ({"head_dropout": 1}, "`head_dropout`.*1"),
        ({"max_tokens": 0}, "`max_tokens`.*0"),
        ({"training_span": 0}, "`training_span`.*0"),
        ({"feed_forward_dim": -3}, "`feed_forward_dim`.*-3"),
        ({"lowercase": "no"}, "`lowercase`.*'no'"),
    ],
)
def test_bad_settings_are_named_with_their_value(field, said):
    with pytest.raises(ConfigError, match=said):
        models.TextConfig(**field)


def test_a_model_of_no_config_or_half_a_vocabulary_is_refused():
    with pytest.raises(ConfigError, match="`config` must be a TextConfig.* Received 'words'"):
        models.TextClassifier("words")
    with pytest.raises(ConfigError, match="go together"):
        models.TextClassifier(vocabulary=["good"])


def test_load_says_what_is_not_there_or_not_readable(tmp_path):
    with pytest.raises(RunError, match="holds no model: it has neither the model.keras of a run folder nor"):
        models.load(tmp_path)
    (tmp_path / "rows.csv").write_text("text,label\n")
    with pytest.raises(RunError, match="There is no model at .*nothing. Give .* Face hub, such as sentence-"):
        models.load(tmp_path / "nothing")
    with pytest.raises(
        RunError, match=r"There is no model at .*row.csv. Did you mean .*rows.csv\? Give a run"
    ):
        models.load(str(tmp_path / "row.csv"))
    with pytest.raises(RunError, match="rows.csv is no .keras file. Give a run folder"):
        models.load(tmp_path / "rows.csv")
    models.TextClassifier(SMALL, vocabulary=["a"], labels=["+", "-"]).save(tmp_path / "model.keras")
    content = bytearray((tmp_path / "model.keras").read_bytes())
    content[len(content) // 2] ^= 0xFF
    (tmp_path / "model.keras").write_bytes(content)
    with pytest.raises(RunError, match="not a .keras file that can be read"):
        models.load(tmp_path)
    (tmp_path / "model.keras").write_bytes(b"no zip file")
    with pytest.raises(RunError, match="not a .keras file that can be read"):
        models.load(tmp_path)


@pytest.mark.slow
def test_what_was_left_to_the_task_is_so_again_after_loading(tmp_path):
    model = models.TextClassifier(SMALL)
    model.compile(keras.optimizers.Adam(0.02))
    with pytest.warns(UserWarning, match="not yet been built"):
        model.save(tmp_path / "new.keras")
    again = models.load(tmp_path / "new.keras")
    assert set(again.fit(TEXTS, LABELS, epochs=1, verbose=0).history) == {"accuracy", "loss"}
    again.save(tmp_path / "fitted.keras")
    assert len(models.load(tmp_path / "fitted.keras").evaluate(TEXTS, LABELS, verbose=0)) == 2
    bare = models.TextClassifier(SMALL, vocabulary=["a"], labels=["+", "-"])
    bare.save(tmp_path / "bare.keras")
    assert models.load(tmp_path / "bare.keras").labels == ["+", "-"]


@pytest.mark.slow
def test_metrics_of_ones_own_are_measured_once():
    model = models.TextClassifier(SMALL)
    model.compile(metrics=[keras.metrics.SparseTopKCategoricalAccuracy(k=1, name="top")])
    model.fit(TEXTS, LABELS, epochs=1, verbose=0)
    assert len(model.evaluate(TEXTS, LABELS, verbose=0)) == 2
    weighted = model.evaluate(TEXTS, LABELS, sample_weight=np.ones(len(TEXTS)), verbose=0)
    assert len(weighted) == 2


@pytest.mark.parametrize(
    "labels", [[frozenset({"a"}), frozenset()], [pd.Series(["a"]), pd.Series(["b", "a"])]]
)
def test_rows_of_any_container_of_labels_bear_several(labels):
    model = models.TextClassifier(SMALL)
    model.adapt(["one", "two"], labels)
    assert model.multi_label


@pytest.mark.slow
def test_zeros_and_ones_are_labels_where_they_are_known():
    model = models.TextClassifier(SMALL)
    model.compile()
    model.fit(["a", "b", "c"] * 4, [[0], [1, 2], [0, 1]] * 4, epochs=1, verbose=0)
    assert len(model.evaluate(["a", "b"], [[0, 1], [0, 1]], verbose=0)) == 2


@pytest.mark.slow
def test_a_fit_that_is_refused_has_learned_nothing():
    model = models.TextClassifier(SMALL)
    model.compile()
    for refused in ({"validation_data": (["a"], ["new"])}, {"class_weight": {"zz": 2.0}}):
        with pytest.raises(ValueError, match="new|zz"):
            model.fit(TEXTS, LABELS, verbose=0, **refused)
        assert model.labels == []
    model.fit(["a", "b"], ["p", "q"], epochs=1, verbose=0)
    with pytest.raises(ConfigError, match="has learned from rows before"):
        model.adapt(TEXTS, LABELS)
    assert model.labels == ["p", "q"]


@pytest.mark.process
def test_a_subclass_is_exported_as_its_parent(tmp_path, unchecked):
    class Mine(models.TextClassifier):
        pass

    model = Mine(SMALL, vocabulary=["good"], labels=["+", "-"])
    assert export.export_saved_model(model, tmp_path).name == "1"


@pytest.mark.slow
def test_weights_of_rows_and_of_classes_multiply():
    weights = np.linspace(0.5, 1.5, len(TEXTS))
    both = weights * np.array([3.0 if label == "-" else 1.0 for label in LABELS])

    def losses(**given):
        keras.utils.set_random_seed(0)
        model = models.TextClassifier(SMALL)
        model.compile(keras.optimizers.SGD(0.1))
        return model.fit(TEXTS, LABELS, epochs=2, verbose=0, **given).history["loss"]

    found = losses(sample_weight=weights, class_weight={"-": 3.0})
    np.testing.assert_allclose(found, losses(sample_weight=both), rtol=1e-5)
    assert not np.allclose(found, losses(sample_weight=weights), rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"batch_size": 0}, ConfigError, "`batch_size` must be a positive integer. Received 0"),
        ({"batch_size": -1}, ConfigError, "`batch_size` must be a positive integer. Received -1"),
        ({"sample_weight": [1.0] * 47 + [np.nan]}, DataError, "Row 47 .*has nan"),
        ({"sample_weight": [-1.0] * 48}, DataError, "at least 0. Row 0 .*has -1"),
        ({"sample_weight": [0.0] * 48}, DataError, "All rows weigh 0"),
    ],
)
def test_sizes_and_weights_that_will_not_do_are_refused_before_anything_is_learned(given, error, said):
    model = models.TextClassifier(SMALL)
    model.compile()
    with pytest.raises(error, match=said):
        model.fit(TEXTS, LABELS, epochs=1, verbose=0, **given)
    assert model.labels == []
    model.fit(TEXTS, LABELS, batch_size=np.int64(24), epochs=1, verbose=0)

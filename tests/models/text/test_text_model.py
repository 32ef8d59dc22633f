"""Two texts a row: what decides it, how both become tokens with types, and what is refused by name."""

import random

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from pretrained_folders import write_byte_pairs, write_classifier

from keras_selfattn import models
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.saving import weights_record
from keras_selfattn.models.text.tokenizer import split
from keras_selfattn.rows.text_pairs import TEXT_PAIRS
from keras_selfattn.rows.texts import TEXTS
from keras_selfattn.training.config import TrainConfig
from keras_selfattn.training.few_rows import trains_on_pairs

SMALL = models.TextConfig(width=8, num_layers=1, num_heads=2, ngram_buckets=64)
PAIRS = [("a good film", "it is good"), ("bad", "it is a film"), ("good", "")] * 4
LABELS = ["same", "other", "same"] * 4


def of_words(pairs=True, **settings):
    config = models.TextConfig(width=8, num_heads=2, ngram_buckets=64, wide=False, **settings)
    keras.utils.set_random_seed(0)
    return models.TextClassifier(
        config, vocabulary=["a", "film", "good"], labels=["+", "-"], text_pairs=pairs
    )


@pytest.fixture(scope="module")
def adapted():
    keras.utils.set_random_seed(0)
    model = models.TextClassifier(SMALL)
    model.adapt(PAIRS, LABELS)
    return model


def test_the_first_rows_decide_and_the_saved_file_says_so(adapted, tmp_path):
    assert models.TextClassifier(SMALL).text_pairs is None
    assert (adapted.text_pairs, adapted.row_kind) == (True, TEXT_PAIRS)
    adapted.save(tmp_path / "pairs.keras")
    again = models.load(tmp_path / "pairs.keras")
    assert again.row_kind == TEXT_PAIRS
    np.testing.assert_allclose(again.predict(PAIRS, verbose=0), adapted.predict(PAIRS, verbose=0), atol=1e-6)
    old = of_words(None).get_config()
    del old["text_pairs"]  # as in files of earlier versions
    assert models.TextClassifier.from_config(old).row_kind == TEXTS


def test_rows_that_train_nothing_decide_nothing():
    model = models.TextClassifier(SMALL)
    with pytest.raises(DataError):
        model.adapt(PAIRS, ["same"] * len(PAIRS))
    with pytest.raises(DataError, match=r"Rows of this model are two texts.*Received one, 'good'"):
        model.fit(PAIRS, LABELS, validation_data=(["good"], ["same"]))
    assert model.text_pairs is None
    model.adapt(["good", "bad"] * 4, ["+", "-"] * 4)
    assert model.text_pairs is False


def test_tokens_have_types_and_words_of_both_texts_their_own():
    model = of_words()
    rows = model._features([("A good film!", "good, GOOD new"), ("", "a"), ("", "")])
    assert [row.T.tolist() for row in rows] == [
        [[2, 4, 3, 1, 1, 4, 1, 4, 1], [0, 3, 0, 0, 2, 4, 1, 4, 1]],
        [[1, 2], [2, 1]],
        [[1], [2]],
    ]
    tokens = model.explain([("A good film!", "good")])[0]
    assert tokens.tokens == ["a", "good", "film", "!", "[SEP]", "good"]
    assert tokens.weights.shape == (1, 2, 6, 6)


def longest_first(first, second, most):
    """The shorter text keeps up to half, rounded down; the longer, or the second of equal ones, the rest."""
    first, second = (min(count, most + 1) for count in (first, second))
    swapped = first > second
    short, long = sorted((first, second))
    if short + long > most:
        short = min(short, most // 2)
        long = min(long, most - short)
    return (long, short) if swapped else (short, long)


def test_the_longer_text_is_cut_first_and_counted():
    model = of_words(max_tokens=8)
    made = random.Random(0)
    pairs = [tuple(" ".join(["good"] * made.randrange(12)) for _ in range(2)) for _ in range(40)]
    rows, cut = model.tokenizer.rows_of_pairs(pairs)
    counts = [[len(text.split()) for text in pair] for pair in pairs]
    assert cut == sum(sum(each) > 7 for each in counts)
    for (first, second), row in zip(counts, rows, strict=True):
        kinds = row[:, 1] % 3  # words in both count three more
        kept = (int((kinds == 0).sum()), int((kinds == 1).sum()))
        assert kept == longest_first(first, second, 7)
    with pytest.warns(UserWarning, match="1 of 2 pairs are longer than max_tokens=4 .* their longer text"):
        models.TextClassifier(models.TextConfig(max_tokens=4)).adapt([("a b c", "d"), ("a", "b")], ["+", "-"])
    with pytest.raises(ConfigError, match="`max_tokens` must be at least 3, for two texts"):
        models.TextClassifier(models.TextConfig(max_tokens=2)).adapt([("a", "d"), ("a", "b")], ["+", "-"])


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_ids_and_types_are_those_of_a_loop_over_words(kind):
    model = of_words(tokens=kind)
    made = random.Random(1)
    texts = ["good", "a", "film", "New", "☃", "日本", ".", "  "]
    pairs = [tuple("".join(made.choices(texts, k=made.randrange(6))) for _ in range(2)) for _ in range(30)]
    known = {token: place for place, token in enumerate(model.tokenizer.vocabulary, 2)}
    for pair, row in zip(pairs, model._features(pairs), strict=True):
        first, second = (
            [token.decode() for token in split(model.config, tf.constant([text])).to_list()[0]]
            for text in pair
        )
        both = set(first) & set(second) if kind == "words" else set()
        wanted = [(known.get(token, 1), 3 * (token in both)) for token in first]
        wanted += [(1, 2)] + [(known.get(token, 1), 1 + 3 * (token in both)) for token in second]
        assert row.tolist() == [list(each) for each in wanted]


def test_steps_of_training_read_whole_pairs():
    model = models.TextClassifier(models.TextConfig(width=8, num_heads=2, wide=False, training_span=4))
    pairs = [("good " * 9, "bad"), ("film", "a")] * 4
    model.adapt(pairs, ["+", "-"] * 4)
    lengths = {ids.shape[1:] for ids, _ in model.batches(Rows(pairs, ["+", "-"] * 4), 1, training=True)}
    assert lengths == {(11, 2), (3, 2)}


@pytest.mark.parametrize("members", [1, 2])
def test_the_order_of_both_texts_counts_and_padding_does_not(members):
    model = of_words(members=members)
    made = np.random.default_rng(0)
    for weight in model.core.trainable_variables:
        weight.assign(made.normal(size=weight.shape))
    asked = [("good film", "a"), ("a", "good film")]
    found = model.predict([*asked, ("good " * 9, "film")], verbose=0)
    assert np.abs(found[0] - found[1]).max() > 1e-3
    np.testing.assert_allclose(found[:2], model.predict(asked, verbose=0), atol=1e-5)
    np.testing.assert_allclose(found[:2], np.asarray(model(tf.constant(asked))), atol=1e-5)


@pytest.mark.parametrize(
    "asked",
    [
        [["good", "a film"]],
        [{"text_pair": "a film", "text": "good"}],
        np.array([["good", "a film"]]),
        tf.constant([["good", "a film"]]),
        pd.Series([("good", "a film")]),
        pd.DataFrame({"text_pair": ["a film"], "text": ["good"]}),
        {"text": ["good"], "text_pair": np.array(["a film"])},
    ],
)
def test_pairs_come_in_any_container(adapted, asked):
    wanted = adapted.predict([("good", "a film")], verbose=0)
    np.testing.assert_array_equal(adapted.predict(asked, verbose=0), wanted)
    assert adapted.predict(asked[:0] if isinstance(asked, list | np.ndarray) else (), verbose=0).shape == (
        0,
        2,
    )


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["good"], r"Rows of this model are two texts, \(text, text_pair\). Received one, 'good'"),
        ([("a", "b"), "good"], r"Pair 1 \(counted from 0\) must be two texts.*'good'"),
        ([("a", None)], r"Pair 0 .* must be two texts.*Give '' for a missing text"),
        ([{"text": "a", "text_pair": "b", "id": 1}], "Pair 0 .*Give 'text' and 'text_pair' alone"),
        (
            {"text": ["a"], "text_pair": ["b"], "label": [1]},
            "columns 'text', 'text_pair', 'label'.*'text_pair' alone",
        ),
        ((np.array(["a", "b"]), np.array(["c", "d"])), "came as a tuple of 2 arrays, which may be rows or"),
        ((["a", "b"], ["c", "d"]), "came as a tuple of 2 lists, which may be rows or columns"),
        (
            {"text": ["a"], "text_pair": ["b", "c"]},
            "`text` and `text_pair` differ in number. Received 1 and 2",
        ),
        (
            pd.DataFrame({"a": ["x"], "b": ["y"]}),
            "a table of the columns 'a', 'b'.*'text' and 'text_pair' alone",
        ),
    ],
)
def test_what_is_no_pair_is_refused_by_name(adapted, asked, message):
    with pytest.raises(DataError, match=message):
        adapted.predict(asked, verbose=0)


def test_a_table_of_both_columns_is_called_and_explained_too(adapted):
    table = pd.DataFrame({"text_pair": ["a film"], "text": ["good"]})
    np.testing.assert_array_equal(adapted(table), adapted([("good", "a film")]))
    assert adapted.explain(table)[0].tokens == adapted.explain([("good", "a film")])[0].tokens


def test_a_call_with_a_table_of_other_columns_is_refused(adapted):
    with pytest.raises(DataError, match="columns 'premise', 'hypothesis'.*'text' and 'text_pair' alone"):
        adapted(pd.DataFrame({"premise": ["good"], "hypothesis": ["a film"]}))


def test_batches_of_a_source_are_tables_of_both_columns_or_pairs(adapted):
    wanted = adapted.predict(PAIRS, verbose=0)
    columns = dict(zip(("text_pair", "text"), list(zip(*PAIRS, strict=True))[::-1], strict=True))
    columns = {name: list(texts) for name, texts in columns.items()}
    batches = [({name: texts[place : place + 5] for name, texts in columns.items()},) for place in (0, 5, 10)]
    for source in (
        tf.data.Dataset.from_tensor_slices((columns, LABELS)).batch(5),
        tf.data.Dataset.from_tensor_slices(columns).batch(5),
        tf.data.Dataset.from_tensor_slices(PAIRS).batch(5),
        iter(batches),
    ):
        np.testing.assert_allclose(adapted.predict(source, verbose=0), wanted, atol=1e-6)
    model = models.TextClassifier(SMALL)
    model.adapt(tf.data.Dataset.from_tensor_slices((columns, LABELS)).batch(5))
    assert model.tokenizer.vocabulary == adapted.tokenizer.vocabulary
    both = tf.data.Dataset.from_tensor_slices(((columns["text"], columns["text_pair"]), LABELS)).batch(2)
    for each in (adapted.evaluate, models.TextClassifier(SMALL).adapt):
        with pytest.raises(DataError, match="came as a tuple of 2 tensors, which may be rows or columns"):
            each(both)


def test_a_pair_asked_of_a_model_of_one_text_and_columns_without_texts_are_refused():
    with pytest.raises(DataError, match=r"Rows of this model are one text. Received two, \('a', 'b'\)"):
        of_words(False).predict([("a", "b")], verbose=0)
    with pytest.raises(DataError, match="`text_pair` is empty in all 4 pairs"):
        models.TextClassifier(SMALL).adapt([("a", ""), ("b", " ")] * 2, ["+", "-"] * 2)
    with pytest.raises(DataError, match="Pairs of texts and labels differ in number. Received 12 and 11"):
        models.TextClassifier(SMALL).adapt(PAIRS, LABELS[1:])
    with pytest.raises(DataError, match="Rows of this model are two texts"):
        models.TextClassifier(SMALL, text_pairs=True).adapt(["a", "b"] * 2, ["+", "-"] * 2)
    with pytest.raises(ConfigError, match="`text_pairs` must be True, False or None. Received 1"):
        models.TextClassifier(SMALL, text_pairs=1)


def test_weights_of_pairs_belong_to_pairs_alone(tmp_path):
    of_words().save_weights(tmp_path / "pairs.weights.h5")
    with pytest.raises(ConfigError, match="text_pairs"):
        of_words(False).load_weights(tmp_path / "pairs.weights.h5")


def test_weights_of_one_text_in_an_older_file_are_refused_by_a_model_of_pairs(tmp_path, monkeypatch):
    folder, file = write_classifier(tmp_path / "bert", ["-", "+"]), tmp_path / "one.weights.h5"
    written = weights_record.write
    with monkeypatch.context() as patched:
        patched.setattr(
            weights_record,
            "write",
            lambda store, record: written(store, {k: v for k, v in record.items() if k != "text_pairs"}),
        )
        models.TextClassifier.from_folder(folder).save_weights(file)
    models.TextClassifier.from_folder(folder).load_weights(file)
    # The layers are the same: weights fit, and answers would be others.
    with pytest.raises(ConfigError, match="`text_pairs` is False in the file and True here"):
        models.TextClassifier.from_folder(folder, text_pairs=True).load_weights(file)


def test_a_model_of_one_text_is_a_start_for_pairs_and_the_reverse(tmp_path):
    of_words(False).save(tmp_path / "one.keras")
    of_words(True).save(tmp_path / "two.keras")
    for file, rows in (("one", PAIRS), ("two", ["a good film", "bad"] * 6)):
        model = models.TextClassifier({"wide": False}, start=tmp_path / f"{file}.keras")
        model.adapt(rows, ["+", "-"] * 6)
        vectors = models.load(tmp_path / f"{file}.keras").core.get_layer("embedding").vectors
        np.testing.assert_array_equal(model.core.get_layer("embedding").vectors, vectors)


def test_a_pretrained_encoder_reads_types_or_its_separators(tmp_path):
    bert = models.TextClassifier.from_folder(write_classifier(tmp_path / "bert", ["-", "+"]), text_pairs=True)
    (row,) = bert._features([("good film", "bad")])
    assert row.T.tolist() == [[2, 6, 8, 3, 7, 3], [0, 0, 0, 0, 1, 1]]
    untyped = row.copy()
    untyped[:, 1] = 0
    with_types, without = (np.asarray(bert.core(each[None])) for each in (row, untyped))
    np.testing.assert_allclose(bert.predict([("good film", "bad")], verbose=0), with_types, atol=1e-6)
    assert np.abs(with_types - without).max() > 1e-4
    assert bert.explain([("good film", "bad")])[0].tokens == [
        "[CLS]",
        "good",
        "film",
        "[SEP]",
        "bad",
        "[SEP]",
    ]
    roberta = models.TextClassifier(start=write_byte_pairs(tmp_path / "roberta"))
    roberta.adapt([("good film", "bad film"), ("good", "good")] * 6, ["+", "-"] * 6)
    wanted = ["<s>", "good", "</s>", "</s>", "bad", "</s>"]
    assert roberta.explain([("good", "bad")])[0].tokens == wanted
    rows = LabelledRows([("good", "bad")] * 12, ["+", "-"] * 6, "rows", kind=TEXT_PAIRS)
    assert not trains_on_pairs(roberta, rows, TrainConfig())

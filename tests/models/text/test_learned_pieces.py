"""Models that read pieces of words which they learned: what is saved, shown, cut, and refused by name."""

import json
import sys
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from tokenizers import Tokenizer

from keras_selfattn import models
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.export.portable.tokenizer_export import text_files
from keras_selfattn.models.text.learned_pieces import LearnedPieces
from keras_selfattn.models.text.ngrams import ngram_ids

W = {"width": 8, "num_layers": 1, "num_heads": 2, "ngram_buckets": 64}
SMALL = models.TextConfig(**W, tokens="pieces", wide=False)
TEXTS = ["Good films, good actors", "a bad film, badly acted", "it is GOOD", "bad: Ünïcode 🙂"] * 4
LABELS = ["+", "-", "+", "-"] * 4
PAIRS = [(text, other) for text, other in zip(TEXTS, TEXTS[::-1], strict=True)]


@pytest.fixture(scope="module")
def adapted():
    keras.utils.set_random_seed(0)
    model = models.TextClassifier(SMALL)
    model.adapt(TEXTS, LABELS)
    return model


@pytest.fixture(scope="module")
def pretrained():
    model = models.MaskedTokenModel(SMALL)
    model.adapt(TEXTS)
    return model


@pytest.mark.slow
def test_a_saved_model_has_its_pieces_and_needs_no_package(adapted, tmp_path, monkeypatch):
    adapted.save(tmp_path / "pieces.keras")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    again = models.load(tmp_path / "pieces.keras")
    assert again.config == SMALL
    assert again.tokenizer.vocabulary == adapted.tokenizer.vocabulary
    strange = ["unseen wörds\0", "", " ", "⟨s⟩", "\r\n"]
    np.testing.assert_allclose(
        again.predict(strange, verbose=0), adapted.predict(strange, verbose=0), atol=1e-6
    )


def test_the_config_keeps_what_the_texts_decide_open_and_fills_the_others():
    assert SMALL.vocabulary_size is None
    assert models.TextConfig().vocabulary_size == 20_000
    assert models.TextConfig(**models.TextConfig().to_dict()) == models.TextConfig()
    assert models.TextConfig(vocabulary_size=None).to_dict()["vocabulary_size"] == 20_000


def test_an_explanation_shows_pieces_with_their_own_blanks(adapted):
    (found,) = adapted.explain(["good films, GOOD"])
    assert "".join(found.tokens) == "⟨s⟩good films, GOOD⟨/s⟩"
    assert " films" in found.tokens
    assert not found.spaced
    assert found.weights.shape == (1, 2, len(found.tokens), len(found.tokens))


def test_case_is_told_apart(adapted):
    lower, upper = adapted.tokenizer.rows(["good", "GOOD"])[0]
    assert lower.tolist() != upper.tolist()


@pytest.mark.slow
def test_pairs_have_types_and_scores_have_pieces():
    model = models.TextRegressor(models.ScoreConfig(**W, tokens="pieces", wide=False))
    model.adapt(PAIRS, [float(len(text)) for text in TEXTS])
    (found,) = model.explain([("good film", "bad")])
    assert "".join(found.tokens) == "⟨s⟩good film⟨/s⟩bad⟨/s⟩"
    found = model.predict([("", ""), *PAIRS[:2]], verbose=0)
    np.testing.assert_allclose(found[1:2], model(tf.constant(PAIRS[:1])), rtol=1e-4)


def test_symmetric_pairs_have_the_pieces_of_both_orders():
    found = []
    for symmetric in (True, False):
        words = LearnedPieces(models.TextConfig(**W, tokens="pieces", symmetric=symmetric))
        found.append(words.rows_of_pairs(words.tokenizer_of([]), [("ab", "c"), ("c", "ab")]))
    (row, again), orders = found
    np.testing.assert_array_equal(row, again)
    assert sorted([row[:, :2].tolist(), row[:, 2:].tolist()]) == sorted(each.tolist() for each in orders)


def test_the_wide_path_reads_the_words_that_it_always_read():
    texts = tf.constant(TEXTS[:4])
    of_words = ngram_ids(models.TextConfig(**W), texts)
    of_pieces = ngram_ids(models.TextConfig(**W, tokens="pieces"), texts)
    assert of_pieces.ids.numpy().tolist() == of_words.ids.numpy().tolist()


def test_texts_over_the_limit_are_cut_before_the_end_piece_and_counted():
    config = models.TextConfig(**W, tokens="pieces", wide=False, max_tokens=5)
    with pytest.warns(UserWarning, match="12 of 16 texts are longer than max_tokens=5 tokens"):
        tokenizer = LearnedPieces(config).learn_tokenizer(TEXTS, None)
    (row,), _ = tokenizer.rows([TEXTS[0]])
    assert (len(row), tokenizer.names[row[-1]]) == (5, "⟨/s⟩")


def test_a_vocabulary_wider_than_the_texts_allow_is_told_and_one_that_fits_is_not():
    config = models.TextConfig(**W, tokens="pieces", vocabulary_size=5000)
    with pytest.warns(UserWarning, match=r"The 16 texts have \d+ pieces .* fewer than vocabulary_size=5000"):
        LearnedPieces(config).learn_tokenizer(TEXTS, None)
    for size in (None, 280):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            config = models.TextConfig(**W, tokens="pieces", vocabulary_size=size)
            found = LearnedPieces(config).learn_tokenizer(TEXTS, None)
        assert size is None or found.size == size


@pytest.mark.parametrize("size", [0, 259, 2.5, True])
def test_a_vocabulary_without_all_bytes_is_refused(size):
    with pytest.raises(ConfigError, match="`vocabulary_size` must be"):
        models.TextConfig(tokens="pieces", vocabulary_size=size)
    assert models.TextConfig(tokens="pieces", vocabulary_size=260).vocabulary_size == 260
    assert models.TextConfig(vocabulary_size=100).vocabulary_size == 100


@pytest.mark.parametrize(
    ("texts", "settings", "kind", "reason"),
    [
        ([" ", "\n"], {}, DataError, "The 2 texts hold no pieces: all of them are blank"),
        (["ab", "cd"], {}, DataError, "The 2 texts are too few to learn pieces from"),
        (TEXTS, {"max_tokens": 1}, ConfigError, "`max_tokens` must be at least 2"),
        (PAIRS, {"max_tokens": 2}, ConfigError, "`max_tokens` must be at least 3 for two texts"),
    ],
)
def test_what_gives_no_pieces_is_refused(texts, settings, kind, reason):
    config = models.TextConfig(**W, tokens="pieces", **settings)
    with pytest.raises(kind, match=reason):
        LearnedPieces(config).learn_tokenizer(texts, None)


@pytest.mark.slow
def test_a_model_begins_with_pretrained_pieces_and_no_other_tokens(pretrained, tmp_path):
    pretrained.save(tmp_path / "begun.keras")
    start = str(tmp_path / "begun.keras")
    model = models.TextClassifier({"wide": False}, start=start)
    assert "the bytes are pieces, so it knows every text" in model.start.described(TEXTS)
    model.adapt(["unseen", "others"], ["+", "-"])
    assert model.tokenizer.vocabulary == pretrained.tokenizer.vocabulary
    copied, given = (each.core.get_layer("embedding").get_weights()[0] for each in (model, pretrained))
    np.testing.assert_array_equal(copied, given)
    with pytest.raises(ConfigError, match=r"`tokens` is 'pieces' in .*begun.keras.* Received 'characters'"):
        models.TextClassifier(models.TextConfig(tokens="characters"), start=start)


@pytest.mark.slow
def test_hidden_pieces_are_guessed_without_special_ones(pretrained):
    model = pretrained
    ids = model._text.masked(model.tokenizer, "good [mask] film[mask]")
    assert "".join(model.tokenizer.names[each] for each in ids) == "⟨s⟩good⟨mask⟩ film⟨mask⟩⟨/s⟩"
    guesses = model.guesses(["good [mask]"], count=model.tokenizer.size)[0][0]
    assert len(guesses) == model.tokenizer.size - 4
    assert not {"⟨s⟩", "⟨/s⟩", "⟨pad⟩", "⟨mask⟩"} & set(guesses)


def test_the_written_tokenizer_gives_the_package_the_same_ids(adapted):
    files = text_files(adapted.tokenizer)
    read = Tokenizer.from_str(json.dumps(files["tokenizer.json"]))
    examples = files["tokenizer_examples.json"]
    assert [read.encode(each["text"]).ids for each in examples] == [each["ids"] for each in examples]
    assert read.decode(read.encode("good films 🙂 \n").ids, skip_special_tokens=False).startswith("⟨s⟩")
    pair = read.encode("good", "a film")
    (row,), _ = adapted.tokenizer.rows_of_pairs([("good", "a film")])
    assert [pair.ids, pair.type_ids] == row.T.tolist()

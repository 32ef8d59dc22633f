"""The wide path of a text classifier: its features, its models, and how it answers with attention."""

import itertools
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from sklearn.utils.parallel import Parallel

from keras_selfattn import export, models, training
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.export.contract import contract_for
from keras_selfattn.export.precision import at_precision
from keras_selfattn.models.text import ngram_counts, ngram_fit
from keras_selfattn.models.text.ngram_counts import counted, wide_logits
from keras_selfattn.models.text.ngram_fit import fitted
from keras_selfattn.models.text.ngrams import BUCKETS, ngram_ids
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.training.calibration import Calibration

CONFIG = models.TextConfig(width=8, num_layers=1, num_heads=2, ngram_buckets=64)
TEXTS = ["good film", "a fine film indeed", "bad film", "poor", "good", "bad bad bad"] * 8
LABELS = ["+", "+", "-", "-", "+", "-"] * 8
STRANGE = ["", " \t", "☃ 東京", "\x00", "zzz qqq", "x" * 100_000, "good " * 5000]


def bucket(gram):
    return int(tf.strings.to_hash_bucket_fast(gram, BUCKETS))


def grams_of(text):
    """Words, pairs with the ends, pairs with a gap, and the pieces of " word ", written out."""
    words = text.split()
    whole = ["<s>", *words, "</s>"]
    found = [*words]
    found += [" ".join(pair) for pair in itertools.pairwise(whole)]
    found += [f"{first} _ {last}" for first, last in zip(whole, whole[2:], strict=False)]
    pieces = [
        f" {word} "[start : start + size]
        for word in words
        for size in (2, 3, 4, 5)
        for start in range(len(word) + 3 - size)
    ]
    return [bucket(gram) for gram in found], [bucket(piece) + BUCKETS for piece in pieces]


def all_grams_of(text):
    words, pieces = grams_of(text)
    return words + pieces


def values_by_hand(texts, text):
    """tf-idf of a text's n-grams among texts, words and pieces each of length 1, by id."""
    documents = [set(all_grams_of(each)) for each in texts]
    found = {}
    for grams in grams_of(text):
        ids, counts = np.unique(grams, return_counts=True)
        known = [(i, c) for i, c in zip(ids.tolist(), counts, strict=True) if any(i in d for d in documents)]
        idf = {i: np.log((1 + len(texts)) / (1 + sum(i in d for d in documents))) + 1 for i, _ in known}
        raw = {i: (1 + np.log(c)) * idf[i] for i, c in known}
        length = np.sqrt(sum(value**2 for value in raw.values()))
        found |= {i: value / length for i, value in raw.items()}
    return found


@pytest.fixture(scope="module")
def trained():
    keras.utils.set_random_seed(0)
    model = models.TextClassifier(CONFIG)
    model.compile(keras.optimizers.Adam(0.02), run_eagerly=True)  # for 8 steps faster than to trace one
    model.fit(TEXTS, LABELS, epochs=4, verbose=0)
    model.run_eagerly = False
    return model


@pytest.mark.parametrize("text", ["good", "what a film", "ab ab c", ""])
def test_ngrams_are_words_pairs_gaps_and_pieces(text):
    found = ngram_ids(CONFIG, tf.constant(["other words", text]))
    assert sorted(found.ids[found.rows == 1].numpy()) == sorted(all_grams_of(text))
    assert found.texts == 2


def test_counts_come_in_chunks_as_one_by_one(monkeypatch):
    monkeypatch.setattr("keras_selfattn.models.text.ngram_counts._CHUNK", 5)
    rows, ids, counts = (np.concatenate(each) for each in zip(*counted(CONFIG, TEXTS[:12]), strict=True))
    for row, text in enumerate(TEXTS[:12]):
        of_row = dict(zip(ids[rows == row].tolist(), counts[rows == row].tolist(), strict=True))
        grams = all_grams_of(text)
        assert of_row == {gram: float(grams.count(gram)) for gram in grams}


def test_logits_are_the_weighted_values_whether_one_by_one_or_in_numpy():
    texts = ["good film", "bad film", "a film", "good good", "bad"]
    layer = fitted(CONFIG, texts, np.array([0, 1, 2, 0, 1]), 3)
    keys = np.asarray(layer.keys).tolist()
    kernel, bias = np.asarray(layer.kernel), np.asarray(layer.bias)
    asked = [*texts, "good bad unseen", "unseen", ""]
    wanted = []
    for text in asked:
        values = values_by_hand(texts, text)
        wanted.append(bias + sum(value * kernel[keys.index(i)] for i, value in values.items()))
    np.testing.assert_allclose(wide_logits(layer, CONFIG, asked), wanted, atol=1e-4)
    together = np.asarray(layer(ngram_ids(CONFIG, tf.constant(asked))))
    np.testing.assert_allclose(together, wanted, atol=1e-4)
    for text, row in zip(asked, together, strict=True):
        alone = np.asarray(layer(ngram_ids(CONFIG, tf.constant([text]))))[0]
        np.testing.assert_allclose(alone, row, atol=1e-5)


def test_log_count_ratios_by_hand():
    """A feature in two of two rows with the label and in one of two without; another the other way about."""
    values = ngram_fit.sp.csr_matrix(np.array([[0.5, 0], [0.7, 0], [0.1, 0.3], [0, 0.9]]))
    ratios = ngram_fit._log_count_ratios(values, np.array([[True], [True], [False], [False]]), np.ones(4))
    with_it, without = np.array([2 + 1, 0 + 1]), np.array([1 + 1, 2 + 1])
    wanted = np.log(with_it / with_it.sum()) - np.log(without / without.sum())
    np.testing.assert_allclose(ratios.kernel[:, 0], wanted)
    assert ratios.bias[0] == pytest.approx(0.0)


@pytest.mark.process
@pytest.mark.parametrize("classes", [2, 3, 12])
def test_machines_fitted_in_processes_are_those_fitted_here(monkeypatch, classes):
    texts = [f"text {row} of {'ab cd ef'[row % 7 :]}" for row in range(60)]
    targets = np.arange(60) % classes
    config = models.TextConfig()
    here = fitted(config, texts, targets, classes).get_weights()
    started = []
    monkeypatch.setattr(ngram_fit, "_ALONE", 0)
    monkeypatch.setattr(ngram_fit, "Parallel", lambda n_jobs: started.append(n_jobs) or Parallel(n_jobs=2))
    there = fitted(config, texts, targets, classes).get_weights()
    assert set(started) == {-1}
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_models_are_weighed_on_some_of_many_rows(monkeypatch):
    fits = []
    whole = ngram_fit._models
    monkeypatch.setattr(
        ngram_fit, "_models", lambda values, *others: fits.append(values.shape[0]) or whole(values, *others)
    )
    monkeypatch.setattr(ngram_fit, "_MOST_FOR_WEIGHTS", 20)
    fitted(models.TextConfig(), [f"text {row}" for row in range(60)], np.arange(60) % 3, 3)
    assert fits == [20, 60]


def test_rarer_ngrams_are_left_out_where_weights_would_be_too_large(monkeypatch):
    monkeypatch.setattr(ngram_counts, "_MOST_BYTES", 4 * 40)
    texts = ["common"] * 6 + ["rare"] + ["common other"] * 3
    layer = fitted(CONFIG, texts, np.array([0] * 6 + [1] * 4), 2)
    assert layer.features == 40
    keys = np.asarray(layer.keys).tolist()
    assert bucket("common") in keys
    assert bucket("rare") not in keys


@pytest.mark.slow
def test_both_paths_answer_and_each_alone_where_its_share_is_all(trained):
    mixture = trained.core.get_layer("mixture")
    before = mixture.shares.numpy()
    wide = wide_logits(trained.wide, CONFIG, TEXTS[:6])
    mixture.shares.assign([0.0, 1.0])
    alone = trained.predict(TEXTS[:6], verbose=0)
    np.testing.assert_allclose(alone, tf.nn.softmax(wide), atol=1e-5)
    assert [trained.labels[i] for i in alone.argmax(-1)] == LABELS[:6]
    mixture.shares.assign([1.0, 0.0])
    ids = trained.tokenizer.padded(tf.constant(TEXTS[:6]))
    np.testing.assert_allclose(trained.predict(TEXTS[:6], verbose=0), trained(ids), atol=1e-5)
    mixture.shares.assign(before)


def test_training_goes_on_without_the_wide_path():
    nothing = dict.fromkeys(("dropout", "word_dropout", "embedding_dropout", "head_dropout"), 0.0)
    model = models.TextClassifier(models.TextConfig(**CONFIG.to_dict() | nothing))
    model.adapt(TEXTS, LABELS)
    ids = model.tokenizer.padded(tf.constant(["good film"]))
    known, unknown = (model.core([ids, tf.constant([[s, -s]])], training=True) for s in (5.0, -5.0))
    np.testing.assert_array_equal(known, unknown)


@pytest.mark.process
def test_strange_texts_are_answered_alike_in_every_way(trained, tmp_path, unchecked):
    wanted = trained.predict(STRANGE, verbose=0)
    assert np.isfinite(wanted).all()
    encoded = tf.constant([text.encode() for text in STRANGE])
    np.testing.assert_allclose(trained(encoded), wanted, atol=1e-5)
    trained.save(tmp_path / "model.keras")
    np.testing.assert_allclose(
        models.load(tmp_path / "model.keras").predict(STRANGE, verbose=0), wanted, atol=1e-6
    )
    path = export.export_saved_model(trained, tmp_path / "exported")
    served = tf.saved_model.load(str(path)).signatures
    np.testing.assert_allclose(served["serving_default"](text=encoded)["probabilities"], wanted, atol=1e-5)
    tokens = tf.constant([["good", "film"], ["bad", ""]])
    answer = served["tokens"](tokens=tokens)["probabilities"]
    np.testing.assert_allclose(answer, trained.predict(["good film", "bad"], verbose=0), atol=1e-5)
    narrow = export.export_saved_model(trained, tmp_path / "narrow", precision="int8-weights")
    answer = tf.saved_model.load(str(narrow)).signatures["serving_default"](text=encoded)["probabilities"]
    np.testing.assert_allclose(answer, wanted, atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("labels", [[["a"], ["a", "b"], [], ["b"]], [["a"], [], [], ["a"]]])
def test_rows_of_several_labels_have_a_wide_path_too(labels):
    keras.utils.set_random_seed(0)
    model = models.TextClassifier(CONFIG)
    model.compile()
    texts = ["only a", "a and b", "neither", "only b"]
    model.fit(texts * 8, labels * 8, epochs=1, verbose=0)
    model.core.get_layer("mixture").shares.assign([0.0, 1.0])
    found = model.predict(texts, verbose=0) >= 0.5
    assert [[n for n, is_borne in zip(model.labels, row, strict=True) if is_borne] for row in found] == labels


@pytest.mark.slow
def test_shares_are_those_that_make_held_out_labels_likeliest(trained):
    rows = LabelledRows(TEXTS, LABELS, "made up")
    fit = Calibration(trained, rows)
    best, accuracy = fit.set_shares().values()
    found = trained.predict(TEXTS, verbose=0).argmax(axis=1)
    assert accuracy == np.mean(
        [trained.labels[place] == label for place, label in zip(found, LABELS, strict=True)]
    )
    mixture = trained.core.get_layer("mixture")
    shares = mixture.shares.numpy()
    assert (shares >= 0).all()
    for other in (shares * 1.5, shares * 0.5, shares + np.array([0.2, 0]), shares + np.array([0, 0.2])):
        mixture.shares.assign(other)
        assert fit._loss(fit._logits(), 1 / (len(rows) + 2)) >= best - 1e-6
    assert fit.set() == 1.0, "shares say how sure to be"
    np.testing.assert_allclose(mixture.shares.numpy(), shares, atol=1e-5)


@pytest.mark.slow
def test_one_row_a_class_trains_and_a_thousand_classes_do(tmp_path):
    rows = [f"word{n} text" for n in range(1000)]
    model = models.TextClassifier(CONFIG)
    model.compile()
    model.fit(rows, [str(n) for n in range(1000)], epochs=1, verbose=0)
    assert np.isfinite(model.predict(rows[:3], verbose=0)).all()
    few = models.TextClassifier(CONFIG)
    few.compile()
    few.fit(["one", "two"], ["a", "b"], epochs=1, verbose=0)
    assert few.predict(["one"], verbose=0).shape == (1, 2)


def test_a_model_without_a_wide_path_has_none_of_it():
    config = models.TextConfig(**CONFIG.to_dict() | {"wide": False})
    rows = LabelledRows(TEXTS, LABELS, "made up")
    model = models.TextClassifier(config)
    model.adapt(rows.inputs, rows.targets)
    assert model.wide is None
    assert len(model.core.inputs) == 1
    assert not Calibration(model, rows).mixes


def test_attention_begins_with_three_tenths_beside_the_wide_path():
    model = models.TextClassifier(CONFIG)
    model.adapt(TEXTS, LABELS)
    assert model.core.get_layer("mixture").shares.numpy().tolist() == pytest.approx([0.3, 1.0])


@pytest.mark.slow
def test_the_best_epoch_is_that_of_both_paths_together(tmp_path):
    """The loss that decides is the one that both have with the shares that fit them after each epoch."""
    rows = LabelledRows([f"{text} {n}" for n, text in enumerate(TEXTS * 2)], LABELS * 2, "made up")
    config = training.TrainConfig(epochs=2, batch_size=16, validation=0.3)
    run = training.train(
        rows, tmp_path / "run", model=models.TextClassifier(CONFIG), config=config, verbose=0
    )
    assert run.model.core.get_layer("mixture").shares.numpy().tolist() != pytest.approx([0.3, 1.0])
    assert run.figures.summary()["accuracy"] > 0.9


def test_of_too_many_texts_some_are_fitted_on_and_no_class_is_lost(monkeypatch):
    texts = [f"film number{n}" for n in range(300)] + ["rare bird"]
    targets = np.array([n % 2 for n in range(300)] + [2])
    monkeypatch.setattr(ngram_fit, "_MOST_CHARACTERS", 1000)
    layer = fitted(CONFIG, texts, targets, 3)
    kept = {bucket(f"number{n}") for n in range(300)} & set(np.asarray(layer.keys).tolist())
    assert 30 < len(kept) < 90
    assert wide_logits(layer, CONFIG, ["rare bird"]).argmax() == 2


def named_grams_of(text):
    """The n-grams of a text without pieces of one character, by name and kind, in `grams_of`'s words."""
    words = text.split()
    whole = ["<s>", *words, "</s>"]
    found = [(word, "word") for word in words]
    found += [(" ".join(pair), "pair") for pair in itertools.pairwise(whole)]
    found += [(f"{first} _ {last}", "gap") for first, last in zip(whole, whole[2:], strict=False)]
    cut = [f" {word} " for word in words]
    found += [
        (word[start : start + size], "piece")
        for word in cut
        for size in (2, 3, 4, 5)
        for start in range(len(word) + 1 - size)
    ]
    return found


def addends_by_hand(model, text):
    """Each n-gram's value times its weights and the wide path's share, float `[2]`, by name and kind."""
    values, wide = values_by_hand(TEXTS, text), model.wide
    keys, kernel = np.asarray(wide.keys).tolist(), np.asarray(wide.kernel)[:, 0]
    share = float(np.asarray(model.core.get_layer("mixture").shares)[1])
    share /= float(np.asarray(model.core.get_layer("probabilities").temperature))
    found = {}
    for name, kind in named_grams_of(text):
        key = bucket(name) + (BUCKETS if kind == "piece" else 0)
        if key in keys:
            addend = values[key] * kernel[keys.index(key)] * share / 2
            found[name, kind] = [-addend, addend]
    return found, share


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            export.saved_model, "try_saved_model", lambda *_: {"load_seconds": 0.0, "request_ms": 0.0}
        )
        return export.export_saved_model(trained, tmp_path_factory.mktemp("base") / "films")


@pytest.fixture(scope="module")
def contributions(exported):
    loaded = tf.saved_model.load(str(exported))
    yield loaded.signatures["contributions"]  # noqa: PT022  it dies with `loaded`


def test_contributions_are_what_each_ngram_adds_to_the_logits(trained, contributions):
    texts = ["bad bad film", "", "zzz indeed"]
    found = {name: value.numpy() for name, value in contributions(text=tf.constant(texts)).items()}
    for row, text in enumerate(texts):
        wanted, share = addends_by_hand(trained, text)
        names = [name.decode() for name in found["ngrams"][row] if name]
        kinds = [kind.decode() for kind in found["kinds"][row] if kind]
        listed = list(zip(names, kinds, strict=True))
        assert sorted(listed) == sorted(wanted)
        logits = found["logits"][row]
        by_hand = np.reshape([wanted[each] for each in listed], (-1, 2))
        np.testing.assert_allclose(logits[: len(listed)], by_hand, atol=1e-5)
        assert not logits[len(listed) :].any(), "padding adds nothing"
        strength = np.abs(logits).max(axis=-1)
        assert (np.diff(strength) <= 2e-4 * strength[:-1]).all(), "the strongest come first"
        bias = float(np.asarray(trained.wide.bias)[0]) * share / 2
        np.testing.assert_allclose(found["rest"][row], [-bias, bias], atol=1e-5)


def test_contributions_are_cut_and_their_rest_makes_up_for_it(trained, contributions):
    text = " ".join(["good film a fine film indeed bad film poor good bad bad"] * 2)
    found = contributions(text=tf.constant([text, "good"]))
    assert found["ngrams"].shape == (2, 100)
    _, share = addends_by_hand(trained, "")
    wanted = wide_logits(trained.wide, CONFIG, [text, "good"]) * share
    np.testing.assert_allclose(tf.reduce_sum(found["logits"], axis=1) + found["rest"], wanted, atol=1e-4)


def test_a_model_without_a_wide_path_has_no_contributions(trained):
    model = models.TextClassifier(CONFIG, vocabulary=["good"], labels=["+", "-"])
    without, beside = (set(contract_for(*at_precision(each, None)).signatures) for each in (model, trained))
    assert beside - without == {"contributions"}


@pytest.mark.process
@pytest.mark.slow
def test_the_page_shows_what_an_exported_model_attends_to_and_what_its_words_count_for(exported):
    sync_api = pytest.importorskip("playwright.sync_api", reason="no browser is driven without Playwright")
    chromium = shutil.which("chromium") or pytest.skip("needs the chromium command")
    text = "bad bad film"
    config = ServerConfig("films", exported.parent, port=0, rest_api_port=-1, page=True)
    with Server(config) as server, Client(server.target, "films") as client:
        (explained,) = client.explain([text])
        rows = [["bad", "bad", "film"], ["bad", "film", ""], ["bad", "film", ""], ["bad", "bad", ""]]
        whole, *without = client.predict({"tokens": rows}, "tokens")["probabilities"]
        (parts,) = client.contributions([text])
        with sync_api.sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page()
            page.set_default_timeout(60_000)
            problems = []
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("console", lambda message: problems.append(message.text))
            page.goto(f"{server.rest_url}/#try/films")
            page.get_by_role("textbox", name="Text").fill(text)
            page.get_by_role("button", name="What does it attend to?").click()
            tokens = page.locator("section.attention bdi[role=option]")
            tokens.nth(2).wait_for()
            shown = tokens.evaluate_all("all => all.map((one) => one.ariaLabel)")
            page.get_by_role("button", name="See what each word counts for").click()
            page.locator(".attention-bars >> nth=1").wait_for()
            changes = tokens.evaluate_all("all => all.map((one) => one.ariaLabel)")
            listed = page.locator(".attention-bars >> nth=1").locator("li").all_inner_texts()
            browser.close()
    assert problems == []
    mean = explained.weights[-1].mean(axis=(0, 1))
    assert shown == [f"{name} ({at}): {mean[at - 1]:.3f}" for at, name in enumerate(text.split(), 1)]
    best = int(np.argmax(whole))
    signed = [signed_figure(each[best] - whole[best]) for each in without]
    assert changes == [f"{name}: {each} without it" for name, each in zip(text.split(), signed, strict=True)]
    first = int(np.argsort(-np.abs(parts.logits[:, best]), kind="stable")[0])
    name = parts.ngrams[first].replace(" ", "␣")
    wanted = [f"{name} ({parts.kinds[first]})", signed_figure(parts.logits[first, best])]
    assert listed[0].split("\n") == wanted
    assert len(listed) == min(20, len(parts.ngrams))


def signed_figure(value):
    """A change as the page writes it."""
    return f"{'−' if value < 0 else '+'}{abs(value):.{5 if 0 < abs(value) < 0.001 else 3}f}"

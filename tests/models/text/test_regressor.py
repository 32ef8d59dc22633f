"""A regressor of texts learns, is kept, explains itself, and begins with other models."""

import re

import numpy as np
import pandas as pd
import pytest
from pretrained_folders import write_classifier, write_folder

from keras_selfattn import models
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.export.contract import contract_for
from keras_selfattn.export.precision import at_precision
from keras_selfattn.metrics.evaluation import examine
from keras_selfattn.models.heads.probabilities import Mixture
from keras_selfattn.models.text.ngram_counts import wide_logits
from keras_selfattn.training import TrainConfig, train
from keras_selfattn.training.calibration import NumberShares, calibrate

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2, "ngram_buckets": 64}
TEXTS = ["good film", "a fine film indeed", "bad film", "poor", "good", "bad bad bad"] * 8
STARS = [[5.0, 0.2], [4.0, 0.1], [2.0, 0.8], [1.0, 0.9], [5.5, 0.0], [0.5, 1.0]] * 8


def made(stars=STARS, start=None, **config):
    model = models.TextRegressor({**SMALL, **config} if start is None else config, start=start)
    model.adapt(TEXTS, stars)
    random = np.random.default_rng(0)
    for name in ("logits", "logits_2"):
        if name in {layer.name for layer in model.core.layers}:
            layer = model.core.get_layer(name)
            layer.set_weights([random.normal(size=weight.shape) for weight in layer.weights])
    return model


@pytest.fixture(scope="module")
def model():
    return made()


def answers(model, texts=("good film", "so bad", "")):
    return model.predict(list(texts), verbose=0)


def test_baselines_are_the_mean_and_the_ridge_in_the_units_of_the_targets(model):
    found = model.baselines(["good film", "bad"])
    np.testing.assert_allclose(found["mean of training"], [np.mean(STARS, axis=0)] * 2)
    mixture = next(layer for layer in model.core.layers if isinstance(layer, Mixture))
    before = mixture.shares.numpy()
    mixture.shares.assign([0.0, 1.0])
    np.testing.assert_allclose(found["ridge"], answers(model, ["good film", "bad"]), atol=1e-5)
    mixture.shares.assign(before)
    assert found["ridge"][0, 0] > found["ridge"][1, 0]
    signs = made([1, -1, 1] + [-1, 1, -1] + [1, -1] * 21, wide=False)
    assert (signs.head.mean, signs.head.deviation) == ([0.0], [1.0])  # those of an imported model
    for each in (signs, models.TextRegressor.from_config(signs.get_config())):
        assert set(each.baselines(["x"])) == {"mean of training"}


def test_a_saved_model_answers_as_before(model, tmp_path):
    model.save(tmp_path / "model.keras")
    again = models.load(tmp_path / "model.keras")
    np.testing.assert_array_equal(answers(again), answers(model))
    assert (again.head.mean, again.config) == (model.head.mean, model.config)


def test_rounded_kernels_answer_alike():
    model = made(width=32)
    before = answers(model)
    model.quantize("int8")
    np.testing.assert_allclose(answers(model), before, atol=0.2)


def test_bounded_scores_are_in_the_bounds_and_others_are_refused():
    model = made([[stars] for stars in np.linspace(0, 1, 48)], bounded=True)
    found = answers(model)
    assert ((found > 0) & (found < 1)).all()
    baseline = model.baselines(["good film"])["logistic regression"]
    assert 0 < baseline.item() < 1
    with pytest.raises(DataError, match=r"Target 0 .*must be in \[0, 1\].*--bounded.*Received 5.0"):
        made([5.0] * 48, bounded=True)


def test_a_pair_of_texts_has_a_score(model):
    pairs = list(zip(TEXTS, TEXTS[::-1], strict=True))
    of_pairs = models.TextRegressor(SMALL)
    of_pairs.adapt(pairs, STARS)
    assert of_pairs.text_pairs
    assert of_pairs.predict(pairs[:3], verbose=0).shape == (3, 2)
    assert set(of_pairs.baselines(pairs[:1])) == {"mean of training", "ridge"}
    with pytest.raises(DataError, match="Rows of this model are one text. Received two"):
        answers(model, pairs[:1])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"vocabulary": ["a"]}, "`vocabulary`, `mean` and `deviation` go together"),
        ({"names": ["a", "b"]}, "`names` is of a model with `vocabulary`, `mean`"),
        ({"vocabulary": ["a"], "mean": [0.0], "deviation": [1.0], "names": ["a", "b"]}, "Received 2 and 1"),
        ({"wide_features": 3}, "`wide_features` is of a model with `vocabulary`, `mean`"),
        ({"config": models.TextConfig()}, "`config` must be a ScoreConfig"),
        ({"config": {"bounded": 1}}, "`bounded` must be True or False. Received 1"),
    ],
)
def test_what_no_model_can_be_made_of_is_refused(given, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        models.TextRegressor(**given)


def test_columns_of_a_table_keep_their_names_and_are_read_by_them(tmp_path):
    """A file of weights of columns in another order is refused; targets of other columns are, too."""
    model, style = models.TextRegressor({**SMALL, "wide": False}), [stars[0] for stars in STARS]
    content = [stars[1] for stars in STARS]
    model.adapt(TEXTS, pd.DataFrame({"style": style, "content": content}))
    assert (model.head.names, model.head.mean) == (["style", "content"], np.mean(STARS, axis=0).tolist())
    turned = {"content": content, "style": style}
    for table in (turned, pd.DataFrame(turned)):
        assert model.head.encoded(model.head.read(table)).tolist() == np.float32(STARS).tolist()
    with pytest.raises(DataError, match="columns 'style', 'form'. The model has learned 'style', 'content'"):
        model.head.encoded(model.head.read(pd.DataFrame({"style": style, "form": content})))
    # Numbers alone are in the order of the model.
    assert model.head.encoded(model.head.read(STARS)).tolist() == np.float32(STARS).tolist()
    model.save(tmp_path / "model.keras")
    assert models.load(tmp_path / "model.keras").head.names == ["style", "content"]
    other = models.TextRegressor({**SMALL, "wide": False})
    other.adapt(TEXTS, turned)
    model.save_weights(tmp_path / "model.weights.h5")
    with pytest.raises(ConfigError, match="`names` has 'style' at index 0 in the file and 'content' here"):
        other.load_weights(tmp_path / "model.weights.h5")


def test_figures_of_an_evaluation_are_by_the_names_of_columns():
    named = made(pd.DataFrame(STARS, columns=["style", "content"]), wide=False)
    table = pd.DataFrame(STARS, columns=["style", "content"])[["content", "style"]]
    found, plain = (examine(named, LabelledRows(TEXTS, each, "made up")) for each in (table, STARS))
    assert found.figures.summary() == plain.figures.summary()
    assert found.figures.summary()["pearson_content"] == plain.figures.scores["model"][1].pearson
    assert found.mistakes() == plain.mistakes()


def test_an_export_tells_the_names_of_scores():
    model = made(pd.DataFrame(STARS, columns=["style", "content"]), wide=False)
    contract = contract_for(*at_precision(model, None))
    assert contract.scores == ["style", "content"]
    found = contract.signatures["scores"]
    answer = found.function(*found.arguments(found.requests[0]))
    assert answer["classes"].numpy()[0].tolist() == [b"style", b"content"]
    asked = contract.signatures["serving_default"]
    numbers = asked.function(*asked.arguments(asked.requests[0]))["predictions"]
    np.testing.assert_array_equal(answer["scores"], numbers)
    assert "scores" not in contract_for(*at_precision(made(wide=False), None)).signatures


def test_targets_that_cannot_train_are_refused_before_anything_is_learned():
    model = models.TextRegressor(SMALL)
    for targets, said in (([3.0] * 48, "one value only"), (["good"] * 48, "must be a number or several")):
        with pytest.raises(DataError, match=said):
            model.adapt(TEXTS, targets)
    model.adapt(TEXTS, STARS)
    with pytest.raises(ConfigError, match="A TextRegressor returns numbers .*and no names. Call `predict`"):
        model.label(["good"])


def test_contributions_are_the_exact_parts_of_the_wide_path_in_the_numbers(model):
    texts = np.array(["good film", "so bad"], "O")
    signatures = contract_for(*at_precision(model, None)).signatures
    found = {name: value.numpy() for name, value in signatures["contributions"].function(texts).items()}
    mixture = model.core.get_layer("mixture")
    share = float(mixture.shares[1]) * np.asarray(model.head.deviation)
    wanted = share * wide_logits(model.wide, model._words.ngrams, list(texts))
    np.testing.assert_allclose(found["logits"].sum(axis=1) + found["rest"], wanted, atol=1e-5)
    assert set(signatures) == {"serving_default", "tokens", "explain", "contributions"}


def test_the_shares_of_both_paths_are_those_of_least_squares(model):
    rows = LabelledRows(TEXTS, STARS, "made up")
    fit = NumberShares(model, rows)
    deep, wide = (fit._path(shares).ravel() for shares in ([1.0, 0.0], [0.0, 1.0]))
    targets = (np.array(STARS) - model.head.mean) / model.head.deviation
    # As many rows of a prior, for each of two scores, say the first shares.
    first = np.array(model.core.get_layer("mixture").first[:2])
    paths = np.stack([deep, wide], axis=1)
    held = 20 * 2
    wanted = np.linalg.solve(paths.T @ paths + held * np.eye(2), paths.T @ targets.ravel() + held * first)
    assert (wanted > 0).all()  # or they would be cut
    assert calibrate(model, rows) == 1.0
    np.testing.assert_allclose(model.core.get_layer("mixture").shares, wanted, atol=1e-5)
    error = answers(model, TEXTS) - STARS
    found = fit.set_shares()
    assert found["mean_absolute_error"] == pytest.approx(np.abs(error).mean(), rel=1e-4)
    assert found["loss"] == pytest.approx(((error / model.head.deviation) ** 2).mean(), rel=1e-4)


def test_it_begins_with_a_pretrained_folder_or_a_model_of_texts(tmp_path):
    folder = write_folder(tmp_path / "tiny")
    tuned = made(start=folder, bounded=False, frozen_layers=1)
    assert answers(tuned).shape == (3, 2)
    assert tuned.get_config()["config"]["frozen_layers"] == 1
    # A classifier's head lends its hidden layer, and says so.
    classifier = models.TextRegressor(start=write_classifier(tmp_path / "classes", ["-", "+"]))
    said = classifier.start.described(TEXTS, [np.array(each) for each in STARS])
    assert "the hidden layer of its head, and a new output layer" in said
    learned = models.TextClassifier(SMALL)
    learned.adapt(TEXTS, ["+", "+", "-", "-", "+", "-"] * 8)
    learned.save(tmp_path / "classes.keras")
    begun = made(start=tmp_path / "classes.keras", bounded=False)
    np.testing.assert_array_equal(
        *(each.core.get_layer("embedding").get_weights()[0] for each in (begun, learned))
    )
    begun.save(tmp_path / "scores.keras")
    back = models.TextClassifier(start=tmp_path / "scores.keras")
    assert type(back.config) is models.TextConfig


@pytest.mark.slow
def test_a_training_learns_the_scores_and_its_answers_have_figures(tmp_path):
    stars = [[number] for number, _ in STARS]
    rows, config = (TEXTS, stars), TrainConfig(epochs=1, batch_size=16, refit=False)
    model = models.TextRegressor(SMALL)
    run = train(rows, tmp_path / "run", model=model, config=config, validation=rows, verbose=0)
    figures = run.figures.summary()
    assert figures["spearman"] > 0.9
    assert figures["mean_absolute_error"] < figures["mean_absolute_error_of_mean_of_training"] / 2
    assert {"r_squared_of_ridge", "pearson_of_ridge"} <= set(figures)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Predicted against true" in page
    columns = (tmp_path / "run" / "history.csv").read_text().splitlines()[0].split(",")
    assert {"attention_loss", "val_loss", "val_mean_absolute_error"} <= set(columns)

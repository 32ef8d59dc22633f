"""Pretraining: what a model learns and answers, and the start of a classifier from it."""

import math

import keras
import numpy as np
import pytest
from scipy.special import erf, log_softmax

from keras_selfattn import models, training
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import ConfigError, DataError, ExportError, RunError
from keras_selfattn.export import export_saved_model
from keras_selfattn.models.long_rows import windows
from keras_selfattn.models.text.masked_prediction import MASK, Masking, masked_places
from keras_selfattn.runs.run_folder import read_config, read_metrics

SMALL = models.TextConfig(width=16, num_heads=2, dropout=0.0)
COUNTING = ["one two three four five", "six seven eight nine ten eleven"] * 40
# What lies between ids and encoded positions.
BODY = ("embedding", "spelling", "neighbours", "encoder")


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """A run that has learned to count, and its folder."""
    settings = training.TrainConfig(epochs=40, learning_rate=0.02, batch_size=16)
    model = models.MaskedTokenModel(SMALL)
    # Both kinds of text in both parts.
    return training.pretrain(
        COUNTING,
        tmp_path_factory.mktemp("pretrained") / "base",
        model=model,
        config=settings,
        validation=COUNTING[:4],
        source="numbers",
        verbose=0,
    )


def test_windows_lose_nothing_but_what_is_blank():
    text = "word, another " * 400
    found = list(windows(["short", text, " \n ", "x" * 2500]))
    assert found[0] == "short"
    assert "".join(found) == "short" + text.rstrip() + " " * (len(text) - len(text.rstrip())) + "x" * 2500
    assert max(map(len, found)) <= 1024
    assert found[-3:] == ["x" * 1024, "x" * 1024, "x" * 452]
    assert all(window.split()[0] in ("word,", "another") for window in found[1:-3])


@pytest.mark.parametrize("tokens", ["words", "characters"])
def test_every_token_of_a_long_text_is_learned_from(tokens):
    text = " ".join(f"w{n % 7}" for n in range(5000))
    model = models.MaskedTokenModel(models.TextConfig(width=8, num_heads=1, tokens=tokens, max_tokens=10))
    model.adapt([text], None)
    rows = model._features(model.read_inputs([text]))
    assert sum(map(len, rows)) == (5000 if tokens == "words" else len(text))
    assert max(map(len, rows)) <= 1024


@pytest.mark.slow
def test_the_loss_is_the_cross_entropy_at_the_hidden_places_alone(counted):
    """By NumPy, from the encoded positions on."""
    model = counted.model
    texts = ["one three two five", "ten ten", "six"]
    (places, seen), ids = next(iter(model.hidden_batches(texts)))
    body = keras.Model(model.core.get_layer("ids").output, model.core.get_layer("encoder").output)
    x = np.asarray(body(seen)).reshape(-1, 16)[places].astype(np.float64)
    kernel, bias = model.core.get_layer("guess").get_weights()
    x = x @ kernel + bias
    x = x * (1 + erf(x / math.sqrt(2))) / 2  # Keras' gelu is the tanh approximation: see the tolerance
    scale, offset = model.core.get_layer("guess_norm").get_weights()
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-3) * scale + offset
    table = model.core.get_layer("embedding").get_weights()[0]
    logits = x @ table.T + model.core.get_layer("logits").get_weights()[0]
    wanted = -log_softmax(logits, axis=-1)[np.arange(len(ids)), ids].mean()
    found = model.evaluate(texts, verbose=0, return_dict=True)
    assert found["loss"] == pytest.approx(wanted, abs=1e-2)
    assert found["accuracy"] == pytest.approx((logits.argmax(-1) == ids).mean())
    assert len(ids) == 3  # one of each row


def test_the_outputs_share_the_vectors_of_the_inputs():
    model = models.MaskedTokenModel(SMALL)
    model.adapt(COUNTING, None)
    table = (model.tokenizer.size, 16)
    assert [tuple(weight.shape) for weight in model.core.get_layer("logits").weights] == [table[:1]]
    assert [tuple(weight.shape) for weight in model.trainable_variables].count(table) == 1


@pytest.mark.slow
def test_a_model_learns_what_stands_where(counted):
    texts = ["one two [mask] four five", "no mask", "six seven eight [mask] ten [mask]"]
    assert counted.model.guesses(texts, 1) == [[["three"]], [], [["nine"], ["eleven"]]]


@pytest.mark.slow
def test_predictions_are_probabilities_for_each_mask_in_the_order_of_the_texts(counted):
    texts = ["six [mask] eight nine ten eleven", "", "one [mask]", "[mask] two [mask]"]
    found = counted.model.predict(texts, verbose=0)
    size = counted.model.tokenizer.size
    assert [row.shape for row in found] == [(count, size) for count in (1, 0, 1, 2)]
    np.testing.assert_allclose(np.concatenate(found).sum(-1), 1, rtol=1e-5)
    alone = counted.model.predict(texts[2:3], verbose=0)[0]
    np.testing.assert_allclose(found[2], alone, rtol=1e-4, atol=1e-6)


def test_no_text_holds_the_mask_as_a_token():
    for config in (SMALL, models.TextConfig(width=8, num_heads=1, tokens="characters")):
        model = models.MaskedTokenModel(config)
        model.adapt([f"a {MASK} b {MASK}"] * 3, None)
        assert model.tokenizer.vocabulary[-1] == MASK
        rows = model._features([f"a {MASK} b"])
        assert not len(masked_places(rows, Masking(model.tokenizer.size - 1)).places[0])


@pytest.mark.slow
def test_a_saved_model_answers_and_scores_as_before(counted):
    again = models.load(counted.path)
    texts = ["one [mask] three four five"]
    answers = [model.predict(texts, verbose=0)[0] for model in (again, counted.model)]
    np.testing.assert_allclose(*answers, rtol=1e-4, atol=1e-6)
    scores = [model.evaluate(COUNTING, verbose=0) for model in (again, counted.model)]
    np.testing.assert_allclose(*scores, rtol=1e-4)


@pytest.mark.slow
def test_fit_takes_texts_alone_and_validates_on_the_same_hidden_tokens_each_epoch():
    model = models.MaskedTokenModel(SMALL)
    model.compile(keras.optimizers.SGD(0.0))
    history = model.fit(COUNTING, validation_split=0.2, epochs=3, verbose=0).history
    assert len(set(history["val_loss"])) == 1
    assert len(set(history["loss"])) == 3  # drawn anew


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"y": ["+"] * 80}, "Leave the targets out"),
        ({"sample_weight": np.ones(80)}, "Leave `sample_weight` out"),
        ({"class_weight": "balanced"}, "one label a row"),
    ],
)
def test_what_texts_alone_do_not_have_is_refused(arguments, said):
    model = models.MaskedTokenModel(SMALL)
    model.compile()
    with pytest.raises((DataError, ConfigError), match=said):
        model.fit(COUNTING, **arguments, verbose=0)


@pytest.mark.slow
def test_a_run_folder_holds_figures_of_the_epoch_that_was_kept(counted):
    figures, config = read_metrics(counted.path), read_config(counted.path)
    assert figures["perplexity"] == pytest.approx(math.exp(min(counted_history(counted))), rel=1e-4)
    assert list(figures)[:3] == ["accuracy", "perplexity", "accuracy_of_the_commonest"]
    assert figures["rows"] == 4
    assert config["kind"] == "MaskedTokenModel"
    assert config["data"]["train"] == {"source": "numbers", "rows": 80}
    assert MASK in (counted.path / "vocabulary.txt").read_text()


def counted_history(run):
    lines = (run.path / "history.csv").read_text().splitlines()
    place = lines[0].split(",").index("val_loss")
    return [float(line.split(",")[place]) for line in lines[1:]]


@pytest.mark.slow
def test_the_accuracy_of_the_commonest_by_hand(counted):
    figures = training.evaluate_pretrained(counted.model, ["one", "one", "one", "two"])
    assert (figures.commonest, figures.tokens, figures.rows) == (0.75, 4, 4)


@pytest.mark.slow
def test_texts_of_which_the_model_knows_no_token_are_refused(counted):
    with pytest.raises(DataError, match="no token that the model knows"):
        training.evaluate_pretrained(counted.model, ["zwölf dreizehn"])


def adapted(**settings):
    model = models.TextClassifier(**settings)
    model.adapt(["one two three twelve", "six seven"] * 4, ["few", "many"] * 4)
    return model


def assert_same_body(one, other):
    for name in BODY:
        weights = [model.core.get_layer(name).get_weights() for model in (one, other)]
        assert all((first == second).all() for first, second in zip(*weights, strict=True))


@pytest.mark.slow
def test_a_classifier_begins_with_vocabulary_and_weights_to_the_last_bit(counted):
    model = adapted(start=counted.path)
    assert model.tokenizer.vocabulary == counted.model.tokenizer.vocabulary
    assert_same_body(model, counted.model)
    assert (model.config.width, model.config.wide) == (16, True)


@pytest.mark.slow
def test_settings_that_no_weight_depends_on_are_the_classifiers_own(counted):
    default = models.TextClassifier(start=counted.path).config
    assert (default.dropout, SMALL.dropout) == (models.TextConfig().dropout, 0.0)
    given = {
        "dropout": 0.4,
        "head_dropout": 0.3,
        "word_dropout": 0.2,
        "max_tokens": 9,
        "window": 7,
        "members": 2,
    }
    config = models.TextClassifier(given, start=counted.path).config
    assert {name: getattr(config, name) for name in given} == given


@pytest.mark.slow
def test_of_a_config_what_is_left_at_its_default_is_not_given(counted):
    model = models.TextClassifier(models.TextConfig(members=2), start=counted.path)
    assert (model.config.width, model.config.members) == (SMALL.width, 2)
    base = models.MaskedTokenModel(models.TextConfig(width=8)).config
    assert (base.dropout, base.embedding_dropout, base.word_dropout, base.width) == (0.1, 0.1, 0.0, 8)


def test_validation_texts_without_a_known_token_are_refused_before_training(tmp_path):
    class Never(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            raise AssertionError

    with pytest.raises(DataError, match="The 2 texts to guess in hold no token that the model knows"):
        training.pretrain(
            COUNTING,
            tmp_path / "base",
            model=models.MaskedTokenModel(SMALL),
            validation=["zzz qqq", "xxx yyy"],
            callbacks=[Never()],
            verbose=0,
        )
    assert not (tmp_path / "base").exists()


@pytest.mark.slow
def test_each_of_several_encoders_begins_with_the_same(counted):
    model = adapted(config={"members": 3, "wide": False}, start=counted.path)
    for place in (2, 3):
        member = model.core.get_layer(f"member_{place}")
        for name in BODY:
            pairs = zip(
                member.get_layer(name).get_weights(),
                counted.model.core.get_layer(name).get_weights(),
                strict=True,
            )
            assert all((first == second).all() for first, second in pairs)


@pytest.mark.slow
def test_tuning_tries_nothing_that_contradicts_the_start(counted):
    tried = [name for change in models.TextClassifier(start=counted.path).alternatives() for name in change]
    assert {"dropout", "learning_rate", "batch_size"} <= set(tried)
    assert {"width", "num_layers", "tokens", "lowercase", "max_ngram"} & set(tried) == set()


@pytest.mark.slow
def test_a_copy_made_of_the_config_begins_with_the_same(counted):
    model = models.TextClassifier({"wide": False}, start=counted.path)
    again = type(model).from_config(model.get_config())
    again.adapt(["one", "six"] * 4, ["few", "many"] * 4)
    assert again.wide is None
    assert_same_body(again, counted.model)


@pytest.mark.slow
def test_once_it_has_learned_a_classifier_needs_its_start_no_more(counted, tmp_path):
    model = adapted(start=counted.path)
    assert model.get_config()["start"] is None
    model.save(tmp_path / "model.keras")
    again = models.load(tmp_path / "model.keras")
    answers = [each.predict(["one"], verbose=0) for each in (again, model)]
    np.testing.assert_allclose(*answers, rtol=1e-4)


@pytest.mark.slow
def test_a_classifier_begins_with_another_classifier(counted, tmp_path):
    first = adapted(start=counted.path)
    first.core.get_layer("encoder").set_weights(
        [weight + 1 for weight in first.core.get_layer("encoder").get_weights()]
    )
    first.save(tmp_path / "first.keras")
    second = adapted(start=tmp_path / "first.keras")
    assert_same_body(second, first)
    assert second.start.record == {"path": str(tmp_path / "first.keras"), "kind": "TextClassifier"}


@pytest.mark.slow
def test_what_is_taken_is_said_with_what_is_not_known(counted):
    model = models.TextClassifier(start=counted.path)
    weights = [w for name in BODY for w in counted.model.core.get_layer(name).trainable_weights]
    numbers = sum(np.size(weight) for weight in weights)
    said = model.start.described(["one two dozen", "One score"])
    assert model.start.described([("one two dozen", "One score")]) == said  # both texts of a pair
    assert said.endswith(f"{numbers:,} numbers; of 4 different words of the rows it does not know 2.")


@pytest.mark.slow
def test_settings_that_contradict_the_start_are_refused_with_both_values(counted):
    with pytest.raises(ConfigError, match=r"`width` is 16 in .*base, .* Received 32: leave it out"):
        models.TextClassifier({"width": 32}, start=counted.path)
    with pytest.raises(ConfigError, match="`width` is 16"):
        models.TextClassifier(models.TextConfig(width=32), start=counted.path)
    with pytest.raises(ConfigError, match="`start` is of a model before training"):
        models.TextClassifier(vocabulary=["a"], labels=["b", "c"], start=counted.path)


def test_a_start_that_is_no_model_of_text_is_refused(tmp_path):
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]).save(tmp_path / "other.keras")
    with pytest.raises(RunError, match="holds a Sequential"):
        models.TextClassifier(start=tmp_path / "other.keras")
    with pytest.raises(RunError, match="There is no model at"):
        models.TextClassifier(start=tmp_path / "nowhere")


@pytest.mark.slow
def test_a_run_records_what_it_began_with(counted, tmp_path):
    texts = [f"{text} {n}" for n, text in enumerate(COUNTING)]
    rows = LabelledRows(texts, ["few", "many"] * 40, "numbers")
    config = training.TrainConfig(epochs=1, refit=True)
    model = models.TextClassifier({"wide": False}, start=counted.path)
    run = training.train(rows, tmp_path / "run", model=model, config=config, verbose=0)
    assert read_config(run.path)["start"] == {
        "path": str(counted.path),
        "kind": "MaskedTokenModel",
        "figures": read_metrics(counted.path),
    }


@pytest.mark.process
def test_a_pretrained_model_is_not_exported(counted, tmp_path):
    with pytest.raises(ExportError, match="keras-selfattn train TABLE --from RUN"):
        export_saved_model(counted.model, tmp_path / "models")


def test_batches_shrink_with_the_length_of_texts_and_not_with_its_square():
    model = models.MaskedTokenModel(models.TextConfig(width=8, num_heads=1, tokens="characters", window=16))
    texts = ["ab cd " * 160] * 64
    model.adapt(texts, None)
    assert [len(rows) for (_, rows), _ in model.hidden_batches(texts, 64)] == [64]


def test_before_training_a_model_guesses_nothing():
    with pytest.raises(DataError, match="has not seen any rows"):
        models.MaskedTokenModel().guesses(["a [mask]"])


@pytest.mark.parametrize("made", [models.MaskedTokenModel, models.TextClassifier])
def test_a_config_of_another_model_is_refused(made):
    with pytest.raises(ConfigError, match="`config` must be a TextConfig"):
        made(models.ImageConfig())

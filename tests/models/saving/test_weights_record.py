"""Files of weights alone: loaded for the words, labels and settings of the saved model, else refused."""

import warnings

import keras
import numpy as np
import pytest

from keras_selfattn import models
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.models.saving import weights_record

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2}
TEXTS = ["good film", "a fine film indeed", "bad film", "poor"] * 2
LABELS = ["+", "+", "-", "-"] * 2
RANDOM = np.random.default_rng(0)
SERIES = RANDOM.normal(size=(8, 5, 3)).astype("float32")
TOKENS = [["a", "film"], ["the", "best", "film"]] * 4
FORMS = ["model.weights.h5", "model.weights.json", "model.keras"]

pytestmark = pytest.mark.usefixtures("eager_steps")


def text_model(vocabulary=("good", "bad", "film"), labels=("+", "-"), config=None, **settings):
    config = {**SMALL, "ngram_buckets": 64, "wide": False, **(config or {})}
    return models.TextClassifier(config, vocabulary=list(vocabulary), labels=list(labels), **settings)


def saved(model, path):
    """Weights in a file of Keras' form by its name."""
    if path.suffix == ".keras":
        model.save(path)
    else:
        model.save_weights(path, max_shard_size=3e-6 if path.suffix == ".json" else None)
    return path


def without_record(monkeypatch):
    """Let models be saved as earlier versions saved them."""
    monkeypatch.delattr(RawModel, "save_own_variables")


def refused(model, path, said):
    before = model.get_weights()
    with pytest.raises(ConfigError, match=said):
        model.load_weights(path)
    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_weights_of_the_same_words_and_labels_give_the_same_answers(form, tmp_path):
    model, other = text_model(), text_model(config={"dropout": 0.4, "min_count": 9, "feed_forward_dim": 32})
    wanted = model.predict(TEXTS, verbose=0)
    assert not np.allclose(other.predict(TEXTS, verbose=0), wanted)
    other.load_weights(saved(model, tmp_path / form))
    np.testing.assert_array_equal(other.predict(TEXTS, verbose=0), wanted)
    assert form != "model.weights.json" or len(list(tmp_path.glob("*.h5"))) > 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"labels": ["-", "+"]}, r"`labels` has '\+' at index 0 in the file and '-' here"),
        ({"labels": ["+", "?"]}, r"`labels` has '-' at index 1 in the file and '\?' here"),
        ({"vocabulary": ["good", "poor", "film"]}, "`vocabulary` has 'bad' at index 1 .* and 'poor' here"),
        ({"multi_label": True}, "`multi_label` is False in the file and True here"),
        ({"config": {"num_heads": 4}}, "`num_heads` is 2 in the file and 4 here"),
        ({"config": {"lowercase": False}}, "`lowercase` is True in the file and False here"),
    ],
)
def test_weights_of_other_words_labels_or_settings_change_nothing(form, other, said, tmp_path):
    path = saved(text_model(), tmp_path / form)
    refused(text_model(**other), path, said)


def series_regressor(rows=SERIES, scale=1.0):
    model = models.SeriesRegressor(SMALL)
    model.adapt(rows, rows.sum((1, 2)) * scale)
    return model


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (series_regressor, lambda: series_regressor(scale=10.0), "`mean` has .*`deviation` has "),
        (
            lambda: models.SeriesClassifier(
                {**SMALL, "kernels": 20}, num_features=3, longest=5, labels=["a", "b"]
            ),
            lambda: models.SeriesClassifier(
                {**SMALL, "kernels": 20}, num_features=3, longest=6, labels=["a", "b"]
            ),
            "`longest` is 5 in the file and 6 here",
        ),
        (
            lambda: models.ImageClassifier(SMALL, image_shape=[8, 8, 1], byte_pixels=True, labels=["a", "b"]),
            lambda: models.ImageClassifier(SMALL, image_shape=[8, 8, 1], labels=["a", "b"]),
            "`byte_pixels` is True in the file and False here",
        ),
        (
            lambda: models.TokenClassifier(SMALL, vocabulary=["a"], labels=["B-A", "I-A", "O"], spans=True),
            lambda: models.TokenClassifier(SMALL, vocabulary=["a"], labels=["B-A", "I-A", "O"]),
            "`spans` is 'IOB2' in the file and False here",
        ),
        (
            lambda: models.MaskedTokenModel(SMALL, vocabulary=["a", "b", "[mask]"]),
            lambda: models.MaskedTokenModel(SMALL, vocabulary=["b", "a", "[mask]"]),
            "`vocabulary` has 'a' at index 0",
        ),
    ],
)
def test_each_kind_of_model_refuses_the_weights_of_another_state(one, other, said, tmp_path):
    path = saved(one(), tmp_path / "model.weights.h5")
    refused(other(), path, said)
    one().load_weights(path)


def test_long_vocabularies_are_compared_by_their_digest(tmp_path):
    words = [f"word{number}" for number in range(1500)]
    model = text_model(words)
    path = saved(model, tmp_path / "model.weights.h5")
    refused(
        text_model(words[::-1]), path, "`vocabulary` has 1,500 entries in the file and others of 1,500 here"
    )
    text_model(words).load_weights(path)
    assert len(str(weights_record.record_of(model.get_config()))) < 2000


def test_mismatched_weights_can_be_forced_as_in_keras(tmp_path):
    model, other = text_model(), text_model(labels=["-", "+"])
    path = saved(model, tmp_path / "model.weights.h5")
    with pytest.warns(UserWarning, match="`labels` has"):
        other.load_weights(path, skip_mismatch=True)
    for one, loaded in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(one, loaded)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Skipping nested container:UserWarning")  # where Keras looks for it again
def test_a_model_inside_another_is_compared_too(tmp_path):
    """Keras loads its parts without `load_weights` of them, and raises its own error with theirs inside."""

    def around(labels):
        model = text_model(labels=labels)
        inputs = keras.Input((None,), dtype="int32")
        return keras.Model(inputs, model(inputs))

    around(["+", "-"]).save_weights(tmp_path / "outer.weights.h5")
    around(["+", "-"]).load_weights(tmp_path / "outer.weights.h5")
    with pytest.raises(ValueError, match="`labels` has '\\+' at index 0 in the file and '-' here"):
        around(["-", "+"]).load_weights(tmp_path / "outer.weights.h5")


@pytest.mark.slow
def test_a_model_that_another_holds_under_two_names_is_refused(tmp_path):
    """Keras visits it for each name, with its record for the first alone, and the last visit counts."""

    class Outer(keras.Model):
        def __init__(self, inner):
            super().__init__(name="outer")
            self.inner, self.built = inner, True

    Outer(text_model(labels=["+", "-"])).save_weights(tmp_path / "outer.weights.h5")
    other = text_model(labels=["-", "+"])
    with pytest.raises(ValueError, match="could not be loaded|`labels` has"):
        Outer(other).load_weights(tmp_path / "outer.weights.h5")
    Outer(text_model(labels=["-", "+"])).save_weights(tmp_path / "right.weights.h5")
    Outer(other).load_weights(tmp_path / "right.weights.h5")


def test_a_model_without_rows_says_that_weights_hold_no_words(tmp_path):
    path = saved(text_model(), tmp_path / "model.weights.h5")
    model = models.TextClassifier({**SMALL, "wide": False})
    with pytest.raises(
        DataError, match="holds neither words nor labels. Load the whole model, .*`models.load`"
    ):
        model.load_weights(path)
    assert model.labels == []


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS[:2])
def test_an_older_file_of_weights_loads_with_a_warning(form, tmp_path, monkeypatch):
    model, other = text_model(), text_model()
    with monkeypatch.context() as patched:
        without_record(patched)
        path = saved(model, tmp_path / form)
    with pytest.warns(
        UserWarning, match=f"{form} does not say of which words, labels and settings"
    ) as caught:
        other.load_weights(path)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(other.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0))


def test_an_older_keras_file_is_compared_by_its_config_and_loads_in_silence(tmp_path, monkeypatch):
    model = text_model()
    with monkeypatch.context() as patched:
        without_record(patched)
        path = saved(model, tmp_path / "model.keras")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = models.load(path)
        text_model().load_weights(path)
    np.testing.assert_array_equal(loaded.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0))
    refused(text_model(labels=["-", "+"]), path, r"`labels` has '\+' at index 0")


def adapted(texts):
    model = models.TextClassifier({**SMALL, "ngram_buckets": 64, "wide": False})
    model.compile()
    model.adapt(texts, LABELS)
    return model


@pytest.mark.slow
def test_checkpoints_of_weights_alone_are_those_of_one_vocabulary(tmp_path):
    path = tmp_path / "epoch.weights.h5"
    model = adapted(TEXTS)
    model.fit(
        TEXTS,
        LABELS,
        epochs=1,
        verbose=0,
        callbacks=[keras.callbacks.ModelCheckpoint(path, save_weights_only=True)],
    )
    again = adapted(TEXTS)
    again.load_weights(path)
    np.testing.assert_array_equal(again.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0))
    others = [text.replace("good", "grand").replace("film", "novel") for text in TEXTS]
    refused(adapted(others), path, "`vocabulary` has 'film' at index 0 in the file and 'novel' here")


@pytest.mark.slow
def test_a_backup_of_other_rows_does_not_go_on(tmp_path):
    class KilledError(Exception):
        pass

    def die(epoch, logs):
        if epoch == 1:
            raise KilledError

    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    with pytest.raises(KilledError):
        adapted(TEXTS).fit(
            TEXTS,
            LABELS,
            epochs=3,
            verbose=0,
            callbacks=[backup, keras.callbacks.LambdaCallback(on_epoch_begin=die)],
        )
    others = [text.replace("film", "novel") for text in TEXTS]
    again = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    with pytest.raises(ConfigError, match="`vocabulary` has 'film' at index 0 in the file and 'novel' here"):
        adapted(others).fit(others, LABELS, epochs=3, verbose=0, callbacks=[again])
    history = adapted(TEXTS).fit(TEXTS, LABELS, epochs=3, verbose=0, callbacks=[again]).history
    assert len(history["loss"]) == 2

"""No rows, blank rows and one row, as the first that a loaded model is asked, for every kind of model."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from keras_selfattn import models, training
from keras_selfattn.cli.main import main
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import DataError
from keras_selfattn.export import export_saved_model
from keras_selfattn.training import TrainConfig

W = {"width": 8, "num_layers": 1, "num_heads": 2}
TEXTS, LABELS = ["good film", "fine", "bad", "poor film"] * 4, ["+", "+", "-", "-"] * 4
NAMES, TAGS = [["Ada", "wrote"], ["it", "did"]] * 4, [["X", "Y"], ["Y", "X"]] * 4
SERIES = [[0.0, 1.0, 2.0], [2.0, 1.0, 5.0]] * 8
IMAGES = np.random.default_rng(0).random((16, 8, 8)).astype("float32")


def text(**config):
    return models.TextClassifier(models.TextConfig(**W, **config))


BLANK, EMPTY = [[""], ["   "], ["", " "]], [[[]], [[], []]]
# Makes a model; its training rows and targets; rows without anything in them.
KINDS = {
    "words": (text, TEXTS, LABELS, BLANK),
    "characters": (lambda: text(tokens="characters"), TEXTS, LABELS, BLANK),
    "no wide path": (lambda: text(wide=False), TEXTS, LABELS, BLANK),
    "several encoders": (lambda: text(members=2), TEXTS, LABELS, BLANK),
    "several labels": (text, TEXTS, [["a", "b"], ["a"], [], ["b"]] * 4, BLANK),
    "tokens": (lambda: models.TokenClassifier(models.TokenConfig(**W, hash_buckets=64)), NAMES, TAGS, EMPTY),
    "spans": (
        lambda: models.TokenClassifier(models.TokenConfig(**W, hash_buckets=64)),
        NAMES,
        [["B-P", "I-P"], ["O", "B-P"]] * 4,
        EMPTY,
    ),
    "series": (
        lambda: models.SeriesClassifier(models.SeriesClassifierConfig(**W, kernels=20)),
        SERIES,
        ["u", "d"] * 8,
        [*EMPTY, [[float("nan")]]],
    ),
    "regression": (lambda: models.SeriesRegressor(models.SeriesConfig(**W)), SERIES, [1.0, 2.0] * 8, EMPTY),
    "several numbers": (
        lambda: models.SeriesRegressor(models.SeriesConfig(**W)),
        SERIES,
        [[1.0, 2.0, 0.0], [2.0, 3.0, 1.0]] * 8,
        EMPTY,
    ),
    "forecast": (
        lambda: models.SeriesForecaster(models.ForecastConfig(**W)),
        SERIES,
        [[1.0, 2.0], [2.0, 3.0]] * 8,
        EMPTY,
    ),
    "images": (lambda: models.ImageClassifier(models.ImageConfig(**W)), IMAGES, ["u", "d"] * 8, []),
    "answers": (
        lambda: models.SequenceToSequence({**W, "tokens": "characters", "max_new_tokens": 12}),
        TEXTS,
        [text[::-1] for text in TEXTS],
        BLANK,
    ),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Returns what gives the file of a model that has learned its rows, made once."""
    folder, made = tmp_path_factory.mktemp("models"), {}

    def of(kind):
        if kind not in made:
            make, rows, targets, _ = KINDS[kind]
            model = make()
            model.adapt(rows, targets)
            made[kind] = folder / f"{kind}.keras"
            model.save(made[kind])
        return made[kind]

    return of


def first_rows(kind):
    _, rows, _, blank = KINDS[kind]
    return [rows[:0], *blank, rows[:1]]


def as_inputs(kind, rows):
    """Rows as one tensor, as an exported model gets them."""
    if isinstance(rows, np.ndarray):
        return tf.constant(rows.reshape(-1, 8, 8, 1))
    if kind not in ("tokens", "spans", "series", "regression", "several numbers", "forecast"):
        return tf.constant(rows, tf.string, [len(rows)])
    longest = max(map(len, rows), default=0)
    if kind in ("tokens", "spans"):
        padded = [[*row, *[""] * (longest - len(row))] for row in rows]
        return tf.constant(padded, tf.string, [len(rows), longest])
    padded = [[*row, *[float("nan")] * (longest - len(row))] for row in rows]
    return tf.constant(padded, tf.float32, [len(rows), longest, 1])


@pytest.mark.slow
@every_kind
def test_a_loaded_model_predicts_and_is_called_with_them_first(kind, files):
    for rows in first_rows(kind):
        asked = models.load(files(kind))
        predicted = asked.predict(rows, verbose=0)
        if kind == "answers":  # a call takes ids
            assert predicted == [answer.text for answer in models.load(files(kind)).generate(rows)]
            assert [text for text, row in zip(predicted, rows, strict=True) if not row.strip() and text] == []
            continue
        called = models.load(files(kind))(as_inputs(kind, rows))
        assert len(predicted) == called.shape[0] == len(rows)
        assert np.isfinite(called).all()
        if not isinstance(predicted, list):
            np.testing.assert_allclose(called, predicted, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@every_kind
def test_a_loaded_model_evaluates_them_first(kind, files):
    _, _, targets, _ = KINDS[kind]
    for rows in first_rows(kind):
        tags = kind in ("tokens", "spans")
        labels = [[targets[0][0]] * len(row) for row in rows] if tags else list(targets[: len(rows)])
        model = models.load(files(kind))
        model.compile()
        if not len(rows):
            with pytest.raises(DataError, match="There are no rows"):
                model.evaluate(rows, labels, verbose=0)
            continue
        if any(np.size(row) for row in rows) or not tags:
            assert np.isfinite(model.evaluate(rows, labels, verbose=0)).all()
            model = models.load(files(kind))
            report = training.evaluate(model, LabelledRows(rows, labels, "made up"))
            assert report.summary()


@pytest.mark.process
@every_kind
def test_an_export_answers_them_first(kind, files, tmp_path, unchecked):
    saved = tf.saved_model.load(str(export_saved_model(models.load(files(kind)), tmp_path / "saved")))
    signatures = saved.signatures  # which keep nothing from one request to the next
    for rows in first_rows(kind):
        for served in (signatures[name] for name in set(signatures) - {"classify", "regress"}):
            specs = served.structured_input_signature[1]
            if kind == "answers" and set(specs) != {"text"}:
                continue  # of known answers, or with settings
            (name,) = [name for name in specs if name != "lengths"]
            # Texts come split as well.
            split = name == "tokens" and kind not in ("tokens", "spans")
            given = as_inputs("tokens", [row.split() for row in rows]) if split else as_inputs(kind, rows)
            if name == "text" and kind in ("tokens", "spans"):
                given = tf.constant([" ".join(row) for row in rows], tf.string)
            for output in served(**{name: given}).values():
                assert output.shape[0] == len(rows)
                assert output.dtype == tf.string or np.isfinite(output).all()


@pytest.mark.slow
def test_a_model_of_masked_tokens_guesses_in_them_first(tmp_path):
    model = models.MaskedTokenModel(models.TextConfig(**W))
    model.adapt(TEXTS, None)
    model.save(tmp_path / "model.keras")
    for rows, masks in (([], []), ([""], [0]), (["  "], [0]), (["good"], [0]), (["[mask]"], [1])):
        asked = models.load(tmp_path / "model.keras")
        assert [len(each) for each in asked.predict(rows, verbose=0)] == masks


@pytest.mark.slow
def test_the_command_evaluates_a_file_of_one_blank_text(tmp_path):
    rows = LabelledRows([f"{text} {number}" for number, text in enumerate(TEXTS)], LABELS, "made up")
    training.train(rows, tmp_path / "run", model=text(), config=TrainConfig(epochs=1), verbose=0)
    table = tmp_path / "blank.csv"
    table.write_text('text,label\n"",+\n')
    done = CliRunner().invoke(main, ["evaluate", str(tmp_path / "run"), str(table)])
    assert done.exit_code == 0, done.output
    assert "accuracy" in done.output


def test_a_sum_keeps_the_first_mask_and_any_shape():
    ids = keras.Input((None,), dtype="int32")
    first, second = (keras.layers.Embedding(9, 8, mask_zero=True)(ids) for _ in range(2))
    model = keras.Model(ids, models.core.encoder_core.Sum()([first, second]))
    for shape in ((0, 0), (1, 0), (0, 3), (1, 1)):
        found = model(np.ones(shape, "int32"))
        assert found.shape == (*shape, 8)
        np.testing.assert_array_equal(found._keras_mask, np.ones(shape, bool))

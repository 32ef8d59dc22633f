"""Rows in batches: `tf.data`, generators and `keras.utils.PyDataset`, before and after the first fit."""

import gc
import weakref

import keras
import numpy as np
import pandas
import pytest
import tensorflow as tf

from keras_selfattn import models
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.batches.source_batches import SourceBatches
from keras_selfattn.models.batches.sources import BatchSource

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2}
TEXTS = ["good film", "a fine film indeed", "bad film", "poor"] * 4
LABELS = ["+", "+", "-", "-"] * 4
RANDOM = np.random.default_rng(0)
SERIES = RANDOM.normal(size=(16, 5, 3)).astype("float32")
IMAGES = RANDOM.integers(0, 255, size=(16, 8, 8)).astype("uint8")
TOKENS = [["a", "film"], ["the", "best", "film"]] * 8
TAGS = [["D", "N"], ["D", "A", "N"]] * 8

pytestmark = pytest.mark.usefixtures("eager_steps")
idle = pytest.mark.usefixtures("idle_steps")


def loaded(*columns):
    """A batch by PyTorch's default: a list of a tuple of texts, and a tensor or a tuple of targets."""
    torch = pytest.importorskip("torch")
    return torch.utils.data.DataLoader(list(zip(*columns, strict=True)), batch_size=4)


class Batches(keras.utils.PyDataset):
    """Batches of four rows; `read` lists the batches in the order that they were read in."""

    def __init__(self, *columns):
        super().__init__()
        self.columns, self.read, self.ends = columns, [], 0

    def __len__(self):
        return len(self.columns[0]) // 4

    def __getitem__(self, place):
        self.read.append(place)
        return tuple(column[4 * place : 4 * place + 4] for column in self.columns)

    def on_epoch_end(self):
        self.ends += 1


def generated(*columns):
    for start in range(0, len(columns[0]), 4):
        yield tuple(column[start : start + 4] for column in columns)


def dataset(*columns):
    return tf.data.Dataset.from_tensor_slices(columns).batch(4)


def text_model(**settings):
    model = models.TextClassifier(models.TextConfig(**SMALL, ngram_buckets=64), **settings)
    model.compile()
    return model


def of_kind(kind):
    """An untrained model, its rows and its targets."""
    if kind == "series":
        config = models.SeriesClassifierConfig(**SMALL, kernels=20)
        return models.SeriesClassifier(config), SERIES, np.array(LABELS)
    if kind == "images":
        return models.ImageClassifier(models.ImageConfig(**SMALL)), IMAGES, np.array(LABELS)
    if kind == "numbers":
        return models.SeriesRegressor(models.SeriesConfig(**SMALL)), SERIES, SERIES.sum((1, 2))
    return models.TextClassifier(models.TextConfig(**SMALL, ngram_buckets=64)), TEXTS, LABELS


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("text", dataset),
        ("text", generated),
        ("text", loaded),
        ("series", loaded),
        ("series", generated),
        ("images", Batches),
        ("numbers", dataset),
    ],
)
def test_a_source_of_raw_batches_teaches_what_the_rows_themselves_teach(kind, form):
    """The state that `fit` learns, and the metrics and answers of the trained model, are those of a list."""
    model, rows, targets = of_kind(kind)
    rows, targets = rows[:8], targets[:8]
    model.compile()
    history = model.fit(form(rows, targets), epochs=2, verbose=0, validation_data=form(rows, targets)).history
    assert [len(values) for values in history.values()] == [2] * 4
    by_list, *_ = of_kind(kind)
    by_list.adapt(rows, targets)
    learned = {name: value for name, value in by_list.get_config().items() if name != "name"}
    assert {name: value for name, value in model.get_config().items() if name != "name"} == learned
    np.testing.assert_allclose(
        model.evaluate(form(rows, targets), verbose=0), model.evaluate(rows, targets, verbose=0), rtol=1e-5
    )
    assert history["val_loss"][-1] == pytest.approx(model.evaluate(rows, targets, verbose=0)[0], rel=1e-4)
    np.testing.assert_allclose(model.predict(form(rows, targets), verbose=0), model.predict(rows, verbose=0))


def test_rows_alone_are_asked_in_any_source():
    model = text_model()
    model.adapt(TEXTS, LABELS)
    wanted = model.predict(TEXTS, verbose=0)
    for source in (
        dataset(TEXTS),
        (TEXTS[i : i + 4] for i in range(0, 16, 4)),
        tf.data.Dataset.from_tensor_slices(TEXTS).batch(3),
        dataset(TEXTS, [7] * 16),  # of no class: targets are ignored
    ):
        np.testing.assert_array_equal(model.predict(source, verbose=0), wanted)
    assert len(model.predict(dataset(TEXTS), steps=2, verbose=0)) == 8


@idle
def test_the_batches_of_a_step_are_those_of_the_source_in_a_new_order_each_epoch():
    model, source = text_model(), Batches(TEXTS, LABELS)
    sizes = []
    told = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: sizes.append(1))
    model.fit(source, epochs=3, verbose=0, callbacks=[told], seed=3)
    assert len(sizes) == 3 * 4
    # One pass to learn, after a look at the first batch; then one for each epoch.
    epochs = [source.read[-4 * n - 4 : len(source.read) - 4 * n] for n in (2, 1, 0)]
    assert all(sorted(epoch) == [0, 1, 2, 3] for epoch in epochs)
    assert len(set(map(tuple, epochs))) > 1
    assert source.ends >= 4


def test_steps_read_each_row_as_a_list_would_be_read():
    """Ids, one row at a time, with the wide path silent as in any training."""
    model = text_model()
    model.adapt(TEXTS, LABELS)
    source = BatchSource([(TEXTS[:4], [0, 1, 1, 0])].__iter__())
    ((ids, wide), targets), *others = SourceBatches(
        model._reader, model.head, source, None, shuffle=False, seed=0, epoch=0
    )
    assert others == []
    alone = {tuple(model._features([text])[0].tolist()) for text in TEXTS[:4]}
    assert {tuple(row[row > 0].tolist()) for row in ids} == alone
    assert not np.any(wide)
    # Integers are places of the classes, as in any data set of Keras; the rows are in the order of length.
    assert sorted(np.asarray(targets).tolist()) == [0, 0, 1, 1]


@idle
def test_integers_are_names_where_the_labels_are_integers():
    model = text_model()
    model.fit(dataset(TEXTS, [7, 7, 3, 3] * 4), verbose=0)
    assert model.labels == ["3", "7"]
    with pytest.raises(DataError, match="knows no label '0'"):
        model.fit(dataset(TEXTS, [0, 0, 1, 1] * 4), verbose=0)
    named = text_model()
    named.adapt(TEXTS, LABELS)
    with pytest.raises(DataError, match=r"Label 2 .* of a batch is 2. The model has classes 0 to 1: \+, -"):
        named.evaluate(dataset(TEXTS, [0, 0, 2, 1] * 4), verbose=0)


@pytest.mark.parametrize("kind", ["series", "images"])
@pytest.mark.parametrize("form", [dataset, None])
def test_validation_within_fit_reads_integer_names_as_evaluate_does(kind, form):
    """Rows of numbers are as raw as what the core reads: an index read as a name would be another class."""
    model, rows, _ = of_kind(kind)
    names = np.array([7, 1, 0, 7] * 4)
    model.compile(metrics=["accuracy"])
    validation = (rows, names) if form is None else form(rows, names)
    history = model.fit(rows, names, verbose=0, validation_data=validation).history
    expected = model.evaluate(rows, names, verbose=0, return_dict=True)
    assert history["val_loss"][-1] == pytest.approx(expected["loss"], rel=1e-4)
    assert history["val_accuracy"][-1] == pytest.approx(expected["accuracy"])


@idle
def test_padded_and_ragged_rows_of_tokens_are_the_same_rows():
    def fresh():
        model = models.TokenClassifier(models.TokenConfig(**SMALL, hash_buckets=64))
        model.compile()
        return model

    ragged = dataset(tf.ragged.constant(TOKENS), tf.ragged.constant(TAGS))
    padded = dataset(tf.ragged.constant(TOKENS).to_tensor(), tf.ragged.constant(TAGS).to_tensor())
    model = fresh()
    model.fit(ragged, verbose=0)
    other = fresh()
    other.fit(padded, verbose=0)
    assert model.labels == other.labels == ["A", "D", "N"]
    assert model.tokenizer.vocabulary == other.tokenizer.vocabulary
    places = dataset(tf.ragged.constant(TOKENS).to_tensor(), [[1, 2, 0], [1, 0, 2]] * 8)
    wanted = model.evaluate(TOKENS, TAGS, verbose=0)
    for source in (ragged, padded, places):
        np.testing.assert_allclose(model.evaluate(source, verbose=0), wanted, rtol=1e-5)
    assert model.label(padded) == model.label(TOKENS)


@idle
def test_weights_of_rows_and_classes_reach_the_steps():
    weights = np.array([1.0, 2.0, 3.0, 4.0] * 4, "float32")
    model = text_model()
    model.adapt(TEXTS, LABELS)
    seen = []
    batches = model.batches
    model.batches = lambda rows, *args, **kwargs: seen.append(rows) or batches(rows, *args, **kwargs)
    model.fit(dataset(TEXTS, LABELS, weights), class_weight={"+": 2.0, "-": 1.0}, verbose=0)
    for rows in seen[-4:]:
        assert rows.weights.tolist() == [2.0, 4.0, 3.0, 4.0]


@idle
def test_a_generator_without_end_needs_its_steps_and_gives_all_of_them():
    def endless():
        yield from iter(lambda: (TEXTS[:4], LABELS[:4]), None)

    model = text_model()
    steps = []
    told = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: steps.append(1))
    model.fit(endless(), steps_per_epoch=3, epochs=2, verbose=0, callbacks=[told])
    assert len(steps) == 6
    with pytest.raises(ConfigError, match="`x` has no end. Give `steps_per_epoch`"):
        text_model().fit(dataset(TEXTS, LABELS).repeat(), verbose=0)
    with pytest.raises(ConfigError, match="`validation_data` has no end"):
        text_model().fit(TEXTS, LABELS, validation_data=dataset(TEXTS, LABELS).repeat(), verbose=0)


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("call", ["fit", "predict", "evaluate"])
def test_a_generator_that_ends_at_once_is_an_error_before_anything_is_learned(trained, call):
    model = text_model()
    if trained:
        model.adapt(TEXTS, LABELS)
    with pytest.raises(DataError, match="`x` ended without a batch. .* make a new one"):
        getattr(model, call)(iter(()), verbose=0)
    with pytest.raises(DataError, match="`validation_data` ended without a batch"):
        model.fit(TEXTS, LABELS, validation_data=iter(()), verbose=0)
    assert model.labels == (["+", "-"] if trained else [])
    empty = tf.data.Dataset.from_tensor_slices((["a"], ["b"])).batch(2).take(0)
    with pytest.raises(DataError, match="`x` ended without a batch. Give at least one batch of rows"):
        model.fit(empty, verbose=0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"x": tf.data.Dataset.from_tensor_slices((TEXTS, LABELS))},
            r"`x` yields single rows, .*dataset.batch",
        ),
        ({"x": iter([(TEXTS[:4], LABELS[:4]), (TEXTS[:4],)])}, "1 of the 2 batches of `x` have targets"),
        ({"x": iter([(TEXTS, LABELS, None, None)])}, "Batch 0 .* Received a tuple of 4"),
        (
            {"x": iter([(TEXTS, LABELS)]), "y": LABELS},
            r"`y` is for rows in a list .* yield \(rows, targets\)",
        ),
        ({"x": iter([(TEXTS, LABELS)]), "validation_split": 0.1}, "`validation_split` is for rows in a list"),
        ({"x": iter([(TEXTS, None)])}, "Labels are needed with raw rows"),
    ],
)
def test_batches_that_cannot_be_read_are_refused(arguments, said):
    model = text_model()
    with pytest.raises((DataError, ConfigError), match=said):
        model.fit(**arguments, verbose=0)
    assert model.labels == []


def test_batches_of_the_cores_inputs_stay_those_of_keras():
    model = text_model()
    model.adapt(TEXTS, LABELS)
    ids, wide = np.full((8, 3), 2, "int32"), np.zeros((8, 2), "float32")
    wanted = keras.Model.evaluate(model, [ids, wide], np.array([0, 1] * 4), verbose=0)
    of_ids = tf.data.Dataset.from_tensor_slices(((ids, wide), [0, 1] * 4)).batch(4)
    np.testing.assert_allclose(model.evaluate(of_ids, verbose=0), wanted, rtol=1e-5)
    chunks = (((ids[i : i + 4], wide[i : i + 4]), np.array([0, 1] * 2)) for i in (0, 4))
    np.testing.assert_allclose(model.evaluate(chunks, steps=2, verbose=0), wanted, rtol=1e-5)


def test_a_corpus_in_batches_pretrains():
    model = models.MaskedTokenModel(models.TextConfig(**SMALL))
    model.compile()
    model.fit(dataset(TEXTS[:8]), epochs=2, verbose=0)
    assert len(model.guesses(["a [mask] film"], 2)[0][0]) == 2


def test_adapt_learns_from_a_source_too():
    model = text_model()
    model.adapt(generated(TEXTS, LABELS))
    assert model.labels == ["+", "-"]


def test_a_batch_may_weigh_nothing():
    weights = np.array([0.0] * 4 + [1.0] * 12, "float32")
    model = text_model()
    history = model.fit(generated(TEXTS, LABELS, weights), verbose=0, shuffle=False).history
    assert np.isfinite(history["loss"]).all()
    with pytest.raises(DataError, match="All rows weigh 0"):
        text_model().fit(generated(TEXTS, LABELS, np.zeros(16)), verbose=0)


@idle
@pytest.mark.parametrize("form", [dataset, generated, Batches])
def test_each_epoch_of_a_source_that_ends_has_its_steps(form):
    """With `steps_per_epoch` a source that has ended begins again, even between two epochs."""
    model = text_model()
    steps = []
    told = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: steps.append(0),
        on_train_batch_end=lambda batch, logs: steps.append(steps.pop() + 1),
    )
    model.fit(form(TEXTS, LABELS), steps_per_epoch=4, epochs=3, verbose=0, callbacks=[told])
    assert steps == [4, 4, 4]


@idle
def test_a_generator_that_ends_after_batches_that_were_not_kept_is_an_error():
    """Without it the batches of the first epoch alone would be repeated."""
    with pytest.raises(DataError, match="`x` has ended before `steps_per_epoch` times `epochs` batches"):
        text_model().fit(generated(TEXTS, LABELS), steps_per_epoch=3, epochs=2, verbose=0)


@idle
def test_tables_of_zeros_and_ones_name_the_classes_in_batches_too():
    table = pandas.DataFrame({"good": [1, 1, 0, 0] * 4, "bad": [0, 0, 1, 1] * 4})
    model = text_model(multi_label=False)
    model.fit(generated(TEXTS, table), verbose=0)
    assert model.labels == ["bad", "good"]
    wanted = model.evaluate(TEXTS, table, verbose=0)
    np.testing.assert_allclose(model.evaluate(generated(TEXTS, table), verbose=0), wanted, rtol=1e-5)
    others = iter([(TEXTS[:4], table[:4]), (TEXTS[4:8], table[["bad", "good"]][4:8])])
    with pytest.raises(DataError, match="tables of different columns"):
        text_model(multi_label=False).fit(others, verbose=0)


@pytest.mark.parametrize(
    ("second", "error", "said"),
    [
        (lambda: 1 / 0, ZeroDivisionError, "division"),
        (lambda: (TEXTS[:4], ["?"] * 4), DataError, r"knows no label '\?'"),
        (lambda: (TEXTS[:4], LABELS[:4], [1.0] * 4), DataError, "Some batches have weights"),
    ],
)
def test_an_error_of_a_later_batch_is_raised_as_it_is(second, error, said):
    """Not as one of TensorFlow's, in which the batches are read."""

    class Source(Batches):
        def __getitem__(self, place):
            return second() if place == 2 else super().__getitem__(place)

    model = text_model()
    model.adapt(TEXTS, LABELS)
    with pytest.raises(error, match=said):
        model.fit(Source(TEXTS, LABELS), verbose=0)


@idle
def test_the_rows_of_the_first_pass_are_not_held_while_the_model_trains():
    class Text(str):
        """A text whose references are counted."""

    class Source(Batches):
        def __getitem__(self, place):
            texts, labels = super().__getitem__(place)
            found = [Text(text) for text in texts]
            made.extend(map(weakref.ref, found))
            return found, labels

    made, alive = [], []
    model = text_model()

    def count(epoch, logs):
        gc.collect()
        alive.append(sum(each() is not None for each in made))

    told = keras.callbacks.LambdaCallback(on_epoch_begin=count)
    model.fit(Source(TEXTS, LABELS), verbose=0, callbacks=[told])
    # The first batch, a sample for Keras, and those that are about to be read.
    assert alive[0] <= 12 < len(made)

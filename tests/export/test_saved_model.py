"""Any Keras model with our layers: its inputs or a function of the user's, labels, numbers, signatures."""

from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
import tensorflow as tf
from film_model import load

from keras_selfattn import layers
from keras_selfattn.errors import ExportError
from keras_selfattn.export import export_saved_model, read_card

RANDOM = np.random.default_rng(0)


def series_model(units=3, activation="softmax", **encoder):
    values = keras.Input((None, 5), name="values")
    x = keras.layers.Masking()(values)
    x = keras.layers.Dense(8)(x)
    x = layers.Encoder(num_layers=2, num_heads=2, seed=0, **encoder)(x)
    x = layers.AveragePooling()(x)
    return keras.Model(values, keras.layers.Dense(units, activation=activation)(x), name="series")


def examples(arrays):
    rows = [
        tf.train.Example(
            features=tf.train.Features(
                feature={
                    "values": tf.train.Feature(
                        float_list=tf.train.FloatList(value=array.reshape(-1).tolist())
                    )
                }
            )
        )
        for array in arrays
    ]
    return tf.constant([row.SerializeToString() for row in rows])


@pytest.mark.process
def test_a_series_classifier_of_ones_own_has_every_signature(tmp_path):
    """With the check in a fresh process, as all tests here that do not ask for `unchecked`."""
    model = series_model()
    path = export_saved_model(model, tmp_path, labels=["calm", "up", "down"])
    signatures, _alive = load(path)
    assert set(signatures) == {"serving_default", "classify", "explain"}
    values = RANDOM.normal(size=(2, 7, 5)).astype("float32")
    values[1, 4:] = 0  # masked
    wanted = model(values).numpy()
    answer = signatures["serving_default"](values=tf.constant(values))
    np.testing.assert_allclose(answer["probabilities"], wanted, atol=1e-5)
    assert answer["label"].numpy().tolist() == [[b"calm", b"up", b"down"][i] for i in wanted.argmax(-1)]
    # Rows of unequal length, as flat lists of numbers.
    answer = signatures["classify"](inputs=examples([values[0], values[1, :4]]))
    np.testing.assert_allclose(answer["scores"], wanted, atol=1e-5)
    weights = signatures["explain"](values=tf.constant(values))["weights"]
    assert weights.shape == (2, 2, 2, 7, 7)
    np.testing.assert_allclose(np.sum(weights[1, :, :, :4], -1), 1, atol=1e-5)
    assert np.all(weights[1, :, :, :, 4:] == 0)
    card = read_card(path)
    assert (card["task"], card["labels"]) == ("classification", ["calm", "up", "down"])


@pytest.mark.process
def test_a_row_that_is_no_whole_number_of_positions_is_refused(tmp_path, unchecked):
    path = export_saved_model(series_model(), tmp_path, labels=["a", "b", "c"])
    signatures, _alive = load(path)
    with pytest.raises(tf.errors.InvalidArgumentError, match="values: not 5 numbers a position"):
        signatures["classify"](inputs=examples([np.zeros(5), np.zeros(7)]))


@pytest.mark.process
def test_one_number_can_be_asked_for_by_regress(tmp_path, unchecked):
    model = series_model(units=1, activation=None)
    signatures, _alive = load(export_saved_model(model, tmp_path))
    assert set(signatures) == {"serving_default", "regress", "explain"}
    values = RANDOM.normal(size=(3, 4, 5)).astype("float32")
    wanted = model(values).numpy()
    answer = signatures["serving_default"](values=tf.constant(values))
    np.testing.assert_allclose(answer["predictions"], wanted, atol=1e-5)
    answer = signatures["regress"](inputs=examples(values))
    np.testing.assert_allclose(answer["outputs"], wanted[:, 0], atol=1e-5)


@pytest.mark.process
def test_several_numbers_have_no_regress(tmp_path, unchecked):
    path = export_saved_model(series_model(units=4, activation=None), tmp_path)
    assert set(read_card(path)["signatures"]) == {"serving_default", "explain"}
    assert read_card(path)["task"] == "regression"


@pytest.mark.process
def test_two_labels_and_one_column_are_a_probability_and_its_complement(tmp_path, unchecked):
    model = series_model(units=1, activation="sigmoid")
    signatures, _alive = load(export_saved_model(model, tmp_path, labels=["no", "yes"]))
    values = RANDOM.normal(size=(3, 4, 5)).astype("float32")
    yes = model(values).numpy()[:, 0]
    answer = signatures["serving_default"](values=tf.constant(values))
    np.testing.assert_allclose(answer["probabilities"], np.stack([1 - yes, yes], -1), atol=1e-6)
    assert answer["label"].numpy().tolist() == [b"yes" if p > 0.5 else b"no" for p in yes]


@pytest.mark.process
def test_a_label_for_every_position_and_none_where_padding_is(tmp_path, unchecked):
    values = keras.Input((None, 5), name="values")
    x = layers.Encoder(num_layers=1, num_heads=1, seed=0)(keras.layers.Masking()(values))
    model = keras.Model(values, keras.layers.Dense(2, activation="softmax")(x))
    signatures, _alive = load(export_saved_model(model, tmp_path, labels=["in", "out"]))
    array = RANDOM.normal(size=(2, 3, 5)).astype("float32")
    array[1, 1:] = 0
    answer = signatures["serving_default"](values=tf.constant(array))
    wanted = model(array).numpy()
    names = np.array([b"in", b"out"], dtype=object)[wanted.argmax(-1)]
    names[1, 1:] = b""
    assert answer["label"].numpy().tolist() == names.tolist()
    np.testing.assert_allclose(answer["probabilities"][0], wanted[0], atol=1e-5)
    assert np.all(answer["score"][1, 1:] == 0)
    assert read_card(tmp_path / "1")["task"] == "labelling"


def text_to_ids_model():
    ids = keras.Input((None,), dtype="int64", name="ids")
    x = keras.layers.Embedding(30, 8, mask_zero=True)(ids)
    x = layers.AveragePooling()(layers.MultiHeadSelfAttention(2, seed=0)(x))
    return keras.Model(ids, keras.layers.Dense(2, activation="softmax")(x))


@pytest.mark.process
def test_a_text_vectorization_layer_brings_its_table_along(tmp_path, unchecked):
    vectorize = keras.layers.TextVectorization(max_tokens=30)
    vectorize.adapt(["good film", "bad film", "a bore"])
    model = text_to_ids_model()
    path = export_saved_model(model, tmp_path, preprocess=vectorize, labels=["-", "+"])
    signatures, _alive = load(path)
    texts = tf.constant(["good film", "a bad bad bore", ""])
    wanted = model(vectorize(texts)).numpy()
    answer = signatures["serving_default"](text=texts)
    np.testing.assert_allclose(answer["probabilities"], wanted, atol=1e-5)


@pytest.mark.process
def test_a_module_brings_what_it_holds_and_a_bare_function_with_a_table_is_refused(tmp_path, unchecked):
    class Lookup(tf.Module):
        def __init__(self):
            super().__init__()
            keys, values = tf.constant(["good", "bad"]), tf.constant([1, 2], tf.int64)
            self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), 0)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="sentence")])
        def __call__(self, sentence):
            return self.table.lookup(tf.strings.split(sentence)).to_tensor()

    lookup, model = Lookup(), text_to_ids_model()
    path = export_saved_model(model, tmp_path / "module", preprocess=lookup, labels=["-", "+"])
    signatures, _alive = load(path)
    sentences = tf.constant(["good bad", "bad"])
    answer = signatures["serving_default"](sentence=sentences)
    np.testing.assert_allclose(answer["probabilities"], model(lookup(sentences)), atol=1e-6)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="sentence")])
    def bare(sentence):
        return lookup.table.lookup(tf.strings.split(sentence)).to_tensor()

    with pytest.raises(ExportError, match="give a tf.Module that holds it as an attribute"):
        export_saved_model(model, tmp_path / "bare", preprocess=bare, labels=["-", "+"])
    assert list((tmp_path / "bare").iterdir()) == []


@pytest.mark.process
def test_a_function_from_bytes_takes_real_samples(tmp_path):
    """An image as a sequence of its rows, decoded in the graph."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="png")])
    def decode(png):
        def one(data):
            return tf.ensure_shape(tf.io.decode_png(data, channels=1), [4, 6, 1])

        images = tf.map_fn(one, png, fn_output_signature=tf.TensorSpec([4, 6, 1], tf.uint8))
        return tf.cast(images[..., 0], tf.float32) / 255.0

    rows = keras.Input((4, 6), name="rows")
    x = layers.MaxPooling()(layers.MultiHeadSelfAttention(2, seed=0)(rows))
    model = keras.Model(rows, keras.layers.Dense(2, activation="softmax")(x))
    images = RANDOM.integers(0, 255, size=(3, 4, 6, 1)).astype("uint8")
    png = [tf.io.encode_png(image).numpy() for image in images]
    with pytest.raises(
        ExportError, match="with png .1. .unless `samples` are given, it is made up.: Unknown image"
    ):
        export_saved_model(model, tmp_path, preprocess=decode, labels=["a", "b"])
    path = export_saved_model(model, tmp_path, preprocess=decode, labels=["a", "b"], samples={"png": png})
    signatures, _alive = load(path)
    answer = signatures["serving_default"](png=tf.constant(png))
    np.testing.assert_allclose(answer["probabilities"], model(images[..., 0] / 255.0), atol=1e-5)
    assert list(read_card(path)["signatures"]["serving_default"]["example"]["request"]["png"][0]) == ["b64"]


@pytest.mark.process
def test_several_inputs_and_outputs_keep_their_names(tmp_path, unchecked):
    values, lengths = keras.Input((None, 5), name="values"), keras.Input((), dtype="int32", name="lengths")
    x = layers.MultiHeadSelfAttention(1, seed=0)(values, valid_lens=lengths)
    pooled = layers.AveragePooling()(x, valid_lens=lengths)
    outputs = {"level": keras.layers.Dense(1)(pooled), "trend": keras.layers.Dense(2)(pooled)}
    model = keras.Model({"values": values, "lengths": lengths}, outputs)
    signatures, _alive = load(export_saved_model(model, tmp_path))
    array = RANDOM.normal(size=(2, 3, 5)).astype("float32")
    answer = signatures["serving_default"](values=tf.constant(array), lengths=tf.constant([3, 1]))
    wanted = model({"values": array, "lengths": np.array([3, 1])})
    for name in ("level", "trend"):
        np.testing.assert_allclose(answer[name], wanted[name], atol=1e-5)


@pytest.mark.process
def test_signatures_of_ones_own_are_saved_and_described(tmp_path, unchecked):
    model = series_model()

    @tf.function(input_signature=[tf.TensorSpec([None, None, 5], tf.float32, name="values")])
    def surest(values):
        return {"probability": tf.reduce_max(model(values, training=False), axis=-1)}

    path = export_saved_model(model, tmp_path, labels=["a", "b", "c"], signatures={"surest": surest})
    signatures, _alive = load(path)
    values = RANDOM.normal(size=(2, 3, 5)).astype("float32")
    answer = signatures["surest"](values=tf.constant(values))
    np.testing.assert_allclose(answer["probability"], model(values).numpy().max(-1), atol=1e-5)
    assert read_card(path)["signatures"]["surest"]["outputs"] == {
        "probability": {"dtype": "float32", "shape": [None]}
    }


@pytest.mark.process
def test_a_subclassed_model_is_exported_through_preprocess(tmp_path, unchecked):
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.attention = layers.MultiHeadSelfAttention(1, seed=0)
            self.head = keras.layers.Dense(2, activation="softmax")

        def call(self, inputs):
            return self.head(keras.ops.mean(self.attention(inputs), axis=1))

    @tf.function(input_signature=[tf.TensorSpec([None, None, 3], tf.float32, name="values")])
    def as_is(values):
        return values

    model = Own()
    with pytest.raises(ExportError, match="has no weights yet"):
        export_saved_model(model, tmp_path, preprocess=as_is, labels=["a", "b"])
    model(np.zeros((1, 2, 3)))
    with pytest.raises(ExportError, match="inputs are unknown. Build it as a functional"):
        export_saved_model(model, tmp_path, labels=["a", "b"])
    signatures, _alive = load(export_saved_model(model, tmp_path, preprocess=as_is, labels=["a", "b"]))
    assert signatures["serving_default"](values=tf.zeros([2, 3, 3]))["probabilities"].shape == (2, 2)
    assert signatures["explain"](values=tf.zeros([2, 3, 3]))["weights"].shape == (2, 1, 1, 3, 3)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"labels": ["a", "b"]}, "The model has 3 classes. Received 2 `labels`"),
        ({"labels": "abc"}, "`labels` must be a list of str"),
        ({"labels": ["a", "a", "b"]}, "`labels` must differ"),
        ({"samples": {"x": [1.0]}}, "must hold the inputs values. Received x"),
        ({"samples": {"values": np.zeros((0, 2, 5))}}, "the same number of rows"),
        ({"signatures": {"own": len}}, "'own' must be a tf.function with an input signature"),
        ({"precision": "int4"}, "`precision` must be one of float32, bfloat16"),
        ({"max_accuracy_drop": 0.1}, "`max_accuracy_drop` needs `evaluation`"),
        ({"max_accuracy_drop": 1.5}, "must be a share from 0 to 1"),
        ({"keep": 0}, "`keep` must be a positive integer"),
    ],
)
def test_what_does_not_fit_is_named_before_anything_is_written(tmp_path, options, reason):
    with pytest.raises(ExportError, match=reason):
        export_saved_model(series_model(), tmp_path / "base", **options)
    assert not (tmp_path / "base").exists()


def test_logits_are_not_taken_for_probabilities(tmp_path):
    with pytest.raises(ExportError, match=r'must return probabilities.* activation="softmax"'):
        export_saved_model(series_model(activation=None), tmp_path / "base", labels=["a", "b", "c"])
    assert not (tmp_path / "base").exists()


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(ExportError, match="must be a Keras model. Received Dense"):
        export_saved_model(keras.layers.Dense(3), tmp_path)


@pytest.mark.slow
def test_a_model_built_by_training_takes_any_number_of_rows(tmp_path, unchecked):
    """Keras writes the first batch's size into such a model's inputs."""
    model = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(np.ones((32, 4)), np.ones((32, 1)), verbose=0)
    card = read_card(export_saved_model(model, tmp_path))
    (spec,) = card["signatures"]["serving_default"]["inputs"].values()
    assert spec["shape"] == [None, 4]


def test_outputs_of_one_name_are_all_kept_and_inputs_of_one_name_refused(tmp_path, unchecked):
    v, u = keras.Input((3,), name="v"), keras.Input((3,), name="u")
    twice = keras.layers.Dense(2, name="d")
    signatures, _alive = load(export_saved_model(keras.Model([v, u], [twice(v), twice(u)]), tmp_path / "o"))
    answer = signatures["serving_default"](v=tf.ones([1, 3]), u=tf.zeros([1, 3]))
    np.testing.assert_allclose(answer["d"], twice(np.ones((1, 3))), atol=1e-6)
    np.testing.assert_allclose(answer["d_1"], [[0, 0]], atol=1e-6)
    same = keras.Input((3,), name="a-b"), keras.Input((3,), name="a_b")
    with pytest.raises(ExportError, match="need names that differ. They are a_b, a_b"):
        export_saved_model(keras.Model(same, keras.layers.Add()(same)), tmp_path / "i")


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_regress_answers_in_the_type_that_its_call_wants(tmp_path, unchecked, dtype):
    values = keras.Input((4,), name="values")
    total = keras.ops.sum(values, axis=-1)
    model = keras.Model(values, keras.ops.cast(total, dtype))
    card = read_card(export_saved_model(model, tmp_path))
    assert card["signatures"]["regress"]["outputs"]["outputs"] == {"dtype": "float32", "shape": [None]}
    assert card["signatures"]["serving_default"]["outputs"]["predictions"]["dtype"] == dtype


def test_a_number_for_each_position_is_not_one_for_a_row(tmp_path, unchecked):
    values = keras.Input((None, 5), name="values")
    model = keras.Model(values, keras.layers.Dense(1)(values))
    path = export_saved_model(model, tmp_path, samples={"values": np.ones((2, 1, 5))})
    assert set(read_card(path)["signatures"]) == {"serving_default"}


def test_a_request_that_the_model_fails_on_is_no_warmup(tmp_path, unchecked):
    """One that fails would keep TensorFlow Serving from serving the version."""
    from keras_selfattn.export import inspect_saved_model

    class First(keras.layers.Layer):
        def call(self, inputs):
            return inputs - tf.reshape(inputs, [-1])[0]  # which a batch of no rows has not

    model = keras.Sequential([keras.Input((4,), name="x"), First(), keras.layers.Dense(2)])
    path = export_saved_model(model, tmp_path)
    assert inspect_saved_model(path).warmup_requests == 3 + 3 + 8  # each row of two of them by itself, too


def test_samples_serve_signatures_of_ones_own_too_and_what_they_return_is_checked(tmp_path, unchecked):
    model = keras.Sequential([keras.Input((3,), name="x"), keras.layers.Dense(2)])
    spec = tf.TensorSpec([None], tf.string, name="encoded")

    @tf.function(input_signature=[spec])
    def decoded(encoded):
        return {"y": tf.strings.length(tf.io.decode_base64(encoded))}

    samples = {"x": np.ones((2, 3)), "encoded": [b"aGVsbG8", b"aGk"]}
    path = export_saved_model(model, tmp_path, signatures={"decoded": decoded}, samples=samples)
    card = read_card(path)
    assert card["signatures"]["decoded"]["example"]["answer"] == {"y": [5]}
    assert not any(signature["example"]["made_up"] for signature in card["signatures"].values())
    for outputs in (lambda x: x, lambda x: {"y": tf.strings.split(x)}):
        function = tf.function(outputs, input_signature=[spec])
        with pytest.raises(ExportError, match="'own' must return a dict of tensors by name"):
            export_saved_model(model, tmp_path, signatures={"own": function})


@pytest.mark.slow
def test_two_exports_in_threads_leave_eager_mode_as_it_was(tmp_path, unchecked):
    models = [keras.Sequential([keras.Input((3,), name="x"), keras.layers.Dense(2)]) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda model: export_saved_model(model, tmp_path), models))
    assert sorted(path.name for path in paths) == ["1", "2", "3", "4"]
    assert not tf.config.functions_run_eagerly()

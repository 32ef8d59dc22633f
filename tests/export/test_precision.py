"""Narrower weights: what lies in the file, what is computed with it, and what the comparison says."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from film_model import make_model
from pretrained_folders import BERT, write_folder
from tensorflow.core.protobuf import saved_model_pb2

from keras_selfattn import layers, models
from keras_selfattn.errors import ExportError
from keras_selfattn.export import export_saved_model, inspect_saved_model, read_card
from keras_selfattn.export.precision import at_precision, computes_in_half

TEXTS = ["good film", "bad film", "a", "", "never seen"] * 8
VALUES = np.random.default_rng(0).normal(size=(6, 4, 16)).astype("float32")


def wide_model():
    """With kernels above the least size that is narrowed, of 1,024 numbers."""
    values = keras.Input((None, 16), name="values")
    x = layers.Encoder(num_layers=1, num_heads=2, feed_forward_dim=128, seed=0)(values)
    x = layers.AveragePooling()(x)
    model = keras.Model(values, keras.layers.Dense(3, activation="softmax", name="head")(x))
    random = np.random.default_rng(1)
    model.set_weights([random.normal(size=w.shape) * 0.3 for w in model.weights])
    return model


def answers(path, **inputs):
    loaded = tf.saved_model.load(str(path))
    call = loaded.signatures["serving_default"]
    return {name: value.numpy() for name, value in call(**inputs).items()}


def dtypes(path):
    """The count of numbers of each type in the checkpoint."""
    counts = {}
    for tensor in inspect_saved_model(path).variables.values():
        counts[tensor.dtype] = counts.get(tensor.dtype, 0) + int(np.prod(tensor.shape))
    return counts


def rounded_to_int8(weight, axis):
    """One scale for each place along an axis, written with loops."""
    moved = np.moveaxis(np.asarray(weight, "float64"), axis, 0)
    found = np.empty_like(moved)
    for place, values in enumerate(moved):
        scale = np.abs(values).max() / 127
        found[place] = np.round(values / scale) * scale if scale else 0
    return np.moveaxis(found, 0, axis)


def with_weights(model, change):
    copy = wide_model()
    copy.set_weights([change(w) if w.ndim > 1 and w.size >= 1024 else w for w in model.get_weights()])
    return copy


def nearest_int8(weight):
    rounded = [rounded_to_int8(weight, axis) for axis in (0, -1)]
    return min(rounded, key=lambda each: ((each - weight) ** 2).sum())


@pytest.mark.process
@pytest.mark.parametrize(
    ("precision", "change", "dtype"),
    [
        ("float16-weights", lambda w: w.astype("float16").astype("float32"), "float16"),
        ("int8-weights", nearest_int8, "int8"),
    ],
)
def test_narrow_weights_are_stored_and_widened_when_loaded(tmp_path, precision, change, dtype):
    """Checked in a fresh process, as ever."""
    model = wide_model()
    path = export_saved_model(model, tmp_path, precision=precision, labels=["a", "b", "c"])
    large = sum(w.size for w in model.get_weights() if w.ndim > 1 and w.size >= 1024)
    assert dtypes(path)[dtype] == large
    assert "float32" in dtypes(path), "what is small stays"
    wanted = with_weights(model, change)(VALUES).numpy()
    found = answers(path, values=tf.constant(VALUES))["probabilities"]
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert np.abs(wanted - model(VALUES).numpy()).max() > 1e-5, "the model itself answers otherwise"
    assert read_card(path)["precision"] == precision


@pytest.mark.process
@pytest.mark.parametrize(
    ("precision", "change"),
    [
        ("float16-weights", lambda w: w.astype("float16").astype("float32")),
        ("int8-weights", nearest_int8),
    ],
)
def test_a_table_of_tokens_is_held_in_the_narrow_type_alone(tmp_path, unchecked, precision, change):
    """Its vectors are widened as they are looked up; the other weights once, when the server loads them."""
    sizes = {"vocab_size": 400, "hidden_size": 40, "intermediate_size": 64}
    model = models.TextEncoder(start=write_folder(tmp_path / "m", {**BERT, **sizes}))
    path = export_saved_model(model, tmp_path / "served", precision=precision)
    copy = models.TextEncoder(start=tmp_path / "m")
    copy.set_weights([change(w) if w.ndim > 1 and w.size >= 1024 else w for w in model.get_weights()])
    texts = ["a good film .", "bad", "", "the films badly"]
    wanted = copy.predict(texts, verbose=0)
    found = answers(path, text=tf.constant(texts))
    np.testing.assert_allclose(next(iter(found.values())), wanted, atol=1e-5)
    assert np.abs(wanted - model.predict(texts, verbose=0)).max() > 1e-6, "the model itself answers otherwise"
    assert [400, 40] not in widened_shapes(path)
    assert [40, 64] in widened_shapes(path), "the large kernels of the blocks are widened"


def widened_shapes(path):
    """The shapes of the variables that a server makes beside those of the checkpoint."""
    graph = (
        saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes()).meta_graphs[0].graph_def
    )
    nodes = [node for function in graph.library.function for node in function.node_def]
    return [
        [size.size for size in node.attr["shape"].shape.dim] for node in nodes if node.op == "VarHandleOp"
    ]


def test_the_size_of_weights_is_four_bytes_a_number():
    from keras_selfattn.export.saved_weights import Weights

    model = wide_model()
    assert Weights(model).size == 4 * model.count_params()


@pytest.mark.process
def test_bfloat16_is_stored_and_computed_but_for_what_the_model_returns(tmp_path, unchecked):
    model = wide_model()
    path = export_saved_model(model, tmp_path, precision="bfloat16", labels=["a", "b", "c"])
    head = sum(w.size for w in model.get_layer("head").get_weights())
    whole = sum(w.size for w in model.get_weights())
    assert dtypes(path) == {"bfloat16": whole - head, "float32": head}
    found = answers(path, values=tf.constant(VALUES))["probabilities"]
    np.testing.assert_allclose(found, model(VALUES).numpy(), atol=0.03)
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-6)
    assert not computes_in_half(model), "the model given stays as it is"


@pytest.mark.process
def test_a_text_classifier_is_written_in_bfloat16(tmp_path, unchecked):
    model = make_model()
    path = export_saved_model(model, tmp_path, precision="bfloat16")
    found = answers(path, text=tf.constant(TEXTS))["probabilities"]
    np.testing.assert_allclose(found, model.predict(TEXTS, verbose=0), atol=0.03)
    assert dtypes(path)["bfloat16"] > 10 * dtypes(path)["float32"]


@pytest.mark.process
def test_a_model_in_half_precision_can_be_served_as_it_is_or_in_float32(tmp_path, unchecked):
    half = make_model(dtype="mixed_float16")
    wide = make_model()
    texts = tf.constant(TEXTS)
    as_is = answers(export_saved_model(half, tmp_path), text=texts)["probabilities"]
    np.testing.assert_allclose(as_is, half(texts), atol=1e-2)
    recast = answers(export_saved_model(half, tmp_path, precision="float32"), text=texts)["probabilities"]
    np.testing.assert_allclose(recast, wide(texts), atol=1e-6)
    narrow, _ = at_precision(half, "int8-weights")
    assert not computes_in_half(narrow)


@pytest.mark.process
def test_model_and_export_are_compared_on_rows_given(tmp_path, unchecked):
    model = make_model()
    labels = [model.labels[i] for i in model.predict(TEXTS, verbose=0).argmax(-1)]
    seen = []
    path = export_saved_model(
        model,
        tmp_path,
        precision="int8-weights",
        evaluation=(TEXTS, labels),
        max_accuracy_drop=1.0,
        report=seen.append,
    )
    (comparison,) = seen
    assert comparison.rows == len(TEXTS)
    assert comparison.before.accuracy == 1.0
    assert comparison.before.precision == "as it is"
    assert comparison.after.precision == "int8-weights"
    assert comparison.accuracy_drop == comparison.changed / len(TEXTS)
    # 64 rows of 12 n-gram numbers are below the least size; the core's variables tell.
    assert comparison.before.weight_bytes == sum(4 * w.size for w in model.core.get_weights())
    assert comparison.before.row_ms > 0 < comparison.after.batch_ms
    assert read_card(path)["comparison"] == comparison.to_dict()


@pytest.mark.process
def test_rows_of_labels_that_the_model_does_not_know_make_no_fall_look_smaller(tmp_path, unchecked):
    model = make_model()
    labels = [model.labels[i] for i in model.predict(TEXTS, verbose=0).argmax(-1)]
    seen = []
    with pytest.warns(UserWarning, match=f"1 of {len(TEXTS) + 1} rows .* such as 'never'. They are left out"):
        export_saved_model(
            model, tmp_path, evaluation=(["of another kind", *TEXTS], ["never", *labels]), report=seen.append
        )
    assert (seen[0].rows, seen[0].before.accuracy) == (len(TEXTS), 1.0)


@pytest.mark.slow
def test_an_export_that_answers_worse_than_allowed_is_refused(tmp_path, monkeypatch):
    from keras_selfattn.export import saved_weights

    # One level on either side of 0 leaves little of a model.
    monkeypatch.setattr(saved_weights, "_LEVELS", 1)
    monkeypatch.setattr(saved_weights, "_LEAST_NARROWED", 1)
    model = wide_model()
    names = ["a", "b", "c"]
    values = 3 * np.random.default_rng(5).normal(size=(200, 1, 16)).astype("float32")
    labels = [names[i] for i in model(values).numpy().argmax(-1)]
    with pytest.raises(ExportError, match=r"accuracy falls by .* from 100.00% to .* at most 1.00% was"):
        export_saved_model(
            model,
            tmp_path / "base",
            precision="int8-weights",
            labels=names,
            evaluation=({"values": values}, labels),
            max_accuracy_drop=0.01,
        )
    assert not (tmp_path / "base").exists()


@pytest.mark.parametrize(
    ("evaluation", "reason"),
    [
        ((TEXTS, ["+"]), "as many labels as rows"),
        (([], []), "at least one"),
        ((["good"], ["never"]), "no label that the model knows, but 'never'"),
    ],
)
def test_rows_that_cannot_be_compared_are_named(tmp_path, evaluation, reason):
    with pytest.raises(ExportError, match=reason):
        export_saved_model(make_model(), tmp_path / "base", evaluation=evaluation)


def test_a_model_whose_config_does_not_make_it_again_is_refused(tmp_path):
    @keras.saving.register_keras_serializable("test")
    class Own(keras.layers.Layer):
        def __init__(self, needed, **options):
            super().__init__(**options)
            self.needed = needed

        def call(self, inputs):
            return inputs

    values = keras.Input((16,), name="values")
    model = keras.Model(values, keras.layers.Dense(2)(Own(object())(values)))
    with pytest.raises(ExportError, match="cannot be made again in bfloat16 from its config"):
        export_saved_model(model, tmp_path / "base", precision="bfloat16")


def test_extra_signatures_and_another_precision_exclude_each_other(tmp_path):
    model = wide_model()

    @tf.function(input_signature=[tf.TensorSpec([None, None, 16], tf.float32, name="values")])
    def own(values):
        return {"y": model(values)}

    with pytest.raises(ExportError, match="`signatures` use the model's own weights"):
        export_saved_model(model, tmp_path / "base", precision="bfloat16", signatures={"own": own})


def normalized_model():
    """With state that is no weight: means, variances and a vocabulary."""
    normalize = keras.layers.Normalization()
    normalize.adapt(np.array([[100.0, -3.0], [300.0, 5.0]]))
    values, word = keras.Input((2,), name="values"), keras.Input((1,), dtype="string", name="word")
    lookup = keras.layers.StringLookup(vocabulary=["good", "bad"], output_mode="one_hot")
    x = keras.layers.Concatenate()([normalize(values), lookup(word)])
    model = keras.Model(
        [values, word], keras.layers.Dense(2, activation="softmax")(keras.layers.Dense(64)(x))
    )
    model.compile("adam", loss=lambda true, predicted: true)  # which no file can bring back
    return model


@pytest.mark.parametrize("precision", [None, "float32", "bfloat16", "int8-weights"])
def test_state_that_is_no_weight_comes_along(tmp_path, unchecked, precision):
    model = normalized_model()
    path = export_saved_model(model, tmp_path, precision=precision, labels=["low", "high"])
    inputs = {"values": tf.constant([[150.0, 1.0], [250.0, 2.0]]), "word": tf.constant([["good"], ["odd"]])}
    found = answers(path, **inputs)["probabilities"]
    tolerance = 0.03 if precision in ("bfloat16", "int8-weights") else 1e-6
    np.testing.assert_allclose(found, model([inputs["values"], inputs["word"]]), atol=tolerance)


@pytest.mark.process
def test_the_last_layer_of_a_model_within_a_model_keeps_float32_alone(tmp_path, unchecked):
    inner = wide_model()
    outer = keras.Sequential([keras.Input((None, 16), name="values"), inner])
    path = export_saved_model(outer, tmp_path, precision="bfloat16", labels=["a", "b", "c"])
    head = sum(w.size for w in inner.get_layer("head").get_weights())
    assert dtypes(path)["float32"] == head
    assert dtypes(path)["bfloat16"] > head


@pytest.mark.process
def test_deep_models_in_bfloat16_pass_their_check(tmp_path):
    values = keras.Input((None, 16), name="values")
    x = layers.Encoder(num_layers=4, num_heads=2, seed=0)(values)
    model = keras.Model(values, keras.layers.Dense(1)(layers.AveragePooling()(x)))
    assert export_saved_model(model, tmp_path, precision="bfloat16").name == "1"

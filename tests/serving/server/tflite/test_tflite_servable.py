import logging
import re
import threading
import warnings
from concurrent import futures

import grpc
import numpy as np
import pytest
import tensorflow as tf
from flatbuffers import Builder, flexbuffers
from serving_models import HalfPlusTwo, save
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow.lite.python import schema_py_generated as schema

from keras_selfattn.serving import errors
from keras_selfattn.serving.client import Client
from keras_selfattn.serving.server import Server, ServerConfig
from keras_selfattn.serving.server.api.input_shapes import InputShapes
from keras_selfattn.serving.server.tflite.tflite_servable import TfliteServable, has_tflite
from keras_selfattn.serving.wire import codec
from keras_selfattn.serving.wire import messages_pb2 as pb

FLOAT = tf.float32


def converted(path, *signatures):
    """The bytes of a TFLite file, converted from (name, function, input name to TensorSpec)."""
    module = tf.Module()
    module.functions = {
        name: tf.function(function).get_concrete_function(
            **{key: tf.TensorSpec(spec.shape, spec.dtype, name=key) for key, spec in inputs.items()}
        )
        for name, function, inputs in signatures
    }
    tf.saved_model.save(module, str(path), signatures=dict(module.functions))
    keys = [name for name, _, _ in signatures]
    return tf.lite.TFLiteConverter.from_saved_model(str(path), signature_keys=keys).convert()


def edited(data, change):
    """A TFLite file after `change` was applied to its object form."""
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    change(model)
    builder = Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def without_signatures(model, rename=lambda name: name):
    model.signatureDefs = []
    for tensor in model.subgraphs[0].tensors:
        tensor.name = rename(tensor.name)


def with_metadata(model, entries):
    """Write metadata like set_signature_defs of TensorFlow Lite's tools, which TensorFlow's wheel lacks."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for key, value in entries.items():
            builder.Key(key)
            # Builder.String takes no bytes, which is what a serialised message is.
            builder._WriteBlob(value, append_zero=True, type_=flexbuffers.Type.STRING)
    buffer, metadata = schema.BufferT(), schema.MetadataT()
    buffer.data = np.frombuffer(bytes(builder.Finish()), np.uint8)
    metadata.name, metadata.buffer = b"signature_defs_metadata", len(model.buffers)
    model.buffers.append(buffer)
    model.metadata = [*(model.metadata or []), metadata]


def stock_signature(inputs, outputs, method="tensorflow/serving/predict"):
    """A SignatureDef in the bytes of TensorFlow's own message."""
    signature = meta_graph_pb2.SignatureDef(method_name=method)
    for infos, names in ((signature.inputs, inputs), (signature.outputs, outputs)):
        for alias, name in names.items():
            infos[alias].name = name
            infos[alias].dtype = tf.float32.as_datatype_enum
            # An empty shape makes a zero byte, at which TensorFlow's own reader stops.
            infos[alias].tensor_shape.SetInParent()
    return signature.SerializeToString()


def half(x):
    return {"y": 0.5 * x + 2.0}


def product(left, right):
    return {"product": tf.matmul(left, right), "left": left}


HALF = ("serving_default", half, {"x": tf.TensorSpec([None], FLOAT)})
PRODUCT = (
    "product",
    product,
    {"left": tf.TensorSpec([None, 3], FLOAT), "right": tf.TensorSpec([3, None], FLOAT)},
)


@pytest.fixture(scope="module")
def half_data(tmp_path_factory):
    return converted(tmp_path_factory.mktemp("half"), HALF)


@pytest.fixture(scope="module")
def text_data(tmp_path_factory):
    def text(text, shape, one):
        return {"text": tf.reshape(text, shape), "one": tf.reshape(one, [1])}

    inputs = {
        "text": tf.TensorSpec([None], tf.string),
        "shape": tf.TensorSpec([2], tf.int32),
        "one": tf.TensorSpec([], tf.string),
    }
    return converted(tmp_path_factory.mktemp("text"), ("serving_default", text, inputs))


@pytest.fixture(scope="module")
def several_data(tmp_path_factory):
    third = ("third", lambda x: {"y": 3.0 * x}, {"x": tf.TensorSpec([None], FLOAT)})
    return converted(tmp_path_factory.mktemp("several"), HALF, PRODUCT, third)


@pytest.fixture
def load(tmp_path):
    loaded = []

    def write_and_load(data, **kwargs):
        folder = tmp_path / "model" / "7"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.tflite").write_bytes(data)
        loaded.append(TfliteServable("model", 7, folder, threads=1, **kwargs))
        return loaded[-1]

    yield write_and_load
    for servable in loaded:
        servable.close()


def call(servable, name, outputs=None, **inputs):
    """The outputs of a signature by their aliases."""
    signature = servable.signatures[name]
    aliases = outputs or sorted(signature.outputs)
    feeds = {signature.inputs[alias].name: array for alias, array in inputs.items()}
    arrays = servable.run(feeds, [signature.outputs[alias].name for alias in aliases], timeout=30)
    return dict(zip(aliases, arrays, strict=True))


def strings(*values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def floats(*shape):
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def test_a_folder_has_tflite_where_model_tflite_is_a_file(tmp_path):
    assert not has_tflite(tmp_path)
    (tmp_path / "model.tflite").mkdir()
    assert not has_tflite(tmp_path)
    (tmp_path / "model.tflite").rmdir()
    (tmp_path / "model.tflite").touch()
    assert has_tflite(tmp_path)


@pytest.mark.slow
def test_the_answers_are_those_of_the_function_for_any_batch(load, half_data):
    servable = load(half_data)
    for size in (3, 1, 5, 5, 0, 3):
        x = floats(size)
        np.testing.assert_array_equal(call(servable, "serving_default", x=x)["y"], half(x)["y"])


def test_the_signature_is_the_one_that_the_converter_wrote(load, half_data):
    servable = load(half_data)
    [(name, signature)] = servable.signatures.items()
    assert (name, signature.method_name) == ("serving_default", "tensorflow/serving/predict")
    info = signature.inputs["x"]
    assert (info.name, info.dtype, [dim.size for dim in info.tensor_shape.dim]) == (
        "serving_default_x:0",
        pb.DT_FLOAT,
        [-1],
    )
    assert set(signature.outputs) == {"y"}


@pytest.mark.slow
def test_each_of_several_signatures_runs_its_own_subgraph(load, several_data):
    servable = load(several_data)
    assert set(servable.signatures) == {"serving_default", "product", "third"}
    left, right = floats(2, 3), floats(3, 5)
    for _ in range(2):
        x = floats(7)
        np.testing.assert_array_equal(call(servable, "serving_default", x=x)["y"], half(x)["y"])
        np.testing.assert_array_equal(call(servable, "third", x=x)["y"], 3 * x)
        answer = call(servable, "product", left=left, right=right)
        np.testing.assert_array_equal(answer["product"], left @ right)
        np.testing.assert_array_equal(answer["left"], left)


def test_subgraphs_whose_tensors_have_the_same_names_are_told_apart(load, several_data):
    def rename(model):
        for graph in model.subgraphs:
            for index in (*graph.inputs, *graph.outputs):
                graph.tensors[index].name = b"tensor%d" % index

    servable = load(edited(several_data, rename))
    x = floats(5)
    np.testing.assert_array_equal(call(servable, "serving_default", x=x)["y"], half(x)["y"])
    np.testing.assert_array_equal(call(servable, "third", x=x)["y"], 3 * x)


def test_inputs_and_outputs_of_different_signatures_do_not_run_together(load, several_data):
    servable = load(several_data)
    x = servable.signatures["third"].inputs["x"].name
    y = servable.signatures["serving_default"].outputs["y"].name
    with pytest.raises(errors.InvalidArgumentError, match="must belong to one signature"):
        servable.run({x: floats(2)}, [y], None)


def test_metadata_signatures_are_read_and_their_names_fixed(load, half_data):
    def change(model):
        without_signatures(model, lambda name: name.split(b":")[0])
        inputs, outputs = {"x": "serving_default_x:0"}, {"y": "PartitionedCall:0"}
        with_metadata(
            model,
            {
                "first": stock_signature(inputs, outputs),
                "second": stock_signature({"a": "serving_default_x"}, outputs, "tensorflow/serving/regress"),
            },
        )

    servable = load(edited(half_data, change))
    assert set(servable.signatures) == {"first", "second"}
    assert servable.signatures["first"].inputs["x"].name == "serving_default_x"
    assert servable.signatures["second"].method_name == "tensorflow/serving/regress"
    x = floats(3)
    np.testing.assert_array_equal(call(servable, "first", x=x)["y"], half(x)["y"])
    np.testing.assert_array_equal(call(servable, "second", a=x)["y"], half(x)["y"])
    # A run takes a name with or without its index, too.
    [y] = servable.run({"serving_default_x:0": x}, ["PartitionedCall:0"], None)
    np.testing.assert_array_equal(y, half(x)["y"])


def test_metadata_comes_before_the_file_s_own_signatures(load, half_data):
    stored = stock_signature({"a": "serving_default_x:0"}, {"b": "PartitionedCall:0"})
    servable = load(edited(half_data, lambda model: with_metadata(model, {"stored": stored})))
    assert set(servable.signatures) == {"stored"}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"a": b"\xff\xff"}, "Invalid SignatureDefs found in TfLite model: Cannot parse signature def"),
        (
            {"a": stock_signature({"x": "z:0"}, {})},
            "Unknown tensor 'z:0'.\n\tSignature input x references an unknown tensor",
        ),
        (
            {"a": stock_signature({}, {"y": "z"})},
            "Unknown tensor 'z'.\n\tSignature output y references an unknown tensor",
        ),
    ],
)
def test_metadata_that_does_not_fit_is_refused_with_tensorflow_serving_s_text(
    load, half_data, entries, message
):
    with pytest.raises(errors.InvalidArgumentError) as caught:
        load(edited(half_data, lambda model: with_metadata(model, entries)))
    assert str(caught.value).startswith(message)


def test_metadata_without_a_map_is_refused(load, half_data):
    for content in (b"", b"\x00", b"\x05\x04\x01", bytes(range(64)), b"\xff" * 40):

        def change(model, content=content):
            with_metadata(model, {})
            model.buffers[-1].data = np.frombuffer(content, np.uint8)

        with pytest.raises(errors.InvalidArgumentError, match="Invalid SignatureDefs"):
            load(edited(half_data, change))


def test_without_any_signature_one_is_made_of_the_tensors_names(load, half_data, caplog):
    with caplog.at_level(logging.WARNING):
        servable = load(edited(half_data, without_signatures))
    assert "No signature def found in TFLite model. Generating one." in caplog.text
    [(name, signature)] = servable.signatures.items()
    assert (name, signature.method_name) == ("serving_default", "tensorflow/serving/predict")
    assert signature.inputs["serving_default_x"].name == "serving_default_x:0"
    assert signature.outputs["PartitionedCall"].name == "PartitionedCall:0"
    x = floats(3)
    answer = call(servable, "serving_default", serving_default_x=x)
    np.testing.assert_array_equal(answer["PartitionedCall"], half(x)["y"])


@pytest.mark.slow
def test_names_that_differ_in_their_index_only_stay_two_inputs(load, tmp_path):
    def change(model):
        without_signatures(model)
        for place, index in enumerate(model.subgraphs[0].inputs):
            model.subgraphs[0].tensors[index].name = b"mine:%d" % place

    signature = load(edited(converted(tmp_path, PRODUCT), change)).signatures["serving_default"]
    assert {alias: info.name for alias, info in signature.inputs.items()} == {
        "mine:0": "mine:0",
        "mine:1": "mine:1",
    }


@pytest.mark.slow
def test_two_inputs_of_one_name_are_refused(load, tmp_path):
    def change(model):
        without_signatures(model)
        for index in model.subgraphs[0].inputs:
            model.subgraphs[0].tensors[index].name = b"same"

    data = edited(converted(tmp_path, PRODUCT), change)
    with pytest.raises(errors.AlreadyExistsError, match="Input tensor name: same has multiple indices"):
        load(data)


def legacy(data, sizes):
    """The file as converters wrote it that knew no open sizes."""

    def change(model):
        for index in model.subgraphs[0].inputs:
            tensor = model.subgraphs[0].tensors[index]
            tensor.shape, tensor.shapeSignature, tensor.hasRank = sizes, None, False

    return edited(data, change)


def test_a_file_that_knows_no_open_sizes_has_them_where_it_says_1(load, half_data):
    servable = load(legacy(half_data, [1, 1]))
    info = servable.signatures["serving_default"].inputs["x"]
    assert [dim.size for dim in info.tensor_shape.dim] == [1, 1]
    for shape in ((1, 1), (3,), (2, 3), ()):
        x = np.asarray(floats(*shape))
        np.testing.assert_array_equal(call(servable, "serving_default", x=x)["y"], half(x)["y"])

    servable = load(legacy(half_data, [1, 3]))
    np.testing.assert_array_equal(
        call(servable, "serving_default", x=floats(2, 3))["y"], half(floats(2, 3))["y"]
    )
    with pytest.raises(errors.InvalidArgumentError, match=r"shape \[-1, 3\], .* Received \[2, 2\]"):
        call(servable, "serving_default", x=floats(2, 2))


@pytest.mark.parametrize(
    ("sizes", "taken", "refused", "wanted"),
    [
        ([1, 1], [(1, 1), (3,), (2, 3), ()], [], ""),
        ([1, 3], [(1, 3), (2, 3)], [(2, 2), (3,), (2, 3, 1)], "[None, 3]"),
    ],
)
def test_requests_are_checked_against_the_sizes_that_the_file_fixes(
    load, half_data, sizes, taken, refused, wanted
):
    servable = load(legacy(half_data, sizes))
    shapes, name = InputShapes.of(servable), servable.signatures["serving_default"].inputs["x"].name
    for shape in taken:
        assert shapes.check("serving_default", {name: floats(*shape)}) is None
    for shape in refused:
        words = f"input 'x' has shape {[*shape]}. The model wants float32 {wanted}"
        with pytest.raises(errors.InvalidArgumentError, match=re.escape(words)):
            shapes.check("serving_default", {name: floats(*shape)})


@pytest.mark.slow
def test_strings_come_back_byte_for_byte(load, text_data):
    servable = load(text_data)
    values = strings(b"a", b"", b"n\0l\0", b"\xff\xfe", "ö".encode(), b"x" * 1000)
    answer = call(
        servable, "serving_default", text=values, shape=np.array([2, 3], np.int32), one=np.array(b"0", object)
    )
    assert answer["text"].dtype == object
    assert answer["text"].tolist() == values.reshape(2, 3).tolist()


@pytest.mark.parametrize("value", [b"one", b"", b"\0", b"a\0", b"x" * 100])
def test_a_string_without_axes_is_its_text_not_an_address(load, text_data, value):
    inputs = {"text": strings(b"a"), "shape": np.array([1, 1], np.int32), "one": np.array(value, object)}
    assert call(load(text_data), "serving_default", **inputs)["one"].tolist() == [value]


def test_strings_that_do_not_fit_the_operation_are_invalid_and_the_next_call_is_right(load, text_data):
    servable = load(text_data)
    shape, one = np.array([2, 2], np.int32), np.array(b"1", object)
    with pytest.raises(errors.InvalidArgumentError, match="Failed to invoke TfLite interpreter: .*reshape"):
        call(servable, "serving_default", text=strings(b"a"), shape=shape, one=one)
    with pytest.raises(errors.InvalidArgumentError, match="must hold bytes only"):
        call(servable, "serving_default", text=strings("a", "b", "c", "d"), shape=shape, one=one)
    answer = call(servable, "serving_default", text=strings(b"a", b"b", b"c", b"d"), shape=shape, one=one)
    assert answer["text"].tolist() == [[b"a", b"b"], [b"c", b"d"]]


def test_unknown_tensors_are_named(load, half_data):
    servable = load(half_data)
    signature = servable.signatures["serving_default"]
    x, y = signature.inputs["x"].name, signature.outputs["y"].name
    with pytest.raises(errors.InvalidArgumentError) as caught:
        servable.run({"z": floats(1)}, [y], None)
    assert str(caught.value) == "Unknown tensor 'z'.\n\tMissing input TFLite tensor: z"
    with pytest.raises(errors.InvalidArgumentError) as caught:
        servable.run({x: floats(1)}, ["z"], None)
    assert str(caught.value) == "Missing output TFLite tensor: z: Unknown tensor 'z'."


def test_an_input_that_is_not_fed_is_refused(load, several_data):
    servable = load(several_data)
    with pytest.raises(errors.InvalidArgumentError, match="You must feed .*product_right"):
        call(servable, "product", left=floats(2, 3))


@pytest.mark.slow
def test_inputs_that_no_signature_names_are_zeros_not_another_caller_s_values(load, tmp_path):
    def two(a, b):
        return {"a": 2.0 * a, "b": b + 1.0}

    spec = tf.TensorSpec([None], FLOAT)
    data = converted(tmp_path, ("serving_default", two, {"a": spec, "b": spec}))
    plain = load(data).signatures["serving_default"]
    names = {alias: info.name for alias, info in plain.inputs.items()}
    results = {alias: info.name for alias, info in plain.outputs.items()}

    def change(model):
        both = stock_signature(names, results)
        only_a = stock_signature({"a": names["a"]}, results)
        with_metadata(model, {"both": both, "only_a": only_a})

    servable = load(edited(data, change))
    call(servable, "both", a=floats(3), b=np.full(3, 42, np.float32))
    answer = call(servable, "only_a", a=floats(3))
    np.testing.assert_array_equal(answer["a"], 2 * floats(3))
    np.testing.assert_array_equal(answer["b"], [1.0])


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (np.zeros((2, 3)), floats(3, 2), "must be float32. Received float64"),
        (np.zeros((2, 3), np.int32), floats(3, 2), "must be float32. Received int32"),
        (np.full((2, 3), b"a", object), floats(3, 2), "must be float32. Received string"),
        (floats(2, 4), floats(3, 2), r"shape \[-1, 3\], where -1 is any size. Received \[2, 4\]"),
        (floats(3), floats(3, 2), r"shape \[-1, 3\], .* Received \[3\]"),
        (floats(1, 1, 1, 1, 1, 1, 1, 1, 3), floats(3, 2), r"shape \[-1, 3\]"),
        (floats(2, 3), floats(3, 0), "may be empty in its first axis only"),
    ],
)
def test_what_does_not_fit_is_invalid_and_the_next_call_is_right(load, several_data, left, right, message):
    servable = load(several_data)
    with pytest.raises(errors.InvalidArgumentError, match=message):
        call(servable, "product", left=left, right=right)
    answer = call(servable, "product", left=floats(2, 3), right=floats(3, 2))
    np.testing.assert_array_equal(answer["product"], floats(2, 3) @ floats(3, 2))


@pytest.mark.slow
def test_sizes_that_an_operation_refuses_are_invalid(load, tmp_path):
    spec = tf.TensorSpec([None, None], FLOAT)
    data = converted(tmp_path, ("serving_default", product, {"left": spec, "right": spec}))
    servable = load(data)
    with pytest.raises(errors.InvalidArgumentError, match="Failed to allocate tensors: .*batch_matmul"):
        call(servable, "serving_default", left=floats(2, 3), right=floats(5, 7))
    assert not servable._pool._idle  # nobody gets the interpreter that failed
    answer = call(servable, "serving_default", left=floats(2, 5), right=floats(5, 7))
    np.testing.assert_array_equal(answer["product"], floats(2, 5) @ floats(5, 7))


@pytest.mark.slow
def test_a_picture_too_small_for_a_convolution_does_not_end_the_process(load, tmp_path):
    kernel = tf.ones([3, 3, 3, 2])

    def convolve(x):
        return {"y": tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, kernel, 2, "VALID")), 2, 2, "VALID")}

    inputs = {"x": tf.TensorSpec([None, None, None, 3], FLOAT)}
    servable = load(converted(tmp_path, ("serving_default", convolve, inputs)))
    for shape in ((1, 1, 3, 3), (3, 2, 7, 3), (1, 11, 1, 3)):
        assert call(servable, "serving_default", x=floats(*shape))["y"].size == 0
    x = floats(2, 11, 13, 3)
    np.testing.assert_allclose(call(servable, "serving_default", x=x)["y"], convolve(x)["y"], rtol=1e-5)


def test_arrays_of_any_layout_and_byte_order_are_read(load, several_data):
    servable = load(several_data)
    left = np.asfortranarray(floats(2, 3)).astype(">f4")
    right = floats(5, 6)[::-1, ::2].T[:, :4]
    right.flags.writeable = False
    answer = call(servable, "product", left=left, right=right)
    np.testing.assert_array_equal(answer["product"], floats(2, 3) @ right)


def test_an_answer_is_not_changed_by_the_calls_that_follow(load, several_data):
    servable = load(several_data)
    ones = np.ones((2, 3), np.float32)
    first = call(servable, "product", left=ones, right=floats(3, 5))
    kept = {alias: array.copy() for alias, array in first.items()}
    call(servable, "product", left=7 * ones, right=9 * floats(3, 5))
    for alias, array in first.items():
        np.testing.assert_array_equal(array, kept[alias])
        assert array.flags.writeable


@pytest.mark.parametrize("kept", [0, 4, 100, 0.5, -1])
def test_a_file_cut_short_does_not_load(load, half_data, kept):
    end = int(len(half_data) * kept) if isinstance(kept, float) else kept
    with pytest.raises(errors.InvalidArgumentError, match=r"Cannot build FlatBufferModel from buffer\."):
        load(half_data[:end])


def test_what_is_no_tflite_file_does_not_load(load):
    with pytest.raises(errors.InvalidArgumentError, match=r"Cannot build FlatBufferModel from buffer\."):
        load(b"no model at all" * 100)


def test_a_name_or_an_index_that_is_wrong_does_not_load(load, half_data):
    def name(model):
        model.subgraphs[0].tensors[model.subgraphs[0].inputs[0]].name = b"\xff"

    def subgraph(model):
        model.signatureDefs[0].subgraphIndex = 99

    def tensor(model):
        model.signatureDefs[0].outputs[0].tensorIndex = 99

    for change in (name, subgraph, tensor):
        with pytest.raises(errors.InvalidArgumentError, match="TfLite model|FlatBufferModel"):
            load(edited(half_data, change))


def test_a_folder_without_the_file_is_not_found(tmp_path):
    with pytest.raises(errors.NotFoundError) as caught:
        TfliteServable("model", 7, tmp_path / "7", threads=1)
    assert str(caught.value) == "7/model.tflite; No such file or directory"


def test_a_type_that_no_tensor_carries_does_not_load(load, half_data):
    def change(model):
        model.subgraphs[0].tensors[model.subgraphs[0].inputs[0]].type = schema.TensorType.RESOURCE

    with pytest.raises(errors.ServingError):
        load(edited(half_data, change))


def test_an_operation_that_tflite_lacks_does_not_load(load, half_data):
    def change(model):
        code = model.operatorCodes[0]
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
        code.customCode = b"Nobody"

    with pytest.raises(errors.InvalidArgumentError, match="Nobody"):
        load(edited(half_data, change))


def test_eight_threads_at_once_get_their_own_answers(load, several_data):
    servable = load(several_data)
    start = threading.Barrier(8)

    def work(seed):
        start.wait(30)
        for size in np.random.default_rng(seed).integers(1, 40, 60):
            x = np.full(size, seed, np.float32)
            np.testing.assert_array_equal(call(servable, "serving_default", x=x)["y"], half(x)["y"])
            left, right = np.full((size, 3), seed, np.float32), floats(3, 2)
            answer = call(servable, "product", ["product"], left=left, right=right)
            np.testing.assert_allclose(answer["product"], left @ right, rtol=1e-6)

    with futures.ThreadPoolExecutor(8) as executor:
        for future in [executor.submit(work, seed) for seed in range(8)]:
            future.result(120)
    assert servable._pool._made <= servable._pool._most


def test_a_run_waits_for_an_interpreter_no_longer_than_its_timeout(load, half_data):
    servable = load(half_data)
    servable._pool._most = 1
    taken = servable._pool._take(None)
    with pytest.raises(errors.DeadlineExceededError):
        servable.run({"serving_default_x:0": floats(2)}, ["PartitionedCall:0"], timeout=0.05)
    with futures.ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(call, servable, "serving_default", x=floats(2))
        servable._pool._give_back(taken)
        np.testing.assert_array_equal(waiting.result(30)["y"], half(floats(2))["y"])


def test_after_close_runs_end_with_cancelled(load, half_data):
    servable = load(half_data)
    servable._pool._most = 1
    taken = servable._pool._take(None)
    with futures.ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(call, servable, "serving_default", x=floats(2))
        servable.close()
        with pytest.raises(errors.CancelledError, match=r"Session has been closed\."):
            waiting.result(30)
    servable._pool._give_back(taken)
    assert not servable._pool._idle
    with pytest.raises(errors.CancelledError, match=r"Session has been closed\."):
        call(servable, "serving_default", x=floats(2))


def test_only_the_interpreter_s_own_warning_is_silent(load, half_data):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load(half_data)
        warnings.warn("tf.lite.Interpreter is deprecated, or not", UserWarning, stacklevel=1)
        before = len(warnings.filters)
        load(half_data)
        assert len(warnings.filters) == before
    assert [str(warning.message) for warning in caught] == ["tf.lite.Interpreter is deprecated, or not"]


def test_loading_and_running_write_nothing(load, half_data, capfd):
    servable = load(half_data)
    call(servable, "serving_default", x=floats(3))
    assert capfd.readouterr() == ("", "")


def anonymous_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


def test_a_thousand_calls_leave_the_memory_as_it_was(load, several_data, text_data):
    product, text = load(several_data), load(text_data)

    def calls():
        for size in range(1, 251):
            call(product, "serving_default", x=floats(size))
            call(product, "product", left=floats(size, 3), right=floats(3, 5))
            inputs = {"shape": np.array([1, size], np.int32), "one": np.array(b"one", object)}
            call(text, "serving_default", text=strings(*[b"x" * 100] * size), **inputs)
            with pytest.raises(errors.InvalidArgumentError):
                call(text, "serving_default", text=strings(b"a"), **(inputs | {"shape": inputs["shape"] + 7}))

    calls()
    before = anonymous_bytes()
    calls()
    assert anonymous_bytes() - before < 4 * 2**20


@pytest.mark.slow
def test_the_server_prefers_a_tflite_file_where_it_is_told_to(tmp_path):
    saved = save(HalfPlusTwo(b=20.0), tmp_path, 7)
    config = {"port": 0, "prefer_tflite_model": True}
    with Server(ServerConfig("m", tmp_path, **config)) as server, Client(server.target, "m") as client:
        assert client.predict({"x": np.float32([2])})["y"].tolist() == [21.0]
    converter = tf.lite.TFLiteConverter.from_saved_model(str(save(HalfPlusTwo(), tmp_path / "other", 1)))
    (saved / "model.tflite").write_bytes(converter.convert())
    (saved / "saved_model.pb").unlink()
    with Server(ServerConfig("m", tmp_path, **config)) as server, Client(server.target, "m") as client:
        assert client.predict({"x": np.float32([2])})["y"].tolist() == [3.0]
        assert client.metadata().version == 7
        request = pb.PredictRequest(model_spec=pb.ModelSpec(name="m"))
        request.inputs["x"].CopyFrom(codec.encode_array(np.float32([[2], [4]])))
        predict = "/tensorflow.serving.PredictionService/Predict"
        with grpc.insecure_channel(server.target) as channel, pytest.raises(grpc.RpcError) as raised:
            channel.unary_unary(predict)(request.SerializeToString(), timeout=20)
        assert raised.value.details() == "input 'x' has shape [2, 1]. The model wants float32 [None]"


@pytest.mark.process
def test_quantized_inputs_and_outputs_are_the_integers_of_the_file(load, tmp_path):
    """Their scale stays in the file: TensorFlow Serving tells nobody of it either."""

    def dense(x):
        return {"y": tf.matmul(x, tf.constant(floats(3, 2)))}

    module = tf.Module()
    module.serve = tf.function(dense, input_signature=[tf.TensorSpec([1, 3], FLOAT, name="x")])
    tf.saved_model.save(module, str(tmp_path / "saved"), {"serving_default": module.serve})
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "saved"))
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([floats(1, 3) * scale] for scale in range(10))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    data = converter.convert()
    x = np.array([[1, -7, 100]], np.int8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the interpreter has a successor in another package
        expected = tf.lite.Interpreter(model_content=data).get_signature_runner()(x=x)["y"]
    servable = load(data)
    signature = servable.signatures["serving_default"]
    assert (signature.inputs["x"].dtype, signature.outputs["y"].dtype) == (pb.DT_INT8, pb.DT_INT8)
    answer = call(servable, "serving_default", x=x)["y"]
    assert answer.dtype == np.int8
    np.testing.assert_array_equal(answer, expected)

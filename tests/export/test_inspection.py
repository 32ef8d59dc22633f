"""`inspect` of any SavedModel: ours, of others, of TensorFlow 1, changed or damaged."""

import shutil

import pytest
import tensorflow as tf

from keras_selfattn.errors import ExportError
from keras_selfattn.export import inspect_saved_model


@pytest.mark.process
def test_a_file_that_was_changed_or_added_is_seen(version, tmp_path):
    assert inspect_saved_model(version).intact is True
    copy = tmp_path / "1"
    shutil.copytree(version, copy)
    assert inspect_saved_model(copy).intact is True
    (copy / "assets" / "more").touch()
    assert inspect_saved_model(copy).intact is False
    (copy / "assets" / "more").unlink()
    variables = copy / "variables" / "variables.data-00000-of-00001"
    content = bytearray(variables.read_bytes())
    content[50] ^= 1
    variables.write_bytes(content)
    assert inspect_saved_model(copy).intact is False


@pytest.mark.process
def test_inspect_takes_the_newest_version_and_counts_what_is_there(model, version):
    found = inspect_saved_model(version.parent)
    assert found.path == version
    assert found.tensorflow == tf.__version__
    sizes = sorted(tuple(w.shape) for w in model.core.get_weights())
    assert sorted(tensor.shape for tensor in found.variables.values()) == sizes
    assert found.operations["Softmax"] == 7
    assert str(found.signatures["explain"].outputs["weights"]) == "float32 [?, 2, 3, ?, ?]"
    assert found.bytes == sum(
        f.stat().st_size for f in version.rglob("*") if f.is_file() and "card" not in f.name
    )


def test_a_saved_model_of_others_is_described_without_a_card(tmp_path):
    module = tf.Module()
    module.weight = tf.Variable([1.0, 2.0])
    module.call = tf.function(
        lambda x: x * module.weight, input_signature=[tf.TensorSpec(None, tf.float32, name="x")]
    )
    tf.saved_model.save(module, str(tmp_path), signatures=module.call)
    found = inspect_saved_model(tmp_path)
    assert (found.card, found.intact, found.warmup_requests) == (None, None, 0)
    assert str(found.signatures["serving_default"].inputs["x"]) == "float32 of any shape"
    assert {name.split("/")[0]: str(t) for name, t in found.variables.items()} == {"weight": "float32 [2]"}


def test_a_saved_model_of_tensorflow_1_as_text_is_read(tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [None, 3], name="x")
        builder = tf.compat.v1.saved_model.Builder(str(tmp_path / "m"))
        signature = tf.compat.v1.saved_model.predict_signature_def({"x": x}, {"y": 2 * x})
        builder.add_meta_graph_and_variables(session, ["serve"], {"half": signature})
        builder.save(as_text=True)
    found = inspect_saved_model(tmp_path / "m")
    assert str(found.signatures["half"].inputs["x"]) == "float32 [?, 3]"
    assert found.variables == {}


@pytest.mark.process
def test_what_is_no_saved_model_is_named(tmp_path, version):
    with pytest.raises(ExportError, match="There is no SavedModel in"):
        inspect_saved_model(tmp_path)
    with pytest.raises(ExportError, match="There is no SavedModel in"):
        inspect_saved_model(tmp_path / "missing")
    (tmp_path / "saved_model.pb").write_bytes((version / "saved_model.pb").read_bytes()[:5000])
    with pytest.raises(ExportError, match="is not whole"):
        inspect_saved_model(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ExportError, match="holds no graph"):
        inspect_saved_model(tmp_path)


@pytest.mark.process
@pytest.mark.parametrize("damage", ["warmup", "index", "card"])
def test_what_is_damaged_is_named_and_no_riddle(version, tmp_path, damage):
    copy = tmp_path / "1"
    shutil.copytree(version, copy)
    if damage == "card":
        for content in ('{"files": []}', '{"files": null}', "[" * 100_000, "[]"):
            (copy / "assets.extra" / "model_card.json").write_text(content)
            assert inspect_saved_model(copy).card is None
        return
    file = {"warmup": "assets.extra/tf_serving_warmup_requests", "index": "variables/variables.index"}[damage]
    (copy / file).write_bytes((copy / file).read_bytes()[:-7])
    with pytest.raises(ExportError, match="is not whole"):
        inspect_saved_model(copy)

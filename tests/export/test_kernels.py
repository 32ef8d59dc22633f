"""The table of the oldest TensorFlow's kernels, and what is refused for it."""

from pathlib import Path

import pytest
import tensorflow as tf

from keras_selfattn.errors import ExportError
from keras_selfattn.export import kernels, written_graph

OLDEST = kernels.read(Path(written_graph.__file__).with_name("tensorflow-2.16.txt").read_text())


def save(folder, function, **options):
    module = tf.Module()
    module.function = function
    tf.saved_model.save(module, str(folder), signatures=function, **options)
    return folder


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"Mul": None}, "has no such operation for CPUs"),
        ({"Mul": kernels.Operation(frozenset(), ({"T": frozenset(["half"])},))}, "not know the attribute T"),
        ({"Mul": kernels.Operation(frozenset("T"), ({"T": frozenset(["half"])},))}, "no kernel for T=float"),
    ],
)
def test_an_operation_that_the_oldest_server_cannot_run_is_refused(tmp_path, monkeypatch, changes, reason):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def double(x):
        return {"y": tf.raw_ops.Mul(x=x, y=2.0)}

    changed = {name: each for name, each in {**OLDEST, **changes}.items() if each is not None}
    monkeypatch.setattr(written_graph, "read", lambda _: changed)
    with pytest.raises(
        ExportError, match=rf"TensorFlow Serving 2.16 cannot run the operation Mul .*{reason}"
    ):
        written_graph.finish(save(tmp_path, double), {})


def test_the_table_of_kernels_is_read_as_it_is_written():
    here = kernels.registered()
    assert kernels.read("\n".join(kernels.lines(here))) == here
    assert here["MatMul"].takes({"T": "bfloat16"})
    assert not here["MatMul"].takes({"T": "string"})
    assert len(OLDEST) > 1300
    # Kernels of two types: tables from strings to int32, but not from int32 to strings of another width.
    assert OLDEST["HashTableV2"].takes({"key_dtype": "string", "value_dtype": "int32"})
    assert not OLDEST["HashTableV2"].takes({"key_dtype": "string", "value_dtype": "half"})

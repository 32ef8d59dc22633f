"""Names of dtypes are those of TensorFlow and NumPy."""

import tensorflow as tf

from keras_selfattn.serving.wire import dtypes

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]


def test_dtype_names_are_those_of_tensorflow_and_numpy():
    for name in (*DTYPES, "bfloat16", "string"):
        assert dtypes.dtype_name(tf.as_dtype(name).as_datatype_enum) == name
    assert dtypes.dtype_name(20) == "DT_RESOURCE"
    assert dtypes.dtype_name(1000) == "DataType 1000"

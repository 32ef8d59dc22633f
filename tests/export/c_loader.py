"""Runs a SavedModel through TensorFlow's C API alone, as a server in C++ would, without its Python.

`python c_loader.py <saved model> <calls.json>`, where a call has `feeds` (dtype, shape and data by tensor
name) and `fetches`, a list of tensor names. Prints the values fetched, call by call, as JSON.

Reference: tensorflow/c/c_api.h, tensorflow/c/tf_tstring.h
"""

import ctypes
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np

FLOAT, INT32, STRING, INT64 = 1, 3, 7, 9  # TF_DataType
NUMPY = {FLOAT: np.float32, INT32: np.int32, INT64: np.int64}
TSTRING = 24  # sizeof(TF_TString)


class Output(ctypes.Structure):
    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


class Library:
    """Both shared libraries of the wheel as one; every function takes and returns what ctypes is told."""

    def __init__(self):
        folder = importlib.util.find_spec("tensorflow").submodule_search_locations[0]
        self._parts = [
            ctypes.CDLL(str(Path(folder, name)), mode=ctypes.RTLD_GLOBAL)
            for name in ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")
        ]
        self.status = self("TF_NewStatus")()

    def __call__(self, name, result=ctypes.c_void_p):
        function = next(getattr(part, name) for part in reversed(self._parts) if hasattr(part, name))
        function.restype = result
        return function

    def check(self):
        if self("TF_GetCode", ctypes.c_int)(ctypes.c_void_p(self.status)):
            sys.exit(self("TF_Message", ctypes.c_char_p)(ctypes.c_void_p(self.status)).decode())


def main(saved_model, calls):
    tf = Library()
    graph, status = ctypes.c_void_p(tf("TF_NewGraph")()), ctypes.c_void_p(tf.status)
    tags = (ctypes.c_char_p * 1)(b"serve")
    session = ctypes.c_void_p(
        tf("TF_LoadSessionFromSavedModel")(
            ctypes.c_void_p(tf("TF_NewSessionOptions")()),
            None,
            saved_model.encode(),
            tags,
            1,
            graph,
            None,
            status,
        )
    )
    tf.check()

    def output(name):
        operation, _, index = name.partition(":")
        found = tf("TF_GraphOperationByName")(graph, operation.encode())
        assert found, name
        return Output(found, int(index))

    for call in json.loads(Path(calls).read_text()):
        feeds = [output(name) for name in call["feeds"]]
        tensors = [tensor(tf, **feed) for feed in call["feeds"].values()]
        fetches = [output(name) for name in call["fetches"]]
        found = (ctypes.c_void_p * len(fetches))()
        tf("TF_SessionRun", None)(
            session,
            None,
            (Output * len(feeds))(*feeds),
            (ctypes.c_void_p * len(tensors))(*tensors),
            len(feeds),
            (Output * len(fetches))(*fetches),
            found,
            len(fetches),
            None,
            0,
            None,
            status,
        )
        tf.check()
        print(json.dumps([values(tf, ctypes.c_void_p(handle)) for handle in found]))


def tensor(tf, dtype, shape, data):
    """A TF_Tensor; strings come as a flat list of str."""
    dims = (ctypes.c_int64 * len(shape))(*shape)
    count = int(np.prod(shape, dtype=int))
    size = count * (TSTRING if dtype == STRING else np.dtype(NUMPY[dtype]).itemsize)
    made = tf("TF_AllocateTensor")(ctypes.c_int(dtype), dims, len(shape), ctypes.c_size_t(size))
    start = tf("TF_TensorData")(ctypes.c_void_p(made))
    if dtype == STRING:
        for place, text in enumerate(data):
            string, raw = ctypes.c_void_p(start + place * TSTRING), bytes.fromhex(text)
            tf("TF_StringInit", None)(string)
            tf("TF_StringCopy", None)(string, raw, ctypes.c_size_t(len(raw)))
    elif size:
        array = np.array(data, dtype=NUMPY[dtype])
        ctypes.memmove(start, array.ctypes.data, size)
    return made


def values(tf, handle):
    """Shape and flat values of a TF_Tensor, strings as hex."""
    rank = tf("TF_NumDims", ctypes.c_int)(handle)
    shape = [tf("TF_Dim", ctypes.c_int64)(handle, axis) for axis in range(rank)]
    count = int(np.prod(shape, dtype=int))
    start, dtype = tf("TF_TensorData")(handle), tf("TF_TensorType", ctypes.c_int)(handle)
    if dtype != STRING:
        size = count * np.dtype(NUMPY[dtype]).itemsize
        return shape, np.frombuffer(ctypes.string_at(start, size) if size else b"", NUMPY[dtype]).tolist()
    found = []
    for place in range(count):
        string = ctypes.c_void_p(start + place * TSTRING)
        length = tf("TF_StringGetSize", ctypes.c_size_t)(string)
        found.append(ctypes.string_at(tf("TF_StringGetDataPointer")(string), length).hex())
    return shape, found


if __name__ == "__main__":
    main(*sys.argv[1:])

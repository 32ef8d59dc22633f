"""Writes ONNX files of every layer and of a model of series, with requests of unusual sizes and answers.

`python tests/export/many_onnx.py FOLDER` makes FOLDER/<name>.onnx and FOLDER/<name>.npz, which
`portable_check.py` takes; so another ONNX Runtime than the installed one can be asked.
"""

import sys
from pathlib import Path

import keras
import numpy as np

from keras_selfattn import models
from keras_selfattn.export.portable.number_contract import number_contract
from keras_selfattn.export.portable.onnx_file import onnx_file
from keras_selfattn.export.portable.write import write_arrays
from keras_selfattn.export.signatures.model_signatures import MOST_ASKED
from keras_selfattn.export.trial import Case

sys.path.append(str(Path(__file__).parents[1] / "layers" / "shared"))
from variants import MAKE, WIDTH

# Rows and lengths: none of either, one of either, and of a batch that has both.
SIZES = [(3, 11), (0, 5), (2, 0), (0, 0), (1, 7), (5, 1), (1, 1)]


def requests_of_ids(highest=50):
    """Ids by batch: padding at an end, and a row of padding alone."""
    for rows, length in SIZES:
        ids = np.random.default_rng(0).integers(1, highest, (rows, length)).astype("int32")
        if length > 2 and rows > 1:
            ids[0, -2:] = ids[-1] = 0
        yield {"ids": ids}


def requests_of_series():
    for rows, length in SIZES:
        values = np.random.default_rng(0).normal(size=(rows, length, 2)).astype("float32")
        if length > 2 and rows > 1:
            values[0, -2:] = values[-1] = values[1, 1, 0] = np.nan
        yield {"values": values}


def every_layer(names=tuple(MAKE)):
    """A model with an output for each variant of the layers."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    x = keras.layers.Embedding(50, WIDTH, mask_zero=True)(ids)
    outputs = {name.replace(" ", "_"): MAKE[name]()(x) for name in names}
    return keras.Model(ids, outputs)


def of_series():
    config = {"width": 8, "num_layers": 1, "num_heads": 2, "kernels": 50, "max_positions": 8}
    return models.SeriesClassifier(config, num_features=2, longest=20, labels=["a", "b", "c"])


def cases_of(model, requests):
    """The contract of a model, and its answers to requests."""
    contract = number_contract(model)
    signature = contract.signatures[MOST_ASKED]
    cases = []
    for request in requests:
        answer = signature.function.python_function(*signature.arguments(request))
        cases.append(Case(MOST_ASKED, request, {name: np.asarray(value) for name, value in answer.items()}))
    return contract, cases


def write(model, requests, path):
    contract, cases = cases_of(model, requests)
    content, _ = onnx_file(contract.signatures[MOST_ASKED], {}, by_position=False)
    path.write_bytes(content)
    write_arrays(path.with_suffix(".npz"), cases)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    write(every_layer(), requests_of_ids(), folder / "layers.onnx")
    write(of_series(), requests_of_series(), folder / "series.onnx")

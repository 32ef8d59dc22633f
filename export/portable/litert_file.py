"""Convert a traced function to a LiteRT file (TFLite), of the runtime's own operations alone."""

import re
import tempfile
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_selfattn.errors import ExportError, first_line

from ..signatures.model_signatures import MOST_ASKED, Signature
from .frozen_graphs import frozen

# Those of SiLU, which TensorFlow writes itself, refer to a number of the graph before it was frozen.
_WITHOUT_GRADIENTS = tf.saved_model.SaveOptions(experimental_custom_gradients=False)


def litert_file(signature: Signature) -> tuple[bytes, list[str]]:
    """Return a signature as the content of a LiteRT file, and the names of its operations.

    Args:
        signature: its function takes and returns numbers.

    Raises:
        ExportError: if the graph needs an operation that the runtime has not.
    """
    with tempfile.TemporaryDirectory() as folder:
        module: Any = tf.Module()
        module.call = frozen(signature)
        try:
            signatures = {MOST_ASKED: module.call.get_concrete_function()}
            tf.saved_model.save(module, folder, signatures=signatures, options=_WITHOUT_GRADIENTS)
            converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=[MOST_ASKED])
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
            content = converter.convert()
        except Exception as error:  # the converter raises many kinds
            # A list of operations, or the first one of a loop.
            found = re.findall(r"^\s*tf\.(\w+)\(|'tf\.(\w+)' op", str(error), re.MULTILINE)
            lacking = sorted({name for names in found for name in names if name})
            reason = f"LiteRT has no counterpart of {', '.join(lacking)}" if lacking else first_line(error)
            raise ExportError(f"The model cannot be converted for LiteRT: {reason}.") from error
    return content, _operations(content)


def _operations(content: bytes) -> list[str]:
    from tensorflow.lite.python import schema_py_generated as schema  # a large module

    names = {code: name for name, code in vars(schema.BuiltinOperator).items() if isinstance(code, int)}
    file = schema.Model.GetRootAs(content)
    codes: Sequence[Any] = [file.OperatorCodes(place) for place in range(file.OperatorCodesLength())]
    return sorted({names[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())] for code in codes})

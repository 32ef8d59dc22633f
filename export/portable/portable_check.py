"""Run a file with its own runtime and compare its answers with the expected ones.

A separate program, run in a fresh process: `python -P portable_check.py <file> <cases.npz> <tolerance>`. It
blocks imports of Keras, and for an ONNX file those of TensorFlow. It prints its measurements as JSON and
exits with 0; or it exits with 1 and the reason on standard error.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

_TIMED = 30  # requests
Arrays = dict[str, np.ndarray]
Run = Callable[[Arrays], Arrays]


def main(file: str, cases: str, tolerance: str) -> int:
    """Return 0 if the model in `file` gives the answers in the file `cases`, else 1."""
    started = time.perf_counter()
    runs = _onnx(file) if file.endswith(".onnx") else _litert(file)
    load_seconds = time.perf_counter() - started
    expected = _read(cases)
    for inputs, outputs in expected:
        for run in runs:
            reason = _difference(outputs, run(inputs), float(tolerance))
            if reason:
                shapes = {name: list(value.shape) for name, value in inputs.items()}
                print(f"{reason}, for inputs of shape {shapes}", file=sys.stderr)
                return 1
    milliseconds = _milliseconds(runs[0], expected[0][0])
    print(json.dumps({"load_seconds": round(load_seconds, 3), "request_ms": milliseconds}))
    return 0


def _read(path: str) -> list[tuple[Arrays, Arrays]]:
    """Return inputs and outputs of each case: arrays named "place/inputs/name", "place/outputs/name"."""
    found: dict[int, dict[str, Arrays]] = {}
    with np.load(path) as arrays:
        for key in arrays.files:
            place, side, name = key.split("/", 2)
            found.setdefault(int(place), {"inputs": {}, "outputs": {}})[side][name] = arrays[key]
    return [(found[place]["inputs"], found[place]["outputs"]) for place in sorted(found)]


def _onnx(file: str) -> list[Run]:
    for name in ("keras", "tensorflow"):
        sys.modules[name] = None  # pyright: ignore[reportArgumentType]  any import of it now fails
    import onnxruntime  # pyright: ignore[reportMissingImports]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return [lambda inputs: dict(zip(names, session.run(names, inputs), strict=True))]  # pyright: ignore


def _litert(file: str) -> list[Run]:
    """Return runs with the kernels of XNNPACK, which are used where it has some, and without them."""
    # TensorFlow needs none of these, but imports the last two if they are there.
    blocked: Any = dict.fromkeys(("keras", "jax", "scipy"))
    sys.modules.update(blocked)
    import warnings

    warnings.simplefilter("ignore")  # of the interpreter's next name
    import tensorflow as tf

    resolvers: Any = tf.lite.experimental.OpResolverType

    def runner(resolver: Any) -> Run:
        interpreter = tf.lite.Interpreter(file, experimental_op_resolver_type=resolver)
        call = interpreter.get_signature_runner()
        return lambda inputs: call(**inputs)

    return [runner(resolver) for resolver in (resolvers.AUTO, resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES)]


def _difference(wanted: Arrays, found: Arrays, tolerance: float) -> str | None:
    if set(found) != set(wanted):
        return f"the outputs are {sorted(found)} instead of {sorted(wanted)}"
    for name, value in wanted.items():
        if found[name].shape != value.shape:
            return f"{name} has shape {found[name].shape} instead of {value.shape}"
        worst = float(_apart(value, found[name]).max(initial=0.0))
        if not worst <= tolerance:
            return f"{name} differs from the model's by {worst:.2g} (allowed: {tolerance:.0e})"
    return None


def _apart(first: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return relative distances: 0 from NaN to NaN and between equal infinities, as in `check.py`."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(other.astype("float64") - first) / np.maximum(1, np.abs(first))
    return np.where((first == other) | (np.isnan(first) & np.isnan(other)), 0.0, apart)


def _milliseconds(run: Run, inputs: Arrays) -> float:
    """Return the median time of a request."""
    times = []
    for _ in range(_TIMED):
        started = time.perf_counter()
        run(inputs)
        times.append(time.perf_counter() - started)
    return round(1000 * statistics.median(times), 3)


if __name__ == "__main__":
    status = main(*sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # the end of such a process takes up to a second otherwise

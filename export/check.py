"""Run a SavedModel as a server would and compare its answers with the expected ones.

A separate program, run in a fresh process: `python -P check.py <saved model> <cases.json>`. It blocks imports
of Keras, and so of our layers, so that a graph which needs them fails here and not on the server. It tries
both of TensorFlow's loaders: signatures as functions, and the session that servers run. It prints its
measurements as JSON and exits with 0; or it exits with 1 and the reason on standard error.
"""

import base64
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

_TIMED = 30  # requests
_TRIES = 3
Arrays = dict[str, np.ndarray]
Run = Callable[[str, Arrays], Arrays]


def main(saved_model: str, cases: str) -> int:
    """Return 0 if the model in folder `saved_model` gives the answers in the file `cases`, else 1."""
    sys.modules["keras"] = None  # pyright: ignore[reportArgumentType]  any import of it now fails
    import tensorflow as tf

    expected = [_read(case) for case in json.loads(Path(cases).read_text(encoding="utf-8"))]
    loaded = _as_functions(tf, saved_model)
    started = time.perf_counter()
    served = _as_session(tf, saved_model)
    load_seconds = time.perf_counter() - started
    for case in expected:
        reason = wrong(case, loaded, served)
        if reason:
            shapes = {name: list(value.shape) for name, value in case["inputs"].items()}
            print(f"{case['signature']}: {reason}, for inputs of shape {shapes}", file=sys.stderr)
            return 1
    print(
        json.dumps({"load_seconds": round(load_seconds, 3), "request_ms": _milliseconds(served, expected[0])})
    )
    return 0


def wrong(case: dict[str, Any], loaded: Run, served: Run) -> str | None:
    """Return why the answers to a case are wrong, in the last of several tries; None once they are right.

    A wrong graph, or one that draws random numbers, is wrong in each. On a busy virtual machine one run of a
    right graph was seen to be off by 1e-5 to 1e-4; thousands of later ones had the same bits.
    """
    reason = None
    for _ in range(_TRIES):
        answers = [run(case["signature"], case["inputs"]) for run in (loaded, loaded, served, served)]
        reason = _change(answers, case["tolerance"])
        reason = reason or _difference(case, answers[0]) or _difference(case, answers[2])
        if reason is None:
            break
    return reason


def _read(case: dict[str, Any]) -> dict[str, Any]:
    from tensorflow.core.framework import tensor_pb2  # pyright: ignore[reportMissingImports]
    from tensorflow.python.framework import tensor_util

    messages: Any = tensor_pb2

    def arrays(protos: dict[str, str]) -> Arrays:
        found = {name: messages.TensorProto.FromString(base64.b64decode(p)) for name, p in protos.items()}
        return {name: tensor_util.MakeNdarray(proto) for name, proto in found.items()}

    return {**case, "inputs": arrays(case["inputs"]), "outputs": arrays(case["outputs"])}


def _as_functions(tf: Any, saved_model: str) -> Run:
    loaded = tf.saved_model.load(saved_model)

    def run(signature: str, inputs: Arrays) -> Arrays:
        call = loaded.signatures[signature]  # its variables live as long as `loaded`
        specs = call.structured_input_signature[1]
        answer = call(**{name: tf.constant(value, specs[name].dtype) for name, value in inputs.items()})
        return {name: value.numpy() for name, value in answer.items()}

    return run


def _as_session(tf: Any, saved_model: str) -> Run:
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    # As in our server; see its setting `tensorflow_intra_op_parallelism`, and `session_config` there.
    options = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1)
    options.graph_options.rewrite_options.meta_optimizer_iterations = 1
    session = tf.compat.v1.Session(graph=tf.Graph(), config=options)
    with session.graph.as_default():
        signatures = tf.compat.v1.saved_model.load(session, ["serve"], saved_model).signature_def

    def run(signature: str, inputs: Arrays) -> Arrays:
        definition = signatures[signature]
        feeds = {definition.inputs[name].name: value for name, value in inputs.items()}
        fetches = {name: info.name for name, info in definition.outputs.items()}
        return {name: np.asarray(value) for name, value in session.run(fetches, feeds).items()}

    return run


def _change(answers: list[Arrays], tolerance: float) -> str | None:
    """Compare two runs of each loader, and the loaders with each other.

    Numbers may differ by rounding even between two runs of one loader: on a busy machine TensorFlow's threads
    add partial sums in another order.
    """
    loaded, again, served, served_again = answers
    for first, other, one_loader in (
        (loaded, again, True),
        (served, served_again, True),
        (loaded, served, False),
    ):
        for name in first:
            reason = _changed(name, first[name], other[name], tolerance, one_loader)
            if reason:
                return f"{reason} between two runs"
    return None


def _changed(
    name: str, first: np.ndarray, other: np.ndarray, tolerance: float, one_loader: bool
) -> str | None:
    if first.dtype.kind == "f" and first.shape == other.shape:
        if np.allclose(first, other, rtol=tolerance, atol=tolerance, equal_nan=True):
            return None
        apart = np.abs(first.astype("float64") - other)
        return f"{name} changed by {np.nanmax(apart):.2g} (allowed: {tolerance:.0e})"
    # Labels may differ between the loaders: `_other` compares each with the model's, and knows which may.
    return f"{name} changed" if one_loader and not np.array_equal(first, other) else None


def _difference(case: dict[str, Any], found: Arrays) -> str | None:
    if set(found) != set(case["outputs"]):
        return f"the outputs are {sorted(found)} instead of {sorted(case['outputs'])}"
    for name, wanted in case["outputs"].items():
        value = found[name]
        if value.shape != wanted.shape:
            return f"{name} has shape {value.shape} instead of {wanted.shape}"
        if wanted.dtype.kind == "f":
            reason = _distance(name, wanted, value, case["tolerance"])
        else:
            reason = _other(name, wanted, value, case)
        if reason:
            return reason
    return None


def _distance(name: str, wanted: np.ndarray, value: np.ndarray, tolerance: float) -> str | None:
    apart = np.abs(value.astype("float64") - wanted) / np.maximum(1, np.abs(wanted))
    worst = float(apart.max(initial=0.0))
    if not worst <= tolerance:  # NaN is no match either
        return f"{name} differs from the model's by {worst:.2g} (allowed: {tolerance:.0e})"
    return None


def _other(name: str, wanted: np.ndarray, value: np.ndarray, case: dict[str, Any]) -> str | None:
    """Compare outputs without a distance: labels may differ only where two are equally probable."""
    different = wanted != value
    probabilities = case["outputs"].get("probabilities")
    if name == "label" and probabilities is not None and probabilities.shape[:-1] == wanted.shape:
        best = np.sort(probabilities, axis=-1)[..., -2:]
        different &= best[..., -1] - best[..., 0] > 2 * case["tolerance"]
    return f"{name} differs from the model's" if different.any() else None


def _milliseconds(run: Run, case: dict[str, Any]) -> float:
    """Return the median time of a request."""
    times = []
    for _ in range(_TIMED):
        started = time.perf_counter()
        run(case["signature"], case["inputs"])
        times.append(time.perf_counter() - started)
    return round(1000 * statistics.median(times), 3)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

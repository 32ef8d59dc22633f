"""Run a SavedModel as a server would and compare its answers with the expected ones.

A separate program, run in a fresh process: `python -P check.py <saved model> <cases.json>`. It blocks imports
of Keras, and so of our layers, so that a graph which needs them fails here and not on the server. It tries
both of TensorFlow's loaders: signatures as functions, and the session that servers run. It prints its
measurements as JSON and exits with 0; or it exits with 1 and the reason on standard error.
"""

import base64
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

_TIMED = 30  # requests
_TRIES = 3
# As in serving/wire/signature_names.py, models/heads/label_rules.py and models/tokens/span_labels.py: this
# program runs without the package, and a test compares them.
_LABEL, _LABELS, _SCORE, _PROBABILITIES = "label", "labels", "score", "probabilities"
_COUNT = "count"
_THRESHOLD, _LEAST = 0.5, 1e-30
Arrays = dict[str, np.ndarray]
Wrong = dict[str, np.ndarray]  # by the outputs' names: bool, where they are wrong
Run = Callable[[str, Arrays], Arrays]


def main(saved_model: str, cases: str) -> int:
    """Return 0 if the model in folder `saved_model` gives the answers in the file `cases`, else 1."""
    # Any import of these now fails. TensorFlow needs none, but imports the last two if they are there.
    blocked: Any = dict.fromkeys(("keras", "jax", "scipy"))
    sys.modules.update(blocked)
    gc.disable()  # it would take a fifth of the import's time, and this program ends soon
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
    """Return why the answers to a case are wrong; None once each number was right in one of several tries.

    A wrong graph is wrong in each try, and one that draws random numbers is so at most numbers. But on a busy
    machine, for minutes at a time, runs of a right graph were seen to be off by 1e-7 to 1e-3: in some rows,
    others in each run. `python -m benchmarks equal-bits` watched 162,000 later runs without one; see
    docs/savedmodel.md for what that excludes.
    """
    runs = (loaded, loaded, served, served)  # twice, or a graph with a state would pass
    case = {**case, "outputs": _certain(case, case["outputs"])}
    answers: list[Arrays] = []
    wrong_yet: list[Wrong] = []
    for _ in range(_TRIES):
        answers = [_certain(case, run(case["signature"], case["inputs"])) for run in runs]
        for answer in answers:
            other = _other_form(case, answer)
            if other:
                return other
        wrong_now = [_wrong_numbers(case, answer) for answer in answers]
        wrong_yet = [_in_both(*each) for each in zip(wrong_yet or wrong_now, wrong_now, strict=True)]
        if not any(values.any() for each in wrong_yet for values in each.values()):
            return None
    return _reason(case, answers, wrong_yet)


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
    rewriting = options.graph_options.rewrite_options
    rewriting.meta_optimizer_iterations = 1
    rewriting.disable_tfg_optimizer = True
    rewriting.memory_optimization = rewriting.NO_MEM_OPT
    session = tf.compat.v1.Session(graph=tf.Graph(), config=options)
    with session.graph.as_default():
        signatures = tf.compat.v1.saved_model.load(session, ["serve"], saved_model).signature_def

    def run(signature: str, inputs: Arrays) -> Arrays:
        definition = signatures[signature]
        feeds = {definition.inputs[name].name: value for name, value in inputs.items()}
        fetches = {name: info.name for name, info in definition.outputs.items()}
        return {name: np.asarray(value) for name, value in session.run(fetches, feeds).items()}

    return run


def _certain(case: dict[str, Any], outputs: Arrays) -> Arrays:
    """Return outputs without the rows whose answer may be another, and the columns that only those have.

    They are the rows that are no farther from another answer than probabilities may be off; a case says how
    far each is (`margins`) where its outputs, such as spans, do not tell. If all rows are, outputs are left
    without values: those of certain rows tell their other sizes.
    """
    certain = np.asarray(case.get("margins", []), "float64") > 2 * case["tolerance"]
    if certain.all() or any(len(value) != len(certain) for value in outputs.values()):
        return outputs
    if not certain.any():
        return {name: value.reshape(-1)[:0] for name, value in outputs.items()}
    rows = {name: value[certain] for name, value in outputs.items()}
    if _COUNT not in rows:
        return rows
    most = int(rows[_COUNT].max())
    return {name: value[:, :most] if value.ndim > 1 else value for name, value in rows.items()}


def _other_form(case: dict[str, Any], found: Arrays) -> str | None:
    if set(found) != set(case["outputs"]):
        return f"the outputs are {sorted(found)} instead of {sorted(case['outputs'])}"
    for name, wanted in case["outputs"].items():
        if found[name].shape != wanted.shape:
            return f"{name} has shape {found[name].shape} instead of {wanted.shape}"
    return None


def _wrong_numbers(case: dict[str, Any], found: Arrays) -> Wrong:
    """Return which values of each output are wrong."""
    ties, nowhere = _ties(case["outputs"], found, case["tolerance"]), np.False_
    return {
        name: _wrong_values(wanted, found[name], ties.get(name, nowhere), case["tolerance"])
        for name, wanted in case["outputs"].items()
    }


def _wrong_values(wanted: np.ndarray, value: np.ndarray, tied: Any, tolerance: float) -> np.ndarray:
    if wanted.dtype.kind == "f":
        return ~(_apart(wanted, value) <= tolerance) & ~tied
    different = np.asarray(wanted != value) & ~tied
    # All at once: each value of a graph that draws one of two would soon be right by chance.
    return np.full(different.shape, different.any())


def _ties(wanted: Arrays, found: Arrays, tolerance: float) -> Wrong:
    """Return by output where an answer may be another than the model's.

    Labels have no distance. They may differ only where probabilities within the tolerance of the model's
    decide otherwise: at a tie of the rule that chose the labels. The rules are those of
    `signatures/answers.py`.
    """
    probabilities, ties = wanted.get(_PROBABILITIES), {}
    if probabilities is None:
        return ties
    if _LABELS in wanted and wanted[_LABELS].shape == probabilities.shape:
        # A label in one of the answers, "" in the other. Whose name it is, a case does not say.
        one = (wanted[_LABELS] == b"") != (found[_LABELS] == b"")
        ties[_LABELS] = one & (np.abs(probabilities - _THRESHOLD) <= tolerance)
    if _LABEL in wanted and wanted[_LABEL].shape == probabilities.shape[:-1]:
        ties[_LABEL] = np.isnan(probabilities).any(axis=-1)  # no rule chooses among these
        if _SCORE in wanted and wanted[_SCORE].shape == wanted[_LABEL].shape:
            ties[_SCORE] = np.asarray(wanted[_LABEL] != found[_LABEL])
            ties[_SCORE] &= _tied_rows(probabilities, wanted[_SCORE], found[_SCORE], ties[_SCORE], tolerance)
            ties[_LABEL] |= ties[_SCORE]
        elif probabilities.shape[-1] > 1:
            best = np.sort(probabilities, axis=-1)[..., -2:]
            ties[_LABEL] |= best[..., -1] - best[..., 0] <= 2 * tolerance
    return ties


def _tied_rows(
    probabilities: np.ndarray, wanted: np.ndarray, found: np.ndarray, other: np.ndarray, tolerance: float
) -> np.ndarray:
    """Return where another label may be right: there its score is that of another class, in a row that ties.

    Rows whose labels mark spans are chosen whole, by the product of their labels' probabilities, so a tie of
    two rows changes labels, and their scores, that are far from a tie by themselves.

    Args:
        probabilities: the model's, float `[rows, classes]` or `[rows, positions, classes]`.
        wanted: the model's scores, the probabilities of its labels, float `[rows]` or `[rows, positions]`.
        found: the graph's scores.
        other: bool, of the same shape, True where the labels differ.
        tolerance: the largest difference of the graph's probabilities from the model's.
    """
    with_score = (np.abs(probabilities - found[..., None]) <= tolerance).sum(axis=-1)
    other_class = with_score > (np.abs(wanted - found) <= tolerance)  # the model's own is one of them
    other_class &= (probabilities > 0).any(axis=-1)  # padding has no class
    first, second = wanted.astype("float64"), found.astype("float64")
    # What both rows of labels share decides nothing: only its tolerance would count, once for each position.
    apart = other | ~(np.abs(first - second) <= tolerance)
    tied = (_log_product(second, apart) >= _log_product(first - tolerance, apart)) & (
        _log_product(first, apart) >= _log_product(second - tolerance, apart)
    )
    return other_class & tied


def _log_product(scores: np.ndarray, apart: np.ndarray) -> np.ndarray:
    """Return the logarithm of the product of each row's scores, for each of its positions."""
    logs = np.where(apart, np.log(np.maximum(scores, _LEAST)), 0.0)
    return logs if logs.ndim == 1 else logs.sum(axis=-1, keepdims=True)


def _apart(first: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return relative distances: 0 from NaN to NaN and between equal infinities, else none that is finite."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(other.astype("float64") - first) / np.maximum(1, np.abs(first))
    return np.where((first == other) | (np.isnan(first) & np.isnan(other)), 0.0, apart)


def _in_both(first: Wrong, second: Wrong) -> Wrong:
    return {name: first[name] & second[name] for name in first}


def _reason(case: dict[str, Any], answers: list[Arrays], wrong_yet: list[Wrong]) -> str:
    """Say what is wrong: the first output, of the first run, with a value that was right in no try."""
    place, name = next((n, name) for n, each in enumerate(wrong_yet) for name in each if each[name].any())
    first, again = (answers[n][name] for n in (place // 2 * 2, place // 2 * 2 + 1))
    wanted, allowed = case["outputs"][name], case["tolerance"]
    if wanted.dtype.kind != "f":
        return (
            f"{name} changed between two runs"
            if (first != again).any()
            else f"{name} differs from the model's"
        )
    changed = np.nanmax(_apart(first, again), initial=0.0)
    if changed > allowed:
        return f"{name} changed by {changed:.2g} (allowed: {allowed:.0e}) between two runs"
    worst = _apart(wanted, answers[place][name]).max()
    return f"{name} differs from the model's by {worst:.2g} (allowed: {allowed:.0e})"


def _milliseconds(run: Run, case: dict[str, Any]) -> float:
    """Return the median time of a request."""
    times = []
    for _ in range(_TIMED):
        started = time.perf_counter()
        run(case["signature"], case["inputs"])
        times.append(time.perf_counter() - started)
    return round(1000 * statistics.median(times), 3)


if __name__ == "__main__":
    status = main(*sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # to free the graphs of a process that ends would take a tenth of its time

"""`benchmarks accelerated`: an encoder on the device that JAX and PyTorch find, a GPU if there is one."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.case import Case, seeded_lengths
from benchmarks.results import Result, Table
from benchmarks.rounds import Contestant, Settings, Workers

_JAX = {
    "KERAS_BACKEND": "jax",
    "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS", ""),
    # Each contestant has a process, and all share the device.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
_SEEN = {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0")}
_PEERS = "benchmarks.peers"
CONTESTANTS = [
    Contestant("ours on JAX", f"{_PEERS}.keras_jax:ours", {**_JAX, **_SEEN}),
    Contestant("Keras' own layers on JAX", f"{_PEERS}.keras_jax:own", {**_JAX, **_SEEN}),
    Contestant("torch", f"{_PEERS}.pytorch:build", _SEEN, {"device": "accelerator"}),
]
_LAYERS = 4
# Batch, longest, width; a quarter of each batch is padding.
_SHAPES = ((64, 128, 256), (32, 512, 512), (4, 2048, 512))
_PRECISIONS = ("bfloat16", "tensorfloat32", "float32")
_NOTES = [
    f"{_LAYERS} post-norm blocks, 8 heads, batches of lengths from half the longest on, padded, with a mask.",
    "A training step is forward and backward with dropout 0.1 and the gradient of all weights, no optimizer.",
    "Each measured call ends when the device has finished. `differs` is from the same encoder in NumPy.",
    "tensorfloat32: float32 numbers whose products are rounded to 10 bits, JAX's default on a GPU.",
]


def run(settings: Settings) -> Table:
    """Return wall milliseconds of inference and of a training step, and the differences from NumPy's."""
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder, _workers(settings) as workers:
        for shape in [(2, 16, 32)] if settings.quick else _SHAPES:
            reference = Path(folder, "x".join(map(str, shape)) + ".npz")
            for case in _cases(shape):
                chosen = [each for each in CONTESTANTS if settings.chosen(case.name, each.name)]
                if chosen:
                    results += _measured(workers, replace(case, reference=str(reference)), chosen, settings)
    return Table(results, _NOTES)


def _workers(settings: Settings) -> Workers:
    return Workers(settings, one_thread=False, built_together=True)


def _cases(shape: tuple[int, int, int]) -> list[Case]:
    batch, longest, width = shape
    return [
        Case(
            f"{batch}x{longest}, d={width}, {precision}, {'training' if training else 'inference'}",
            seeded_lengths(batch, longest),
            width,
            layers=_LAYERS,
            dtype="bfloat16" if precision == "bfloat16" else "float32",
            precision=precision,
            training=training,
        )
        for precision in _PRECISIONS
        for training in (False, True)
    ]


def _measured(
    workers: Workers, case: Case, contestants: list[Contestant], settings: Settings
) -> list[Result]:
    if not Path(case.reference).exists():
        from benchmarks.reference import write_reference

        settings.progress(f"{case.name}: reference")
        write_reference(case, Path(case.reference))
    results = workers.measure(case.name, case.to_json(), contestants)
    ours = next((each.figures.get("wall median ms") for each in results if "ours" in each.contestant), None)
    return [_beside(result, ours, case) for result in results]


def _beside(result: Result, ours: float | None, case: Case) -> Result:
    taken = result.figures.get("wall median ms")
    if taken is None:
        return result
    more: dict[str, Any] = {"times ours": taken / ours} if ours else {}
    return result.with_figures(**{"TFLOP/s": case.flops() / taken / 1e9}, **more)

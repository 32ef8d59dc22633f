"""`bench attention` and `bench training`: an encoder block beside those of other libraries, same weights."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.case import Case, seeded_lengths
from benchmarks.peers.matmul import SIZE
from benchmarks.results import Result, Table
from benchmarks.rounds import Contestant, Settings, Workers, measure_memory

_PEERS = "benchmarks.peers"
_SHAPES = ((32, 128), (32, 512), (4, 2048))
_WIDTHS = (128, 512)
_SENTENCES = 32
_WALL = ("wall median ms", "wall min ms")
OURS = Contestant("ours", f"{_PEERS}.keras_tensorflow:ours")
KERASHUB = Contestant("KerasHub", f"{_PEERS}.keras_tensorflow:kerashub")
OURS_JAX = Contestant("ours on JAX", f"{_PEERS}.keras_jax:ours", {"KERAS_BACKEND": "jax"})
JAX = Contestant("KerasHub on JAX", f"{_PEERS}.keras_jax:kerashub", {"KERAS_BACKEND": "jax"})
TORCH = Contestant("torch", f"{_PEERS}.pytorch:build")
TORCH_EAGER = Contestant("torch", f"{_PEERS}.pytorch:build_eager")
OPENVINO = Contestant("OpenVINO", f"{_PEERS}.openvino_runtime:build")
ONNX = Contestant("ONNX Runtime", f"{_PEERS}.onnx_runtime:build")
_MATMUL = Contestant("matmul", f"{_PEERS}.matmul:build")


def run(
    settings: Settings,
    *,
    training: bool,
    sentences: tuple[str, Sequence[str]] | None = None,
    memory: bool = True,
    all_cores: bool = True,
) -> Table:
    """Return the figures of every row: CPU time of one thread, wall time on all cores, memory, differences.

    Args:
        settings: the settings of the measurement.
        training: forward and backward with the gradient of all weights, instead of inference.
        sentences: name and texts of a data set, for a row with their lengths; None = no such row.
        memory: True to measure memory, too, in a fresh process each.
        all_cores: True to measure wall time on all cores, too: the time of the run doubles.
    """
    notes = []
    cases = _cases(settings.quick, training)
    if sentences is None:
        notes.append("Real sentences: skipped, for want of --data FILE.csv.")
    else:
        cases += sentence_cases(*sentences, training=training)
    with tempfile.TemporaryDirectory() as folder:
        rows = [_Row(replace(case, reference=f"{folder}/{i}.npz"), settings) for i, case in enumerate(cases)]
        rows = [row for row in rows if row.contestants]
        for row in rows:
            settings.progress(f"{row.case.name}: reference")
            row.write_reference()
        with Workers(settings) as workers:
            rates = _Rates(workers)
            found = [row.cpu(workers, rates) for row in rows]
            notes += rates.told()
        found = [[_without_wall(result) for result in results] for results in found]
        if all_cores:
            with Workers(settings, one_thread=False) as workers:
                found = [row.wall(workers, results) for row, results in zip(rows, found, strict=True)]
        if memory:
            found = [row.memory(results) for row, results in zip(rows, found, strict=True)]
    notes += [f"{row.case.name}: {row.told()}" for row in rows]
    return Table([result for results in found for result in results], notes)


def _cases(quick: bool, training: bool) -> list[Case]:
    if quick:
        return [Case("2x16, d=32", seeded_lengths(2, 16), 32, training=training)]
    plain = [
        Case(f"{batch}x{longest}, d={width}", seeded_lengths(batch, longest), width, training=training)
        for width in _WIDTHS
        for batch, longest in _SHAPES
    ]
    if training:
        return plain
    half = [replace(c, name=f"{c.name}, bfloat16", dtype="bfloat16") for c in plain if c.width == 512]
    relu = [replace(c, name=f"{c.name}, ReLU", activation="relu") for c in plain if c.width == 128]
    latency = Case("1x32, d=128, 2 layers exported", (32,), 128, layers=2, exported=True)
    return [*plain, *half, *relu, latency]


def sentence_cases(name: str, texts: Sequence[str], *, training: bool) -> list[Case]:
    """Cases of the lengths, in words, of evenly spaced texts: a file is often sorted by its labels."""
    step = max(1, len(texts) // _SENTENCES)
    lengths = tuple(max(1, len(text.split())) for text in texts[::step][:_SENTENCES])
    label = f"{len(lengths)} texts of {name}, longest {max(lengths)} words"
    return [Case(f"{label}, d={width}", lengths, width, training=training) for width in _WIDTHS]


class _Row:
    """A case and its contestants."""

    def __init__(self, case: Case, settings: Settings) -> None:
        self.case = case
        self._settings = settings
        self.contestants = [c for c in competing(case) if settings.chosen(case.name, c.name)]

    def told(self) -> str:
        lengths = self.case.lengths
        return (
            f"{len(lengths)} sequences of {min(lengths)} to {max(lengths)} tokens, {sum(lengths):,} in all, "
            f"{sum(lengths) / len(lengths) / max(lengths):.0%} of the padded batch; "
            f"{self.case.flops() / 1e9:.3g} GFLOP"
        )

    def write_reference(self) -> None:
        from benchmarks.reference import write_reference

        write_reference(self.case, Path(self.case.reference))

    def cpu(self, workers: Workers, rates: "_Rates") -> list[Result]:
        """One thread: times, the ratio to ours and the share of the machine's own rate."""
        results = workers.measure(self.case.name, self.case.to_json(), self.contestants)
        ours = next((r.figures.get("cpu median ms") for r in results if r.contestant == OURS.name), None)
        rate = rates.gflops(self.case.dtype)
        found = []
        for result in results:
            taken = result.figures.get("cpu median ms")
            if taken is None:
                found.append(result)
                continue
            share = self.case.flops() / (taken * 1e6) / rate if rate else float("nan")
            more = {"of matmul rate": share, "matmul GFLOP/s": rate}
            found.append(result.with_figures(**more, **({"times ours": taken / ours} if ours else {})))
        return found

    def wall(self, workers: Workers, results: list[Result]) -> list[Result]:
        """All cores, for contestants already measured on one thread; these wall times replace the earlier."""
        good = {result.contestant for result in results if not result.skipped}
        contestants = [c for c in self.contestants if c.name in good]
        measured = workers.measure(self.case.name, self.case.to_json(), contestants, check=False)
        times = {result.contestant: result for result in measured}
        return [_with_wall(result, times.get(result.contestant)) for result in results]

    def memory(self, results: list[Result]) -> list[Result]:
        found = []
        for contestant, result in zip(self.contestants, results, strict=True):
            if not result.skipped:
                fresh = TORCH_EAGER if contestant is TORCH else contestant
                grown = measure_memory(self.case.name, self.case.to_json(), fresh, self._settings)
                result = result.with_figures(**grown.figures)  # noqa: PLW2901
            found.append(result)
        return found


def competing(case: Case) -> list[Contestant]:
    """Return the contestants of a case. ONNX Runtime runs only ReLU: it refuses the exported GELU."""
    if case.activation == "relu":
        return [OURS, KERASHUB, ONNX]
    return [OURS, KERASHUB, OURS_JAX, JAX, TORCH, *([] if case.training else [OPENVINO])]


class _Rates:
    """The rate of a large matrix product on one thread, measured once for each dtype of the run."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._known: dict[str, float] = {}

    def gflops(self, dtype: str) -> float:
        if dtype not in self._known:
            fields: dict[str, Any] = {"dtype": dtype}
            (result,) = self._workers.measure(f"matmul {dtype}", fields, [_MATMUL], check=False)
            taken = result.figures.get("cpu median ms")
            self._known[dtype] = 2 * SIZE**3 / (taken * 1e6) if taken else 0.0
        return self._known[dtype]

    def told(self) -> list[str]:
        found = ", ".join(f"{rate:.0f} in {dtype}" for dtype, rate in self._known.items())
        return [f"Peak, GFLOP/s of a {SIZE}x{SIZE} matrix product on one thread: {found}."] if found else []


def _without_wall(result: Result) -> Result:
    """Without the wall times of one thread, which would look like those of all cores."""
    return replace(result, figures={k: v for k, v in result.figures.items() if k not in _WALL})


def _with_wall(result: Result, on_all_cores: Result | None) -> Result:
    """With the wall times of all cores; the contestant may have used another form there."""
    if on_all_cores is None:
        return result
    found = {name: on_all_cores.figures.get(name, float("nan")) for name in _WALL}
    note = on_all_cores.skipped and f"on all cores: {on_all_cores.skipped}"
    return replace(result.with_figures(**found), note="; ".join(filter(None, (result.note, note))))

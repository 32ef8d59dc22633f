"""`bench memory`: the memory by which a fresh process grows in its first call, and its growth with length."""

from collections.abc import Sequence
from typing import Any

from benchmarks.case import Case, seeded_lengths
from benchmarks.encoders import JAX, KERASHUB, OURS, OURS_JAX, TORCH_EAGER
from benchmarks.results import Result, Table, exponent
from benchmarks.rounds import Contestant, Settings, measure_memory

WIDTH = 128
WINDOW = 256
LEAST_MB = 1.0  # a call that needs less may find it in memory that its process has free already
_LENGTHS = (512, 1024, 2048, 4096)
_QUICK_LENGTHS = (128, 256)
_LONG_TRAINING, _LONG_INFERENCE = 16_384, 131_072
_LAYERS = "benchmarks.peers.sequence_layers:build"
_WINDOW = Contestant(f"ours, window {WINDOW}", OURS.build, fields={"window": WINDOW})
_LINEAR = Contestant("ours, linear attention", _LAYERS, fields={"layer": "linear attention"})
_PATHS = (OURS, _WINDOW, _LINEAR, OURS_JAX, KERASHUB, JAX, TORCH_EAGER)


def run(settings: Settings) -> Table:
    """Return the memory of every row, and for each path the exponent of its growth with the length."""
    results = [] if settings.quick else _rows(_batches(), settings)
    lengths = _QUICK_LENGTHS if settings.quick else _LENGTHS
    growth = []
    for training in (False, True):
        kind = "training" if training else "inference"
        cases = [_case(f"1x{length}, {kind}", (length,), training=training) for length in lengths]
        measured = _rows([(case, _PATHS) for case in cases], settings)
        growth += growth_of(measured, f"growth with the length, {kind}", lengths, "memory MB", least=LEAST_MB)
        results += measured
    notes = [
        f"d={WIDTH}, 8 heads; one encoder block unless two are named; of linear attention the layer.",
        "Memory is what the peak of the resident set grew by in the first call after one of 8 tokens.",
        f"Exponents are fitted by least squares to what is at least {LEAST_MB:g} MB.",
    ]
    return Table([*results, *growth], notes)


def growth_of(
    results: Sequence[Result],
    row: str,
    sizes: Sequence[float],
    figure: str,
    *,
    name: str = "memory exponent",
    least: float = 0.0,
) -> list[Result]:
    """Return the fitted exponent of each contestant that has a figure for every size.

    Args:
        results: in the order of `sizes`, contestants in any order.
        row: name of the row that holds the exponents.
        sizes: the sizes that the figure grows with.
        figure: the name of the figure.
        name: the name of the exponent.
        least: smaller values are left out of the fit.
    """
    found = []
    for contestant in dict.fromkeys(result.contestant for result in results):
        values = [r.figures.get(figure) for r in results if r.contestant == contestant]
        known = [value for value in values if value is not None]
        if len(known) == len(sizes):
            found.append(
                Result(row, contestant, {name: exponent(sizes, [v if v >= least else 0.0 for v in known])})
            )
    return found


def _batches() -> list[tuple[Case, tuple[Contestant, ...]]]:
    three = (OURS, KERASHUB, TORCH_EAGER)
    lengths = seeded_lengths(4, 2048)
    return [
        (_case("4x2048, inference", lengths), three),
        (_case("4x2048, training", lengths, training=True), three),
        (
            _case(f"1x{_LONG_TRAINING}, 2 layers, training", (_LONG_TRAINING,), training=True, layers=2),
            (OURS,),
        ),
        (_case(f"1x{_LONG_INFERENCE}, inference", (_LONG_INFERENCE,)), (_WINDOW, _LINEAR)),
    ]


def _case(name: str, lengths: tuple[int, ...], *, training: bool = False, layers: int = 1) -> Case:
    return Case(name, lengths, WIDTH, training=training, layers=layers)


def _rows(rows: Sequence[tuple[Case, tuple[Contestant, ...]]], settings: Settings) -> list[Result]:
    return [
        measure_memory(case.name, _fields(case), contestant, settings)
        for case, contestants in rows
        for contestant in contestants
        if settings.chosen(case.name, contestant.name)
    ]


def _fields(case: Case) -> dict[str, Any]:
    """The case for encoder blocks, and the settings of a single layer."""
    return {**case.to_json(), "length": max(case.lengths)}

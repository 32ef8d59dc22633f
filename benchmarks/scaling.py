"""`bench scaling`: the comparison of layers that lectures show on paper, here also measured.

Reference: Vaswani et al. 2017, "Attention Is All You Need", section 4 and table 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.memory import LEAST_MB, growth_of
from benchmarks.peers.sequence_layers import HEADS, KERNEL
from benchmarks.results import Result, Table
from benchmarks.rounds import Contestant, Settings, Workers, measure_memory

EXPONENTS = "exponents"  # the name of the row that holds the exponents
REACH = 64  # positions that window attention sees to either side
_LENGTHS, _WIDTH = (512, 1024, 2048, 4096, 8192), 128
_WIDTHS, _LENGTH = (64, 128, 256, 512), 1024
_QUICK_LENGTHS, _QUICK_WIDTHS = (128, 256), (32, 64)
_BUILD = "benchmarks.peers.sequence_layers:build"


@dataclass(frozen=True)
class Kind:
    """A kind of layer, and its costs on paper for n positions of width d.

    Args:
        name: the name of the measured layer.
        cost: operations of one layer.
        sequential: operations that must wait for each other, as a formula and for n.
        path: layers, or steps, between the two positions farthest apart, as a formula and for n.
    """

    name: str
    cost: str
    sequential: tuple[str, Callable[[int], int]]
    path: tuple[str, Callable[[int], int]]


def stacked_path(n: int, k: int) -> int:
    """Return n / k, rounded up: the number of stacked layers that each see k neighbours.

    Example:

        >>> stacked_path(1000, 9)
        112
    """
    return max(1, -(-n // k))


def dilated_path(n: int, k: int) -> int:
    """Return log_k n, rounded up: the number of layers whose gaps, and so their reach, grow k-fold.

    Example:

        >>> dilated_path(729, 9), dilated_path(730, 9)
        (3, 4)
    """
    # In integers: the logarithm of a power of k may come out a little above its exponent.
    layers, seen = 0, 1
    while seen < n:
        layers, seen = layers + 1, seen * k
    return max(1, layers)


_AT_ONCE = ("1", lambda _: 1)
_IN_TURN = ("n", lambda n: n)
KINDS = (
    Kind("convolution", "k n d²", _AT_ONCE, ("n / k", lambda n: stacked_path(n, KERNEL))),
    Kind("dilated convolution", "k n d²", _AT_ONCE, ("log_k n", lambda n: dilated_path(n, KERNEL))),
    Kind("LSTM", "n d²", _IN_TURN, _IN_TURN),
    Kind("GRU", "n d²", _IN_TURN, _IN_TURN),
    Kind("self-attention", "n² d", _AT_ONCE, _AT_ONCE),
    Kind("window attention", "n w d", _AT_ONCE, ("n / w", lambda n: stacked_path(n, 2 * REACH + 1))),
    Kind("linear attention", "n d² / h", _AT_ONCE, _AT_ONCE),
)


def run(settings: Settings) -> Table:
    """Return each kind's time for each length and width, its memory for each length, and the exponents."""
    lengths = _QUICK_LENGTHS if settings.quick else _LENGTHS
    widths = _QUICK_WIDTHS if settings.quick else _WIDTHS
    width, length = (_QUICK_WIDTHS[0], _QUICK_LENGTHS[0]) if settings.quick else (_WIDTH, _LENGTH)
    with Workers(settings) as workers:
        by_length = _measured(workers, settings, [(n, width) for n in lengths])
        by_width = _measured(workers, settings, [(length, d) for d in widths if d != width])
    by_length = [_with_memory(result, settings) for result in by_length]
    results = [*by_length, *by_width]
    at_length = sorted((r for r in results if r.figures.get("n") == length), key=lambda r: r.figures["d"])
    exponents = _joined(
        growth_of(by_length, EXPONENTS, lengths, "cpu median ms", name="time with length"),
        growth_of(by_length, EXPONENTS, lengths, "memory MB", name="memory with length", least=LEAST_MB),
        growth_of(at_length, EXPONENTS, widths, "cpu median ms", name="time with width"),
    )
    notes = [
        f"n positions, width d, k = {KERNEL} positions of a convolution, w = {2 * REACH + 1} of a window, "
        f"h = {HEADS} heads; one sequence, inference.",
        "On paper are products of pairs or positions only. The attention layers' projections, 4 n d², come "
        "on top, and so does all else that a computer does: fitted exponents need not be the formulas'.",
        f"Fitted by least squares; memory from {LEAST_MB:g} MB on.",
    ]
    return Table([*results, *exponents], notes)


def _contestants(settings: Settings, row: str) -> list[Contestant]:
    made = [Contestant(kind.name, _BUILD, fields={"layer": kind.name}) for kind in KINDS]
    return [contestant for contestant in made if settings.chosen(row, contestant.name)]


def _measured(workers: Workers, settings: Settings, sizes: Sequence[tuple[int, int]]) -> list[Result]:
    found = []
    for n, d in sizes:
        row = f"n={n}, d={d}"
        results = workers.measure(row, _case(n, d), _contestants(settings, row))
        found += [_with_theory(result, n, d) for result in results]
    return found


def _case(n: int, d: int) -> dict[str, Any]:
    return {"length": n, "width": d, "window": REACH}


def _with_theory(result: Result, n: int, d: int) -> Result:
    kind = next(kind for kind in KINDS if kind.name == result.contestant)
    return result.with_figures(
        n=n, d=d, **{"sequential operations": kind.sequential[1](n), "maximum path length": kind.path[1](n)}
    )


def _with_memory(result: Result, settings: Settings) -> Result:
    if result.skipped:
        return result
    contestant = Contestant(result.contestant, _BUILD, fields={"layer": result.contestant})
    case = _case(int(result.figures["n"]), int(result.figures["d"]))
    return result.with_figures(**measure_memory(result.row, case, contestant, settings).figures)


def _joined(*parts: Sequence[Result]) -> list[Result]:
    """One result for each contestant, with the figures of all parts and its formulas as the note."""
    figures: dict[str, dict[str, float]] = {}
    for result in (result for part in parts for result in part):
        figures.setdefault(result.contestant, {}).update(result.figures)
    kinds = {kind.name: kind for kind in KINDS}
    return [Result(EXPONENTS, name, found, _on_paper(kinds[name])) for name, found in figures.items()]


def _on_paper(kind: Kind) -> str:
    return f"O({kind.cost}), {kind.sequential[0]} in turn, path {kind.path[0]}"

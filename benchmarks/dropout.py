"""`bench dropout`: the time of dropout in training for each element, and its effect on the elements."""

from dataclasses import replace
from typing import Any

from benchmarks.results import Result, Table
from benchmarks.rounds import Contestant, Settings, Workers, measure_memory

RATE = 0.1
_SHAPE = (4, 8, 512, 512)  # the attention weights of 4 sequences of 512, 8 heads
_QUICK_SHAPE = (2, 2, 64, 64)
_PEERS = "benchmarks.peers.dropouts"
_COMPILED = "Compiled: tf.function(jit_compile=True), whose memory holds the compiler's, and torch.compile."
_KINDS = {
    "ours": "ours",
    "keras.layers.Dropout": "keras_layer",
    "tf.nn.dropout": "tensorflow",
    "torch dropout": "pytorch",
}
CONTESTANTS = tuple(
    Contestant(f"{name}, compiled" if compiled else name, f"{_PEERS}:{build}", fields={"compiled": compiled})
    for compiled in (False, True)
    for name, build in _KINDS.items()
)


def run(settings: Settings) -> Table:
    """Return nanoseconds of CPU time on one thread for each element, the share dropped and the variance."""
    shape = _QUICK_SHAPE if settings.quick else _SHAPE
    case: dict[str, Any] = {"shape": shape, "rate": RATE}
    row = f"{'x'.join(map(str, shape))}, rate {RATE}"
    contestants = [c for c in CONTESTANTS if settings.chosen(row, c.name)]
    with Workers(settings) as workers:
        timed = workers.measure(row, case, contestants)
    results = [_with_elements(result, shape) for result in timed]
    for index, contestant in enumerate(contestants):
        if not results[index].skipped:
            grown = measure_memory(row, case, contestant, settings)
            results[index] = results[index].with_figures(**grown.figures)
    exact = f"At rate {RATE} the exact share is {RATE}, the exact variance of ones {RATE / (1 - RATE):.4f}."
    return Table(results, [exact, _COMPILED])


def _with_elements(result: Result, shape: tuple[int, ...]) -> Result:
    taken = result.figures.get("cpu median ms")
    if taken is None:
        return result
    elements = 1
    for size in shape:
        elements *= size
    return replace(result, figures={"ns per element": taken * 1e6 / elements, **result.figures})

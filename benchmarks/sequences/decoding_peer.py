"""A contestant of decoding, prepared for its worker: its function of sources, measured and compared.

Axes: B (sources), S (symbols of a source), L (symbols of an answer).
"""

import time
from collections.abc import Callable

import numpy as np

from benchmarks.prepared import Prepared
from benchmarks.sequences.decoding_case import Array, DecodingCase, padded

# From sources, int32 `[B, S]`, to the ids of answers, `[B, L]`, and their scores, `[B]`.
Decode = Callable[[Array], tuple[Array, Array]]


def prepared_decoder(case: DecodingCase, make: Callable[[DecodingCase], Decode]) -> Prepared:
    """Return a contestant that answers the case's sources.

    Args:
        case: what is measured.
        make: loads the model; its CPU time and that of a first answer are a figure.
    """
    start = time.process_time()
    decode = make(case)
    batches = case.batches()
    first = batches[0][:1]
    decode(first)
    ready = time.process_time() - start

    def run() -> list[tuple[Array, Array]]:
        return [decode(batch) for batch in batches]

    def figures() -> dict[str, float]:
        found = run()
        ids = [row for batch, _ in found for row in batch]
        np.savez(case.answers, ids=padded(ids), scores=np.concatenate([scores for _, scores in found]))
        return {"ready cpu s": ready}

    return Prepared(run, lambda: decode(first), figures=figures)

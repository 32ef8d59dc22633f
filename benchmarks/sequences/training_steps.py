"""`benchmarks training-steps`: a step of training from texts to texts, beside torch's `nn.Transformer`."""

import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import Result, Table
from benchmarks.rounds import Contestant, Settings, Workers, measure_memory
from keras_selfattn.data.labelled import LabelledRows

Array = np.ndarray
# Sources `[B, S]`, targets `[B, T]` with the begin symbol first, and labels `[B, T]`, int32, padded with 0.
Batch = tuple[Array, Array, Array]

SMOOTHING, RATE = 0.1, 1e-4
OURS = Contestant("ours", "benchmarks.peers.sequence_steps:ours")
CONTESTANTS = (OURS, Contestant("nn.Transformer on torch", "benchmarks.peers.sequence_steps:torch"))
_SIZES = {
    "3 + 3 x 256": {"width": 256, "num_layers": 3, "decoder_layers": 3, "num_heads": 4},
    "6 + 6 x 512": {"width": 512, "num_layers": 6, "decoder_layers": 6, "num_heads": 8},
}
_TINY = {"width": 16, "num_layers": 1, "decoder_layers": 1, "num_heads": 2}
_BATCHES, _ROWS = 8, 64
_TIMES = ("cpu median ms", "cpu min ms", "wall median ms", "wall min ms")
# Losses that are further apart are of other models.
_APART = 1e-3
_NOTES = [
    "Forward and backward pass, dropout of 0.1, label smoothing of 0.1, Adam; sources, answers and logits "
    "share the vectors of symbols. The loss is that of the first batch, before training, without dropout.",
]


@dataclass(frozen=True)
class StepsCase:
    """Batches on which a model is trained, the same for every contestant.

    Args:
        batches: file that `write_batches` wrote.
        vocabulary: number of symbols.
        config: fields of the model's config.
    """

    batches: str
    vocabulary: int
    config: Mapping[str, Any]

    def read(self) -> list[Batch]:
        """Return the batches."""
        with np.load(self.batches) as found:
            arrays = [found[f"arr_{place}"] for place in range(len(found.files))]
        return [tuple(arrays[start : start + 3]) for start in range(0, len(arrays), 3)]  # pyright: ignore[reportReturnType]


def write_batches(batches: list[Batch], path: Path) -> None:
    """Write batches for `StepsCase.read`."""
    np.savez(path, *(array for batch in batches for array in batch))


def run(settings: Settings, rows: LabelledRows) -> Table:
    """Return CPU milliseconds of a step of one thread, and the memory that the first ones take.

    Args:
        settings: of the measurement.
        rows: sources with their answers, of which the pieces are learned; 8 batches of 64 are measured.
    """
    results, notes = [], list(_NOTES)
    with tempfile.TemporaryDirectory() as folder, Workers(settings) as workers:
        file = Path(folder, "batches.npz")
        vocabulary, told = _written(rows, file, settings.quick)
        notes.append(told)
        for name, config in {"tiny": _TINY}.items() if settings.quick else _SIZES.items():
            chosen = [each for each in CONTESTANTS if settings.chosen(name, each.name)]
            case = asdict(StepsCase(str(file), vocabulary, config))
            timed = compared(workers.measure(name, case, chosen))
            results += [_of_a_step(each, case, chosen, settings) for each in timed]
    return Table(results, notes)


def _written(rows: LabelledRows, file: Path, quick: bool) -> tuple[int, str]:
    """Write batches of rows; return the number of symbols, and a note of both."""
    from keras_selfattn import models
    from keras_selfattn.models.sequences.sequence_batches import SequenceBatches

    model = models.SequenceToSequence(_TINY)
    targets = [answers[0] for answers in rows.targets]
    model.adapt(list(rows.inputs), targets)
    symbols, most = model.symbols, model.config.max_new_tokens
    sources, answers = symbols.rows(rows.inputs)[0], symbols.answers(targets, most)[0]
    order: dict[str, Any] = {"vocabulary_size": symbols.size, "shuffle": True, "seed": 0, "pool": 4096}
    made = SequenceBatches(sources, answers, batch_size=4 if quick else _ROWS, **order)
    batches = [(*inputs, labels) for _, (inputs, labels) in zip(range(_BATCHES), made, strict=False)]
    write_batches(batches, file)
    read, written = (np.mean([np.count_nonzero(batch[side]) for batch in batches]) for side in (0, 2))
    told = f"{symbols.size:,} pieces; a batch has {read:.0f} symbols of sources and {written:.0f} of answers."
    return symbols.size, told


def compared(results: list[Result]) -> list[Result]:
    """Return the results; one whose loss is not that of the first measured one is refused."""
    first = next((each.figures["loss"] for each in results if not each.skipped), float("nan"))

    def checked(result: Result) -> Result:
        if result.skipped or abs(result.figures["loss"] - first) <= _APART:
            return result
        loss = result.figures["loss"]
        return replace(result, figures={}, skipped=f"refused: the loss is {loss:.4f} instead of {first:.4f}")

    return [checked(result) for result in results]


def _of_a_step(result: Result, case: dict[str, Any], chosen: list[Contestant], settings: Settings) -> Result:
    """Return the result with the times of one step, and the memory."""
    if result.skipped:
        return result
    count = len(StepsCase(**case).read())
    figures = {name: value / count if name in _TIMES else value for name, value in result.figures.items()}
    (contestant,) = (each for each in chosen if each.name == result.contestant)
    grown = measure_memory(result.row, case, contestant, settings).figures
    return replace(result, figures=figures).with_figures(**grown)

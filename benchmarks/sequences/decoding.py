"""`benchmarks decoding`: answers of one trained model, by our search and by other engines, same weights."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import Result, Table
from benchmarks.rounds import Contestant, Settings, Workers, measure_memory
from benchmarks.sequences.decoding_case import DecodingCase, Weights, until_end, write_weights
from benchmarks.sequences.decoding_oracle import log_probabilities
from keras_selfattn.errors import ConfigError

_PEERS = "benchmarks.peers"
OURS = Contestant("ours", f"{_PEERS}.decoders:ours")
_OTHERS = {
    "CTranslate2": "ctranslate2_decoder:build",
    "transformers on torch": "transformers_decoder:build",
    "KerasHub": "keras_hub_decoder:build",
}
CONTESTANTS = (OURS, *(Contestant(name, f"{_PEERS}.{build}") for name, build in _OTHERS.items()))
_BATCHES, _BEAMS = (1, 8, 64), (1, 4)
_SENTENCES = 64
_TIMES = ("cpu median ms", "cpu min ms", "wall median ms", "wall min ms")
# Log probabilities of symbols that are closer than this are the same, for engines that sum in another order.
_TIE = 1e-4
_NOTES = [
    "From ids to ids; every answer of greedy search is that of ours, but for ties, which are listed.",
    "Beam search: a sentence is answered when as many candidates have ended as there are beams, of ours when "
    "no hypothesis is better than these either. Scores are divided by the length. KerasHub's goes on until "
    "all beams have ended, and compares sums.",
    "Ready: CPU seconds from the imports to the first answer.",
]


def run(settings: Settings, model: Path, texts: Sequence[str], max_new_tokens: int) -> Table:
    """Return CPU milliseconds of one thread for a sentence, memory, and how many answers are ours.

    Args:
        settings: of the measurement.
        model: run folder or `.keras` file of a `SequenceToSequence` with sinusoidal positions.
        texts: sentences, of which 64 are answered, evenly chosen.
        max_new_tokens: the most symbols of an answer.

    Raises:
        ConfigError: for another model.
    """
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder, "weights.npz")
        sources, told = _written(model, texts, weights, 2 if settings.quick else _SENTENCES)
        results, notes = [], [told]
        with Workers(settings) as workers:
            for beams in _BEAMS:
                for batch in _BATCHES[:1] if settings.quick else _BATCHES:
                    name = f"{batch} at once, {'greedy' if beams == 1 else f'beam {beams}'}"
                    case = DecodingCase(name, str(weights), sources, batch, beams, max_new_tokens)
                    found, ties = _row(workers, settings, case, Path(folder))
                    results += found
                    notes += ties
    return Table(results, [*_NOTES, *notes])


def _written(
    model: Path, texts: Sequence[str], weights: Path, count: int
) -> tuple[tuple[tuple[int, ...], ...], str]:
    """Write the model's weights; return the ids of so many texts, and a note of both."""
    from keras_selfattn import models

    loaded: Any = models.load(model)
    if not isinstance(loaded, models.SequenceToSequence) or loaded.config.position != "sinusoidal":
        raise ConfigError(
            f"--model must be a `SequenceToSequence` with sinusoidal positions. Received {model}."
        )
    write_weights(loaded.core, loaded.config.num_heads, weights)
    chosen = [texts[place * len(texts) // count] for place in range(min(count, len(texts)))]
    rows, _ = loaded.symbols.rows(chosen)
    config = loaded.config
    told = (
        f"{config.num_layers} + {config.decoder_layers} layers of width {config.width}, "
        f"{loaded.symbols.size:,} symbols; {len(rows)} sentences of "
        f"{np.mean([len(row) for row in rows]):.0f} symbols in the mean."
    )
    return tuple(tuple(map(int, row)) for row in rows), told


def _row(
    workers: Workers, settings: Settings, case: DecodingCase, folder: Path
) -> tuple[list[Result], list[str]]:
    """Return the results of a row, and its ties."""
    chosen = [each for each in CONTESTANTS if settings.chosen(case.name, each.name)]
    files = {each.name: folder / f"{place}.npz" for place, each in enumerate(chosen)}
    entries = [replace(each, fields={"answers": str(files[each.name])}) for each in chosen]
    timed = workers.measure(case.name, case.to_json(), entries)
    results, notes = [], []
    known = {result.contestant: _answers(files[result.contestant]) for result in timed if not result.skipped}
    for entry, result in zip(entries, timed, strict=True):
        if result.skipped:
            results.append(result)
            continue
        wanted, given = known.get(OURS.name, known[entry.name]), known[entry.name]
        refused, ties = compared(case, wanted, given)
        notes += [f"{case.name}: {entry.name}, {tie}" for tie in ties]
        if refused:
            results.append(Result(case.name, entry.name, skipped=refused))
            continue
        grown = measure_memory(case.name, case.to_json(), entry, settings).figures
        results.append(_of_a_sentence(result, case, given, wanted).with_figures(**grown))
    return results, notes


def compared(
    case: DecodingCase, wanted: Sequence[Sequence[int]], given: Sequence[Sequence[int]]
) -> tuple[str, list[str]]:
    """Return why greedy answers are refused, and the ties among them; nothing of beams, which may differ.

    Args:
        case: what was answered.
        wanted, given: answers of ours and of the contestant, each up to its end symbol.
    """
    if case.beams > 1:
        return "", []
    ties, weights = [], None
    for source, ours, theirs in zip(case.sources, wanted, given, strict=True):
        if list(ours) == list(theirs):
            continue
        weights = weights or Weights(case.weights)
        place = next(i for i in range(len(ours) + 1) if ours[i : i + 1] != theirs[i : i + 1])
        if place >= min(len(ours), len(theirs)):
            return f"refused: an answer has {len(theirs)} symbols instead of {len(ours)}", ties
        known = log_probabilities(weights, source, ours[:place])[-1]  # [V]
        gap = float(known[ours[place]] - known[theirs[place]])
        if abs(gap) > _TIE:
            return f"refused: symbol {place + 1} of an answer is less probable by {gap:.2g}", ties
        ties.append(f"a tie at symbol {place + 1}: log probabilities are {abs(gap):.1g} apart")
    return "", ties


def _answers(file: Path) -> list[list[int]]:
    with np.load(file) as found:
        return [until_end(row) for row in found["ids"]]


def _of_a_sentence(
    result: Result, case: DecodingCase, given: list[list[int]], wanted: list[list[int]]
) -> Result:
    """Return the result with the times of one sentence, the symbols of its answer, and which are ours."""
    figures = {
        name: value / len(case.sources) if name in _TIMES else value for name, value in result.figures.items()
    }
    figures["symbols"] = float(np.mean([len(answer) for answer in given]))
    figures["as ours"] = float(np.mean([one == other for one, other in zip(given, wanted, strict=True)]))
    return replace(result, figures=figures)

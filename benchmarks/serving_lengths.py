"""`bench serving-lengths`: short texts beside long ones, to our server with a model that writes texts.

A search ends when the longest answer of its batch has ended, so the time of a short text tells with which
others it was run. In every round a server is started, and all loads are measured on it, one after the other.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.process import Child, Worker, WorkerError
from benchmarks.results import Result, Table
from benchmarks.rounds import Settings
from benchmarks.serving import over_rounds
from benchmarks.serving_contest import SERVE, clients, started
from benchmarks.serving_servers import HOST, free_ports
from keras_selfattn.errors import ConfigError

SHORT, LONG, MIXED = "short texts", "long texts", "texts as they come"
ALONE = "alone"
_NAME = "texts"
_JOINED = 8  # sentences of a long text
_SHORTEST = 0.1  # share of the texts
_MOST = 64  # texts of a client


@dataclass(frozen=True)
class Load:
    """Clients that ask at the same time.

    Args:
        name: in the table.
        groups: by row of the table, the texts and the number of connections.
    """

    name: str
    groups: dict[str, tuple[Sequence[str], int]]


def run(
    settings: Settings, model: Path, texts: Sequence[str], long_clients: Sequence[int], mixed: int
) -> Table:
    """Return p50, p95 and requests per second of short texts alone and beside long ones, and of all texts.

    Args:
        settings: of the measurement; `seconds` are for one load in one round.
        model: folder of the versions of a model that answers texts with texts.
        texts: sentences: the shortest tenth are the short texts, 8 joined are a long one.
        long_clients: the number of clients with long texts, for each load beside the one with short texts.
        mixed: the number of clients that send all texts as they come.

    Raises:
        ConfigError: the model cannot be served, or does not answer texts with texts.
    """
    short, long = short_and_long(texts)
    loads = [
        load
        for load in _loads(short, long, texts[: mixed * _MOST], long_clients, mixed)
        if any(settings.chosen(row, load.name) for row in load.groups)
    ]
    asked = [short[0], long[0]]
    try:
        with clients(settings) as asking:
            rounds = [
                _round(number, settings, model, loads, asked, asking) for number in range(settings.rounds)
            ]
    except WorkerError as error:
        raise ConfigError(f"{model} could not be measured as a model that writes texts: {error}") from None
    notes = [
        f"{row}: {statistics.mean(map(len, texts)):.0f} characters in the mean; the first has "
        f"{len(texts[0])}, its answer {len(answer)}."
        for row, texts, answer in zip((SHORT, LONG), (short, long), rounds[0].answers, strict=True)
    ]
    return Table(_results(loads, [each.figures for each in rounds]), [*notes, *_notes(settings)])


def _loads(
    short: Sequence[str], long: Sequence[str], texts: Sequence[str], long_clients: Sequence[int], mixed: int
) -> list[Load]:
    beside = [
        Load(f"beside, {count} of long texts", {SHORT: (short, 1), LONG: (long, count)})
        for count in long_clients
    ]
    alone = [Load(ALONE, {SHORT: (short, 1)}), Load(ALONE, {LONG: (long, 1)})]
    return [*alone, *beside, Load(f"{mixed} clients", {MIXED: (texts, mixed)})]


def short_and_long(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the shortest tenth of the texts, and texts of 8 joined, at most 64 of each.

    Example:
        >>> short_and_long([*"abcdefgh", "two words"])
        (['a'], ['a b c d e f g h'])
    """
    few = max(1, min(_MOST, int(_SHORTEST * len(texts))))
    joined = [" ".join(texts[start : start + _JOINED]) for start in range(0, len(texts), _JOINED)]
    whole = max(1, len(texts) // _JOINED)
    return sorted(texts, key=len)[:few], joined[: min(whole, _MOST)]


@dataclass(frozen=True)
class _Round:
    """The figures of each load by row, and the answers to the first short and the first long text."""

    figures: list[dict[str, dict[str, float]]]
    answers: list[str]


def _round(
    number: int, settings: Settings, model: Path, loads: Sequence[Load], first: Sequence[str], asking: Worker
) -> _Round:
    (port,) = free_ports(1)
    address = f"{HOST}:{port}"
    settings.progress(f"round {number + 1} of {settings.rounds}: starting")
    command = [*SERVE, f"--model_name={_NAME}", f"--model_base_path={model.absolute()}", f"--port={port}"]
    with Child(command) as child:
        started(child, "grpc", address, settings.deadline)
        asked: dict[str, Any] = {"address": address, "model": _NAME}
        answers = asking.ask("written", **asked, asked=first)["texts"]
        figures = []
        for load in loads:
            settings.progress(
                f"round {number + 1} of {settings.rounds}: {', '.join(load.groups)} {load.name}"
            )
            groups = [{"texts": texts, "connections": count} for texts, count in load.groups.values()]
            found = asking.ask("beside", **asked, groups=groups, seconds=settings.seconds)["groups"]
            figures.append(dict(zip(load.groups, found, strict=True)))
    return _Round(figures, answers)


def _results(loads: Sequence[Load], rounds: Sequence[Sequence[dict[str, dict[str, float]]]]) -> list[Result]:
    """Return the medians of all rounds, of short and long texts with the ratio to those alone."""
    found = {
        (row, load.name): over_rounds([figures[place][row] for figures in rounds])
        for place, load in enumerate(loads)
        for row in load.groups
    }
    for (row, _), figures in found.items():
        if (row, ALONE) in found:
            figures["times alone"] = figures["p50 ms"] / found[row, ALONE]["p50 ms"]
    return [Result(row, name, figures) for (row, name), figures in found.items()]


def _notes(settings: Settings) -> list[str]:
    return [
        f"Median of {settings.rounds} rounds of {settings.seconds:g} s for each load, every round in a fresh "
        "server; failures are of all rounds.",
        "A client sends its next text when the last is answered; clients share the cores with the server.",
    ]

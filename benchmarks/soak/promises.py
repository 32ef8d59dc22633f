"""The promises of a server in a soak, and the results of checking them."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.soak.samples import Life, Sample, lives
from benchmarks.soak.tally import Failure, Kill, Tally
from benchmarks.usage import Usage

# Largest memory of a process, as a multiple of its memory at first.
_MOST_GROWTH = 1.05
_FIRST_SECONDS = 60.0
# Thread pools grow on demand: a worker that was idle at first gets threads when another worker is killed.
_SPARE_THREADS = 4
# Least share of the versions that were due: each is copied and checked before the wait for the next begins.
_FEWEST = 0.5
_SHOWN = 3
_MB = 2**20
# Text in the log that shows an unhandled error.
_UNEXPECTED = re.compile(r"Traceback|never retrieved|a request failed|the server ended")


@dataclass(frozen=True)
class Promise:
    """A promise.

    Args:
        what: the promise.
        found: the observation.
        kept: True if it was kept; None = the run was too short to tell.
    """

    what: str
    found: str
    kept: bool | None


@dataclass(frozen=True)
class Ending:
    """The end of a soak.

    Args:
        versions: the number of versions that came, including half-copied ones.
        due: the number of versions that were due.
        newest: the newest version that is whole.
        served: the newest version that answered in all workers, in the end.
        workers: the number of workers that were ready in the end.
        status: the server's exit status; None if it had to be killed, or left processes behind.
        log: the lines of the server's log.
    """

    versions: int
    due: float
    newest: int
    served: int | None
    workers: int
    status: int | None
    log: Sequence[str]


def promises(
    tally: Tally, kills: Sequence[Kill], samples: list[Sample], workers: int, ending: Ending
) -> list[Promise]:
    """Return all promises of a server, checked."""
    answers = " and ".join(f"{count:,} over {api}" for api, count in tally.answers.items())
    wrong = "; ".join([f"{tally.wrong_count} of them", *tally.wrong[:_SHOWN]])
    unexpected = [line for line in ending.log if _UNEXPECTED.search(line)]
    return [
        Promise("clients of both APIs were answered", answers, all(tally.answers.values())),
        Promise("no wrong answer", wrong, not tally.wrong_count),
        _failures(tally.unexplained(kills), tally.failure_count, kills),
        Promise(
            "versions came all the time",
            f"{ending.versions}, of {ending.due:.0f} that were due",
            ending.versions >= _FEWEST * ending.due,
        ),
        Promise(
            "the newest version answers",
            f"{ending.served} of {ending.newest}",
            ending.served == ending.newest,
        ),
        Promise("all workers are there", f"{ending.workers} of {workers}", ending.workers == workers),
        *_growth(samples),
        Promise(
            "it ends as it is told to, and all of it",
            f"status {ending.status}" if ending.status is not None else "it was killed or left processes",
            ending.status == 0,
        ),
        Promise(
            "no error that nobody looked after",
            "; ".join([f"{len(unexpected)} in {len(ending.log)} lines of its log", *unexpected[:_SHOWN]]),
            not unexpected,
        ),
    ]


def _failures(left: Sequence[Failure], count: int, kills: Sequence[Kill]) -> Promise:
    words = f"{count - len(left)} on those of {len(kills)} killed workers, {len(left)} others"
    shown = dict.fromkeys(f"{each.api}: {each.words}" for each in left)
    return Promise(
        "no failure but on a killed worker's connections", "; ".join([words, *[*shown][:_SHOWN]]), not left
    )


def _growth(samples: list[Sample]) -> Iterator[Promise]:
    """Compare the end of each process that lived long enough with its first minute."""
    lasted = samples[-1].seconds if samples else 0.0
    first = min(_FIRST_SECONDS, lasted / 3)
    for what, unit, number, factor, spare in _HELD:
        judged = [life for life in lives(samples) if life.ages[-1] >= 2 * first]
        found = [_compared(life, first, number) for life in judged]
        texts = [
            f"{life.what} {was:,.0f} → {now:,.0f}" for life, (was, now) in zip(judged, found, strict=True)
        ]
        kept = all(now <= was * factor + spare for was, now in found) if found else None
        words = f"{', '.join(texts)}{unit}" if texts else "no process lived long enough"
        yield Promise(what, words, kept)


def _compared(life: Life, first: float, number: Callable[[Usage], float]) -> tuple[float, float]:
    """The most that a process held around the end of its first minute, and the median at its own end.

    In the first minute memory grows: graphs are prepared, and caches are filled.
    """
    last = life.ages[-1]
    was = life.between(0.75 * first, 1.25 * first) or life.held[:1]
    now = life.between(last - first / 2, last)
    return max(map(number, was)), median(map(number, now))


def _descriptors(held: Usage) -> float:
    return held.descriptors


def _threads(held: Usage) -> float:
    return held.threads


def _megabytes(held: Usage) -> float:
    return held.anonymous / _MB


# For each resource: the promise, the unit, and the factor and the number by which it may grow.
_HELD: tuple[tuple[str, str, Callable[[Usage], float], float, float], ...] = (
    ("no more descriptors than at first, connections apart", "", _descriptors, 1.0, 0.0),
    ("no more threads than at first", "", _threads, 1.0, _SPARE_THREADS),
    ("memory within 5 % of what it was after the first minute", " MB", _megabytes, _MOST_GROWTH, 0.0),
)

"""One contestant in its own process: `python -m benchmarks.worker MODULE:FUNCTION`.

It answers each line of JSON on standard input with one on standard output: `prepare` builds a case, `check`
compares it with the reference, `warm` counts the calls that fill a measurement, `time` measures them, and
`memory` is for a fresh process. Output of frameworks goes to standard error.
"""

import argparse
import importlib
import json
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.peak import limit_memory, peak_growth
from benchmarks.prepared import Prepared, differences


class Session:
    """The worker's calls for its parent; one public method for each request."""

    def __init__(self, build: Callable[[dict[str, Any]], Prepared]) -> None:
        self._build = build
        self._case: dict[str, Any] = {}
        self._prepared: Prepared | None = None

    def prepare(self, case: dict[str, Any]) -> dict[str, Any]:
        """Build a case; answer with the chosen form."""
        self._prepared = None  # free the last case's arrays before the next case is built
        self._prepared = self._build(case)
        self._case = case
        return {"form": self._prepared.form}

    def check(self) -> dict[str, Any]:
        """Answer with the contestant's own figures and its differences from the reference."""
        return {"figures": self._ready.figures() | differences(self._ready, self._case)}

    def warm(self, seconds: float) -> dict[str, Any]:
        """Run twice; answer with the number of calls that take about `seconds`."""
        self._ready.run()
        start = time.perf_counter()
        self._ready.run()
        taken = max(time.perf_counter() - start, 1e-6)
        return {"calls": max(1, math.ceil(seconds / taken))}

    def time(self, calls: int) -> dict[str, Any]:
        """Answer with CPU seconds (all threads of this process) and wall seconds of one call."""
        run = self._ready.run
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(calls):
            run()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        return {"cpu": cpu / calls, "wall": wall / calls}

    def memory(self) -> dict[str, Any]:
        """Answer with the bytes by which the peak of the resident set grows in a first call."""
        self._ready.warm()
        return {"bytes": peak_growth(self._ready.run)}

    @property
    def _ready(self) -> Prepared:
        if self._prepared is None:
            raise RuntimeError("nothing is prepared")
        return self._prepared


def serve(session: object, requests: Any, answers: Any) -> None:
    """Answer requests until there are no more; an exception is an answer, too."""
    for line in requests:
        request = json.loads(line)
        try:
            answer = getattr(session, request.pop("do"))(**request)
        except Exception as error:  # noqa: BLE001  whatever a framework raises, the parent shows it
            answer = {"failed": _one_line(error)}
        print(json.dumps(answer), file=answers, flush=True)


def main() -> None:
    """Redirect standard output, choose the core, then import and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("build", help="MODULE:FUNCTION, from a case to what is prepared")
    parser.add_argument("--core", type=int, help="the one core to run on")
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if arguments.core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {arguments.core})
    limit_memory()
    module, name = arguments.build.split(":")

    def build(case: dict[str, Any]) -> Prepared:
        return getattr(importlib.import_module(module), name)(case)

    serve(Session(build), sys.stdin, answers)


def _one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # TensorFlow's message begins with its own traceback; the words about memory (OOM) come after it.
    told = next((line for line in lines if "OOM" in line), lines[0] if lines else "no message")
    return f"{type(error).__name__}: {told}"[:300]


if __name__ == "__main__":
    main()

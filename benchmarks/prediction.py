"""`benchmarks predict`: the command `predict` beside the bare graph and beside loops over `predict`.

Every contestant answers the same short texts with the same model, each in a fresh process, in turns:

- ours: the whole command, from a CSV to a CSV. Its time without the start is that between its first row on
  the disk and its end; the bare graph and the loops have no start either.
- bare graph: batches sorted by length, texts in memory, one batch at a time as TensorFlow's users call it.
- bare graph, all cores: the same with as many batches at once as there are CPUs.
- loop over predict: `model.predict` of 128 texts as they come, texts in memory; and of 4,096 at a time, which
  it sorts by length itself.

CPU time is of all threads of the process. Memory is the largest anonymous memory during the run.
"""

import csv
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.results import Result, Table
from benchmarks.rounds import Settings
from benchmarks.usage import anonymous_bytes
from keras_selfattn.cli.shared.backend import import_tensorflow
from keras_selfattn.serving.server.runtime.cpus import available_cpus

OURS = "ours, file to file"
_BATCH, _CALL = 128, 4096
_SEED = 0
_QUICK_ROWS = 20_000  # two windows and more: the clock of ours begins with the second


def run(settings: Settings, model: Path, rows: int) -> Table:
    """Return rows a second, CPU microseconds of a row and memory of each contestant.

    Args:
        settings: of the measurement.
        model: a run folder of a model of texts.
        rows: texts of a measurement.
    """
    rows = min(rows, _QUICK_ROWS) if settings.quick else rows
    row = f"{rows:,} short texts"
    chosen = [name for name in (OURS, *_LOOPS) if settings.chosen(row, name)]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in chosen}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "texts.csv")
        write_texts(file, rows)
        for number in range(settings.rounds):
            shift = number % max(1, len(chosen))
            for name in chosen[shift:] + chosen[:shift]:
                settings.progress(f"round {number + 1}: {name}")
                found[name].append(_measured(name, model, file, rows))
    results = [Result(row, name, _medians(rounds)) for name, rounds in found.items()]
    notes = [
        f"The model is {model}; texts are names, messages and composed texts in 50 languages, in pairs.",
        "Times leave out the start of the process and the loading of the model.",
    ]
    return Table(results, notes)


def write_texts(file: Path, rows: int) -> None:
    """Write a CSV of short texts: those that the quickstart learns, every other row with a second one."""
    from keras_selfattn.data.quickstart.languages import language_rows

    texts, draw = language_rows().train.inputs, random.Random(_SEED)
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(["id", "text"])
        for number in range(rows):
            parts = [draw.choice(texts) for _ in range(1 + number % 2)]
            writer.writerow([number, ", ".join(parts)])


def _measured(name: str, model: Path, file: Path, rows: int) -> dict[str, float]:
    words = [sys.executable, "-m", "benchmarks.prediction", name, str(model), str(file)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    peak, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            peak[0] = max(peak[0], anonymous_bytes(process.pid))

    watching = threading.Thread(target=watch)
    watching.start()
    said, _ = process.communicate()
    ended.set()
    watching.join()
    if process.returncode:
        raise RuntimeError(f"{name} ended with {process.returncode}")
    seconds, cpu, share = json.loads(said.splitlines()[-1])
    done = rows * share
    return {"rows/s": done / seconds, "cpu us of one": 1e6 * cpu / done, "memory MB": peak[0] / 1e6}


def _medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def _texts(file: Path) -> list[str]:
    with file.open(encoding="utf-8", newline="") as opened:
        return [row["text"] for row in csv.DictReader(opened)]


def _ours(model: Path, file: Path) -> tuple[float, float, float]:
    """Answer by the command's own function; the clock starts with the first window that is on the disk."""
    from keras_selfattn.batch import run as batch
    from keras_selfattn.cli.predict import command

    clock: list[tuple[float, float, float]] = []
    real: Callable[..., Any] = batch._answer_part

    def watched(part: Any, journal: Any, engine: Any, progress: Callable[[float], None]) -> None:
        def told(share: float) -> None:
            clock.append((time.perf_counter(), time.process_time(), share))
            progress(share)

        real(part, journal, engine, told)
        clock.append((time.perf_counter(), time.process_time(), 1.0))

    batch._answer_part = watched
    with tempfile.TemporaryDirectory() as folder:
        words = [str(model), "--file", str(file), "--output", str(Path(folder, "answers.csv"))]
        command.main(words, standalone_mode=False)
    return _between(clock)


def _between(clock: list[tuple[float, float, float]]) -> tuple[float, float, float]:
    """Return seconds, CPU seconds and share of the rows from the first window to the end."""
    first, last = clock[1] if len(clock) > 2 else clock[0], clock[-1]
    return last[0] - first[0], last[1] - first[1], 1.0 - first[2]


def _graph(threads: int) -> Callable[[Path, Path], tuple[float, float, float]]:
    def answer(model: Path, file: Path) -> tuple[float, float, float]:
        import tensorflow as tf

        from keras_selfattn.batch.model_graph import LoadedGraph, find_model

        graph = LoadedGraph(find_model(model))
        # By characters, which are the tokens of the quickstart's model: by bytes there is more padding.
        texts = [text.encode() for text in sorted(_texts(file), key=len)]
        batches = [texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH)]

        def ask(batch: list[bytes]) -> None:
            found = graph._run({"text": tf.constant(batch)})
            assert len(found["label"].numpy()) == len(found["score"].numpy()) == len(batch)

        for batch in batches[:: max(1, len(batches) // 8)]:
            ask(batch)
        with ThreadPoolExecutor(threads) as pool, _Clock() as clock:
            for _ in pool.map(ask, batches) if threads > 1 else map(ask, batches):
                pass
        return clock.seconds, clock.cpu, 1.0

    return answer


def _loop(size: int) -> Callable[[Path, Path], tuple[float, float, float]]:
    def answer(model: Path, file: Path) -> tuple[float, float, float]:
        from keras_selfattn import models

        loaded: Any = models.load(model)
        texts = _texts(file)
        loaded.predict(texts[:size], batch_size=_BATCH, verbose=0)
        with _Clock() as clock:
            for start in range(0, len(texts), size):
                loaded.predict(texts[start : start + size], batch_size=_BATCH, verbose=0)
        return clock.seconds, clock.cpu, 1.0

    return answer


class _Clock:
    def __enter__(self) -> "_Clock":
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._wall
        self.cpu = time.process_time() - self._cpu


_LOOPS: dict[str, Callable[[Path, Path], tuple[float, float, float]]] = {
    "bare graph, sorted": _graph(1),
    "bare graph, sorted, all cores": _graph(available_cpus()),
    "loop over predict, 128 rows": _loop(_BATCH),
    "loop over predict, 4,096 rows": _loop(_CALL),
}


if __name__ == "__main__":
    _name, _model, _file = sys.argv[1:]
    import_tensorflow(batches=True)  # with the same kernels for all
    print(json.dumps({OURS: _ours, **_LOOPS}[_name](Path(_model), Path(_file))))

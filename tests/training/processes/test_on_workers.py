"""A training on workers of a cluster says that it waits for one that is busy."""

import queue
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keras_selfattn.errors import TrainingError
from keras_selfattn.training.processes import on_workers
from keras_selfattn.user_warnings import warn_user


@dataclass
class Run:
    path: Path
    model: Any = None


JOB: Any = SimpleNamespace(timeout=0.05)


class Queue(queue.Queue):
    def get_nowait_batch(self, count):
        return [self.get_nowait() for _ in range(count)]

    def put_nowait_batch(self, given):
        for each in given:
            self.put(each)


class Cluster:
    """One that begins nothing at first."""

    slots = 2

    def __init__(self, waits):
        self._waits, self.canceled, self.lines = waits, [], []

    def put(self, value):
        return value

    def queue(self):
        self.lines.append(Queue())
        return self.lines[-1]

    def submit(self, _function, _shared, index, *_others, together):
        return f"files {index}", f"outcome {index}"

    def ended(self, references, _end):
        if self._waits:
            return on_workers.time.sleep(self._waits.pop(0))
        return references[0]

    def get(self, reference):
        return reference

    def cancel(self, references):
        self.canceled += references


@pytest.mark.parametrize(("waits", "told"), [([0.1, 0.1], 1), ([], 0)])
def test_a_cluster_with_other_work_is_told_once(waits, told):
    lines = []
    cluster: Any = Cluster(waits)
    assert on_workers._results(cluster, JOB, lines.append) == ("files 0", "outcome 0")
    assert len(lines) == told
    assert all(line.startswith("Waits for the workers to begin") for line in lines)


def test_the_first_worker_does_not_begin():
    with pytest.raises(
        TrainingError, match=r"Worker 0 did not begin within 0.05 s \(--timeout\) of worker 1"
    ):
        on_workers._worker(JOB, 1, 2, queue.Queue(), None)


@pytest.mark.filterwarnings("default")
def test_warnings_of_the_first_worker_are_told(monkeypatch, tmp_path):
    def train(*_arguments, **_settings):
        warn_user("2 labels are unknown.")
        return Run(tmp_path)

    monkeypatch.setattr(on_workers, "train", train)
    monkeypatch.setattr(on_workers, "ProcessGroup", lambda *_, **__: nullcontext())
    monkeypatch.setattr(on_workers, "_address", lambda: "here:1")
    job: Any = SimpleNamespace(
        model=SimpleNamespace(unpacked=nullcontext), rows=[], arguments={}, timeout=1.0
    )
    addresses, lines = Queue(), queue.Queue()
    for index in range(2):
        on_workers._worker(job, index, 2, addresses, lines)
    assert list(lines.queue) == ["Warning: 2 labels are unknown."]

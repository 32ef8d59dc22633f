"""`benchmarks processes`: steps of a training on one process of one core, and on two of one core each.

Each contestant trains a text model of 4 layers and width 256 with the same global batch. PyTorch's
`DistributedDataParallel` over gloo does the same with an encoder of the same size.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from typing import Any

from benchmarks.process import CHECKOUT
from benchmarks.results import Result, Table
from benchmarks.rounds import Settings
from benchmarks.serving_servers import free_ports

_LAYERS, _WIDTH, _HEADS, _TOKENS, _WORDS = 4, 256, 4, 64, 5000
_BATCH, _STEPS, _EPOCHS = 64, 12, 3
_ROW = f"{_LAYERS} layers, width {_WIDTH}, {_BATCH} x {_TOKENS} tokens"
# Name, program, processes, rows in a global batch.
_CONTESTANTS = {
    "ours, 1 process": ("ours", 1, _BATCH),
    "ours, 2 processes": ("ours", 2, _BATCH),
    "ours, 1 process, half the batch": ("ours", 1, _BATCH // 2),
    "PyTorch DDP, 1 process": ("torch", 1, _BATCH),
    "PyTorch DDP, 2 processes": ("torch", 2, _BATCH),
}
_NOTES = [
    "Each process has one core. `step s` is the median of the epochs after the first, which compiles, and "
    "`CPU s` that of the process that computed longest: other work on the machine touches it less.",
    "Half the batch on one process is what each of two has to compute: the rest of their step is the "
    "exchange of gradients, and waiting for the slower one.",
]


def run(settings: Settings) -> Table:
    """Return the seconds and CPU seconds of a step, and rows a second, of each contestant."""
    found: dict[str, list[tuple[float, float]]] = {}
    skipped: dict[str, str] = {}
    for turn in range(1 if settings.quick else settings.rounds):
        for name, contestant in _CONTESTANTS.items():
            if not settings.chosen(_ROW, name) or name in skipped:
                continue
            settings.progress(f"round {turn + 1}: {name}")
            answer = _trained(*contestant, settings)
            if isinstance(answer, str):
                skipped[name] = answer
            else:
                found.setdefault(name, []).append(answer)
    results = [Result(_ROW, name, skipped=why) for name, why in skipped.items()]
    for name, measured in found.items():
        step, cpu = map(statistics.median, zip(*measured, strict=True))
        figures = {"step s": step, "cpu s": cpu, "rows/s": _CONTESTANTS[name][2] / step}
        results.append(Result(_ROW, name, figures))
    return Table(results, _NOTES)


def _trained(program: str, count: int, batch: int, settings: Settings) -> tuple[float, float] | str:
    """Return the seconds and CPU seconds of a step, or why there are none."""
    (port,) = free_ports(1)
    words = [sys.executable, "-m", "benchmarks.data_parallel", program, str(count), str(batch), str(port)]
    env = {**os.environ, **CHECKOUT, "KERAS_BACKEND": "jax", "TF_CPP_MIN_LOG_LEVEL": "3", "NPROC": "1"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    quick = ["quick"] if settings.quick else []
    begun = [subprocess.Popen([*words, str(index), *quick], env=env, **pipes) for index in range(count)]
    try:
        told = [process.communicate(timeout=settings.deadline) for process in begun]
    except subprocess.TimeoutExpired:
        return f"took over {settings.deadline:.0f} s"
    finally:
        for process in begun:
            process.kill()
    failed = [errors for process, (_, errors) in zip(begun, told, strict=True) if process.returncode]
    if failed:
        return failed[0].strip().splitlines()[-1][:300]
    steps = [json.loads(output.splitlines()[-1]) for output, _ in told]
    return steps[0][0], max(cpu for _, cpu in steps)


def _ours(count: int, batch: int, port: int, index: int, steps: int) -> list[float]:
    from contextlib import nullcontext

    import keras
    import numpy as np

    from keras_selfattn.models import TextClassifier, TextConfig
    from keras_selfattn.models.batches.shares import WHOLE, feeding
    from keras_selfattn.training.processes.data_parallel import SharedSteps
    from keras_selfattn.training.processes.group import ProcessGroup

    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    words = [f"w{place}" for place in range(_WORDS)]
    texts = [" ".join(random.choice(words, _TOKENS)) for _ in range(batch * steps)]
    labels = ["+" if random.random() < 0.5 else "-" for _ in texts]
    config = TextConfig(width=_WIDTH, num_layers=_LAYERS, num_heads=_HEADS, wide=False, max_tokens=_TOKENS)
    group: Any = ProcessGroup(f"127.0.0.1:{port}", count, index) if count > 1 else nullcontext()
    with group:
        model = TextClassifier(config)
        model.adapt(texts, labels)
        model.compile()
        watch = _Watch()
        shared = [SharedSteps(group)] if count > 1 else []
        with feeding(group.share if count > 1 else WHOLE):
            used = [*shared, watch.callback(), *(each.beginning for each in shared)]
            model.fit(texts, labels, batch_size=batch, epochs=_EPOCHS, callbacks=used, verbose=0)
    return watch.step(steps)


class _Watch:
    """The seconds, and CPU seconds, of the epochs after the first."""

    def __init__(self) -> None:
        self._times: list[tuple[float, float]] = []
        self.look()

    def look(self) -> None:
        self._times.append((time.perf_counter(), time.process_time()))

    def callback(self) -> Any:
        import keras

        return keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: self.look())

    def step(self, steps: int) -> list[float]:
        return [
            statistics.median(after - before for before, after in list(pairwise(times))[1:]) / steps
            for times in zip(*self._times, strict=True)
        ]


def _torch(count: int, batch: int, port: int, index: int, steps: int) -> list[float]:
    import torch  # pyright: ignore[reportMissingImports]
    from torch import distributed, nn  # pyright: ignore[reportMissingImports]

    torch.manual_seed(0)
    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    distributed.init_process_group("gloo", init_method=address, rank=index, world_size=count)
    layer = nn.TransformerEncoderLayer(_WIDTH, _HEADS, 4 * _WIDTH, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, _LAYERS, enable_nested_tensor=False)
    parts = [nn.Embedding(_WORDS, _WIDTH), encoder, nn.Linear(_WIDTH, 2), nn.AvgPool2d((_TOKENS, 1))]
    model: Any = nn.parallel.DistributedDataParallel(nn.Sequential(*parts))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    ids = torch.randint(_WORDS, (steps, batch // count, _TOKENS))
    labels = torch.randint(2, (steps, batch // count))
    watch = _Watch()
    for _ in range(_EPOCHS):
        for rows, wanted in zip(ids, labels, strict=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(rows)[:, 0], wanted).backward()
            optimizer.step()
        watch.look()
    distributed.destroy_process_group()
    return watch.step(steps)


if __name__ == "__main__":
    _program, *_numbers, _index = sys.argv[1:6]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[int(_index)]})
    _call = {"ours": _ours, "torch": _torch}[_program]
    _count, _rows, _port = map(int, _numbers)
    print(json.dumps(_call(_count, _rows, _port, int(_index), 2 if len(sys.argv) > 6 else _STEPS)))

"""The parent's end of a process: start it, send it requests with a deadline, end it in every case."""

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from benchmarks.usage import tree

ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    **dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}
# The benchmarks measure CPUs: a GPU would be measured without its transfers.
# A worker imports `benchmarks`, too, wherever it runs.
_PATHS = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
CHECKOUT = {"PYTHONPATH": os.pathsep.join(_PATHS)}
_EVERYWHERE = {**CHECKOUT, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}
_GRACE = 2.0  # seconds


@contextmanager
def one_thread() -> Iterator[None]:
    """Let processes that begin in the block have one thread in every library."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


class WorkerError(Exception):
    """A worker failed, died or kept its parent waiting; the message is the reason, on one line."""


class Child:
    """A process that ends together with all processes it has started; its standard error is kept.

    Args:
        command: the program and its arguments.
        environment: further variables.
        talks: True if its standard input and output are pipes; otherwise they are the null device.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, *, talks: bool = False
    ) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        ends = subprocess.PIPE if talks else subprocess.DEVNULL
        self._process = subprocess.Popen(
            command,
            stdin=ends,
            stdout=ends,
            stderr=self._errors,
            env={**os.environ, **_EVERYWHERE, **(environment or {})},
            start_new_session=True,  # so that the processes it starts end with it
        )

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True if the process still runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """Kill the process and all processes it has started; may be called twice."""
        # Some leave their parent's group. If the process was waited for, another may have its number by now.
        started = tree(self.pid) if self._process.returncode is None else set()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        for pid in started:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout, self._errors):
            with suppress(OSError):  # a dead process takes no unflushed bytes
                if file is not None:
                    file.close()

    def last_words(self) -> str:
        """Return why the process died: its signal, or its last line on standard error."""
        try:
            status = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            return "closed its output"
        if status < 0:
            return f"killed by {signal.Signals(-status).name}"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        written = [line.strip() for line in lines if line.strip()]
        return written[-1][:300] if written else f"ended with status {status}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Worker(Child):
    """A process that measures one contestant.

    Args:
        build: `MODULE:FUNCTION`, with which the worker builds cases.
        one_thread: True for one core and one thread in every library; otherwise, as many as they take.
        environment: further variables.
        deadline: seconds to wait for an answer; then the worker is killed.
        program: the module that answers, if not the one for contestants that are functions.
    """

    def __init__(
        self,
        build: str = "",
        *,
        one_thread: bool = True,
        environment: Mapping[str, str] | None = None,
        deadline: float = 900.0,
        program: str = "benchmarks.worker",
    ) -> None:
        self._deadline = deadline
        self._buffer = b""
        command = [sys.executable, "-m", program, *filter(None, [build])]
        if one_thread and hasattr(os, "sched_getaffinity"):
            command += ["--core", str(max(os.sched_getaffinity(0)))]
        super().__init__(command, {**(ONE_THREAD if one_thread else {}), **(environment or {})}, talks=True)

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Return the worker's answer to a request.

        Raises:
            WorkerError: if the worker fails, dies, or lets the deadline pass (it is killed then).
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):  # the worker died, or was closed
            raise WorkerError(self.last_words()) from None
        answer = json.loads(self._line())
        if "failed" in answer:
            raise WorkerError(answer["failed"])
        return answer

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        end = time.monotonic() + self._deadline
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, end - time.monotonic())):
                    os.killpg(self._process.pid, signal.SIGKILL)
                    self._process.wait()
                    raise WorkerError(f"gave no answer within {self._deadline:g} s")
                part = os.read(self._process.stdout.fileno(), 1 << 16)
                if not part:
                    raise WorkerError(self.last_words())
                self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

"""Processes that train one model together, on one machine or on many."""

import atexit
import os
import shutil
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import keras

from keras_selfattn.errors import (
    ConfigError,
    OtherProcessError,
    SelfAttentionError,
    Terminated,
    TrainingError,
    first_line,
)
from keras_selfattn.models.batches.shares import Share
from keras_selfattn.models.config import is_number
from keras_selfattn.training.processes.channel import Channel, host_and_port, is_loopback, meet

# JAX ends a process, with a stack trace, if another one gives no sign of life for so long.
_HEARTBEAT_SECONDS = 30
# All processes reach the end together, unless one has failed.
_SHUTDOWN_SECONDS = 10
# After another process failed: for this one to notice it and end by itself, and for its reason to arrive. A
# process that waits for values of the other one does not notice.
_NOTICE_SECONDS, _REASON_SECONDS = 5.0, 5.0
# For process 0 to wait until the others have noticed: JAX ends them with a stack trace when it leaves.
_LEAVE_SECONDS = 2 * _NOTICE_SECONDS
# Statuses that a shell gives a program that a signal ended.
_INTERRUPTED, _TERMINATED = 130, 143
_NEXT = "Start all again; with `resume` (--resume, not on Ray) they go on from the last checkpoint."


class ProcessGroup:
    """A group of processes, of which this is one, that train one model, each on its share of every batch.

    Each process runs the same program on the same rows: `train(..., group=group)`. Keras must compute with
    JAX, and nothing may be computed before the group is entered. Process 0 writes the run folder. Each
    process computes on one device.

    Args:
        coordinator: "HOST:PORT", an address of process 0, which listens there.
        count: the number of processes.
        index: which of them this is, from 0.
        timeout: seconds within which all must have met.
        device: the place of this process' GPU among those of its machine; by default JAX decides.

    Raises:
        ConfigError: for arguments out of range, or a backend that is not JAX.
        TrainingError: on entering, if not all processes come.
        OtherProcessError: in the block, if another process failed.

    Example:

        A Slurm job with a task for each GPU::

            rank, count = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
            with ProcessGroup("node1:1234", count, rank) as group:
                train(rows, "runs/1", group=group)
    """

    def __init__(
        self, coordinator: str, count: int, index: int, *, timeout: float = 60.0, device: int | None = None
    ) -> None:
        host_and_port(coordinator)
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ConfigError(f"`count` (--process-count) must be 1 or more. Received {count!r}.")
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count:
            raise ConfigError(
                f"`index` (--process-id) must be from 0 to {count - 1}, with {count} processes. Received "
                f"{index!r}."
            )
        if not (is_number(timeout) and 0 < timeout < float("inf")):
            raise ConfigError(f"`timeout` (--timeout) must be seconds, more than 0. Received {timeout!r}.")
        self.count, self.index = count, index
        self._coordinator, self._timeout, self._device = coordinator, timeout, device
        self._channel: Channel
        self._ended = threading.Event()
        self._drafts: list[Path] = []

    @property
    def is_first(self) -> bool:
        """True for process 0, which alone writes files."""
        return self.index == 0

    @property
    def share(self) -> Share:
        """The share of each training batch that this process feeds."""
        return Share(self.index, self.count)

    def from_first(self, value: Any) -> Any:
        """Return the value, JSON types, that process 0 gives; all processes call it in the same order."""
        return self._channel.from_first(value)

    def removes(self, draft: Path) -> None:
        """Let this process remove a folder, too, if it has to end at once."""
        self._drafts.append(draft)

    def agree(self, digests: Mapping[str, str]) -> None:
        """Raise ConfigError on all processes unless all give the same digests, by what they are of."""
        given = self._channel.all_to_first(dict(digests))
        differing = [
            f"Process {other} has other {name} than process 0. Give all processes the same."
            for other, found in enumerate(given)
            for name in digests
            if found.get(name) != digests[name]
        ]
        if told := self.from_first(differing):
            raise ConfigError(told[0])

    def __enter__(self) -> "ProcessGroup":
        if keras.backend.backend() != "jax":
            raise ConfigError(
                f"Several processes train on JAX. Keras computes with {keras.backend.backend()}: set "
                "KERAS_BACKEND=jax before it is imported."
            )
        self._channel, port = meet(self._coordinator, self.count, self.index, self._timeout)
        threading.Thread(target=self._watch, daemon=True, name="process group").start()
        try:
            self._connect(port)
        except BaseException as error:
            self._end(error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._explain(error)
            return
        try:
            self.from_first("end")  # process 0 has written its files
            self._disconnect()
        except BaseException as late:
            self._explain(late)
            raise

    def _explain(self, error: BaseException) -> None:
        """End with an error; raise one with the reason if it has none of its own."""
        failed = self._end(error)
        own = isinstance(error, SelfAttentionError) and not isinstance(error, OtherProcessError)
        if failed and isinstance(error, Exception) and not own:
            raise OtherProcessError(self._reason) from error
        if not failed and "Gloo" in str(error):
            raise TrainingError(
                f"The processes cannot exchange their values: {first_line(error).rstrip('.')}. JAX waits for "
                f"30 s where one is slower than another, or its machine is not reached. {_NEXT}"
            ) from error

    @property
    def _reason(self) -> str:
        return f"{str(self._channel.failure).rstrip('.')}. {_NEXT}"

    def _end(self, error: BaseException) -> bool:
        """Tell the others of an error, or return True if one of them failed first."""
        failed = self._channel.failed.wait(_REASON_SECONDS if _is_of_jax(error) else 0)
        if not failed:
            self._channel.tell_failure(_in_a_line(error))
        self._ended.set()
        keras.distribution.set_distribution(None)  # which an error within an epoch leaves
        # JAX would wait for the processes that have gone, and abort.
        atexit.register(_leave, _status(error))
        self._channel.close(_LEAVE_SECONDS if self.is_first else 0.0)
        return failed

    def _disconnect(self) -> None:
        import jax  # pyright: ignore[reportMissingImports]

        self._ended.set()
        self._channel.close()
        jax.distributed.shutdown()

    def _watch(self) -> None:
        """End this process some time after another one failed, if it does not by itself."""
        self._channel.failed.wait()
        if not self._ended.wait(_NOTICE_SECONDS):
            for draft in self._drafts:
                shutil.rmtree(draft, ignore_errors=True)
            with suppress(Exception):  # nobody may read it any more
                print(f"Error: {self._reason}", file=sys.stderr)
            _leave(1)

    def _connect(self, port: int) -> None:
        import jax  # pyright: ignore[reportMissingImports]

        host, _ = host_and_port(self._coordinator)
        host = f"[{host}]" if ":" in host else host
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        # It would take SIGTERM from this process, and let it train on.
        jax.config.update("jax_enable_preemption_service", False)
        try:
            jax.distributed.initialize(
                f"{host}:{port}",
                self.count,
                self.index,
                local_device_ids=self._device,
                initialization_timeout=max(1, round(self._timeout)),
                heartbeat_timeout_seconds=_HEARTBEAT_SECONDS,
                shutdown_timeout_seconds=_SHUTDOWN_SECONDS,
                coordinator_bind_address=f"{host}:{port}" if is_loopback(host.strip("[]")) else None,
            )
            devices = jax.local_device_count()
        except RuntimeError as error:
            raise TrainingError(
                f"JAX cannot connect {self.count} processes: {first_line(error)}. Nothing may be computed "
                "before they meet, and each needs a GPU of its own, or none (CUDA_VISIBLE_DEVICES)."
            ) from error
        if devices != 1:
            raise ConfigError(
                f"Each process computes on one device, and process {self.index} has {devices}. Start a "
                "process for each, and let it see one (CUDA_VISIBLE_DEVICES)."
            )


def _is_of_jax(error: BaseException) -> bool:
    """Return True if an error may be the consequence of another process' end."""
    return type(error).__module__.startswith("jax") or "Gloo" in str(error)


def _in_a_line(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "it was interrupted"
    line = first_line(error)
    return line if isinstance(error, SelfAttentionError) else f"{type(error).__name__}: {line}"


def _status(error: BaseException) -> int:
    """Return the exit status of a process that ended with an error."""
    if isinstance(error, Terminated):
        return _TERMINATED
    return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def _leave(status: int) -> None:
    """End the process at once, without what JAX does at its end."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # a pipe that nobody reads any more
            stream.flush()
    os._exit(status)

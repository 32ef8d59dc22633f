"""TensorFlow's profiler service, for `tf.profiler.experimental.client.trace` and TensorBoard.

TensorFlow's own implementation opens another port, on all addresses and for the life of the process. Here the
server's port answers. As in TensorFlow, the server writes the trace into the folder that the client names.

Reference: tsl/profiler/rpc/profiler_service_impl.cc.
"""

import contextlib
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from tensorflow.python.framework import errors
from tensorflow.python.profiler.internal._pywrap_profiler import ProfilerSession

from ...errors import AbortedError, InvalidArgumentError, UnavailableError
from . import profile_service_pb2 as pb
from .own_thread import in_own_thread

SERVICE = "tensorflow.ProfilerService"
_LONGEST_SECONDS = 600.0


def methods() -> dict[str, Callable[[bytes, float | None], Awaitable[bytes]]]:
    """Answer the service's calls: a serialized request and a deadline in, a serialized response out."""
    return {"Profile": _profile}


async def _profile(data: bytes, deadline: float | None) -> bytes:
    try:
        request = pb.ProfileRequest.FromString(data)
    except DecodeError:
        raise InvalidArgumentError("Unable to parse request") from None
    path = _path(request)
    seconds = request.duration_ms / 1000
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise InvalidArgumentError(
            f"duration_ms must be positive, and at most {_LONGEST_SECONDS * 1000:.0f}. Received "
            f"{request.duration_ms}"
        )
    # Not in the pool that runs graphs, which is being profiled.
    await in_own_thread(lambda: _write(path, _recorded(request.opts, seconds)))
    return pb.ProfileResponse().SerializeToString()


def _path(request: pb.ProfileRequest) -> Path:
    """Return the path of the trace, where TensorBoard looks for it."""
    names = (request.session_id, request.host_name.replace(":", "_"))
    if not request.repository_root.startswith("/"):
        raise InvalidArgumentError(
            f"repository_root must be an absolute folder of the server. Received {request.repository_root!r}"
        )
    for name in names:
        if not name or name in (".", "..") or "/" in name:
            raise InvalidArgumentError(f"session_id and host_name must be plain names. Received {name!r}")
    return Path(request.repository_root, names[0], f"{names[1]}.xplane.pb")


def _recorded(options: pb.ProfileOptions, seconds: float) -> bytes:
    """Return a trace of the process for a while, as a serialized XSpace."""
    session: Any = ProfilerSession()
    levels = {
        "host_tracer_level": options.host_tracer_level,
        "device_tracer_level": options.device_tracer_level,
        "python_tracer_level": options.python_tracer_level,
    }
    try:
        session.start("", levels)
    except errors.OpError as error:
        raise UnavailableError(f"another profile is being recorded: {error.message}") from error
    try:
        time.sleep(seconds)
    finally:
        trace: bytes = session.stop()
    return trace


def _write(path: Path, trace: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with open(descriptor, "wb") as file:
                file.write(trace)
            os.replace(draft, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise
    except OSError as error:
        raise AbortedError(f"the trace cannot be written: {error.strerror}") from error

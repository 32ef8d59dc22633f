"""A signal that the system gives to another thread than the first, as it may, ends the server as ever."""

import ctypes
import os
import signal

import numpy as np
from served import SECONDS, predict_request


def kill_thread(process, thread):
    assert ctypes.CDLL(None).tgkill(process.pid, thread, signal.SIGTERM) == 0


def test_a_signal_to_any_thread_ends_the_server(serve, half_base):
    server = serve({"half": half_base}).wait()
    server.assert_answers()
    threads = sorted(int(thread) for thread in os.listdir(f"/proc/{server.process.pid}/task"))
    assert threads[0] == server.process.pid
    kill_thread(server.process, threads[len(threads) // 2])
    assert server.process.wait(SECONDS) == 0


def test_a_second_signal_to_any_thread_cuts_the_drain_short(
    serve, half_base, slow_base, in_background, until
):
    server = serve({"half": half_base, "slow": slow_base}, "--shutdown_grace_seconds=600").wait()
    slow = predict_request("slow", seconds=np.float32(600))
    running = in_background(server.call, slow, timeout=2 * SECONDS)
    assert server.call(slow, timeout=1)[0].name == "DEADLINE_EXCEEDED"  # so the one before runs by now
    threads = sorted(int(thread) for thread in os.listdir(f"/proc/{server.process.pid}/task"))
    kill_thread(server.process, threads[1])
    until(lambda: "running requests have 600 s to finish" in server.log())
    kill_thread(server.process, threads[1])
    assert server.process.wait(SECONDS) == 0
    assert running.result(SECONDS)[0].name in ("UNAVAILABLE", "CANCELLED")

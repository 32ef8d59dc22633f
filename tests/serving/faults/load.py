"""Many clients at once, in threads, each with a connection of its own."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
from served import OWN_CONNECTION, SECONDS


@contextlib.contextmanager
def clients(server, count, ask):
    """Has so many clients call `ask(channel)` again and again until the block ends; gives its results.

    The list that the block gets has what was returned so far, in no order; an error ends the load.
    """
    answers, done = [], threading.Event()

    def run():
        with grpc.insecure_channel(server.target, OWN_CONNECTION) as channel:
            while not done.is_set():
                answers.append(ask(channel))

    with ThreadPoolExecutor(count) as executor:
        running = [executor.submit(run) for _ in range(count)]
        try:
            yield answers
        finally:
            done.set()
        for each in running:
            each.result(SECONDS)

"""Load of tests: calls again and again, each in a thread."""

import contextlib
import threading


@contextlib.contextmanager
def asking(*functions):
    """Calls functions again and again, each in a thread; gives the number of calls and the errors."""
    counts, errors, stop = [0] * len(functions), [], threading.Event()

    def ask(index, function):
        while not stop.is_set():
            try:
                function()
                counts[index] += 1
            except Exception as error:  # noqa: BLE001 - the test looks at them
                errors.append(error)

    threads = [threading.Thread(target=ask, args=each) for each in enumerate(functions)]
    for thread in threads:
        thread.start()
    try:
        yield counts, errors
    finally:
        stop.set()
        for thread in threads:
            thread.join()

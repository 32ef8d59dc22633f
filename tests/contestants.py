"""Contestants for the workers of test_benchmarks.py: some behave, and some do not."""

import os
import sys
import time
from pathlib import Path

from benchmarks.prepared import Prepared


def counts(fields):
    print("frameworks print what they like")
    return Prepared(run=lambda: sum(range(1000)), warm=lambda: None, form="plain")


def allocates(fields):
    return Prepared(run=lambda: bytearray(fields["bytes"]).count(b"\1"), warm=lambda: None)


def dies(fields):
    def run():
        print("before it", file=sys.stderr)
        print("out of luck", file=sys.stderr)
        os._exit(3)

    return Prepared(run=run, warm=run)


def aborts(fields):
    return Prepared(run=os.abort, warm=os.abort)


def hangs(fields):
    return Prepared(run=lambda: time.sleep(600), warm=lambda: None)


def wants_a_missing_package(fields):
    import no_such_engine  # noqa: F401  pyright: ignore[reportMissingImports]


def meets(fields):
    """Waits while it is built until as many as are expected are being built."""
    folder = Path(fields["folder"])
    (folder / str(os.getpid())).touch()
    end = time.monotonic() + fields["patience"]
    while len(list(folder.iterdir())) < fields["expected"]:
        if time.monotonic() > end:
            raise RuntimeError("built alone")
        time.sleep(0.01)
    return Prepared(run=lambda: None, warm=lambda: None)

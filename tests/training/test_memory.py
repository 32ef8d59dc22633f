"""Trainings leave nothing behind in their process, so that searches and notebooks do not grow."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "memory_of_fits.py"
# Each of the sixteen fits between took 30 to 47 MB for good; allocators differ by some.
MOST_MB = 60


@pytest.mark.slow
@pytest.mark.process
def test_fits_searches_and_loaded_models_leave_nothing_behind(tmp_path):
    """As many graphs, layers, variables and registered gradients are alive after 20 fits as after four."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    first, last = json.loads(done.stdout.splitlines()[-1])
    grown = last.pop("MB") - first.pop("MB")
    assert last == first
    assert first["layers"] == first["variables"] == 0
    assert grown < MOST_MB

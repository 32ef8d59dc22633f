"""The example of series runs as a user runs it, and both of its models beat guessing."""

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "series.py"


@pytest.mark.process
def test_the_example_of_series_prints_what_was_learned_and_served(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["series.py", "--epochs", "5", "--output", str(tmp_path)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = capsys.readouterr().out
    right = re.search(r"Shapes: ([0-9.]+)%", printed)
    assert float(right.group(1)) > 60, "of three shapes"
    assert len(re.findall(r"is served as (bump|ramp|step), with probability", printed)) == 3
    errors = [float(each) for each in re.findall(r"by ([0-9.]+[0-9])", printed)]
    assert len(errors) == 4
    assert errors[0] < min(errors[1:3]), "the model's below those of what was"
    assert errors[0] < 1.1 * errors[3], "a wave is all that a ridge regression needs"
    assert (tmp_path / "models" / "shapes" / "1" / "saved_model.pb").is_file()

"""The example of graphs runs as a user runs it, and knows rings in graphs twice as large as it has seen."""

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "graphs.py"


@pytest.mark.process
@pytest.mark.slow
def test_the_example_of_graphs_learns_rings_and_asks_the_export(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["graphs.py", "--epochs", "5", "--output", str(tmp_path / "out")])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = capsys.readouterr().out
    right = re.search(r"Rings of larger graphs: ([0-9.]+)% right", printed)
    assert float(right.group(1)) > 50, "of four kinds"
    assert "The SavedModel says of a hexagon: a ring of 6." in printed
    assert (tmp_path / "out" / "model" / "saved_model.pb").is_file()

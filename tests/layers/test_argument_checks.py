"""Arguments by the names of Keras and PyTorch are answered with ours."""

import re
from pathlib import Path

import pytest

from keras_selfattn.layers.argument_checks import RENAMED_ARGUMENTS, RENAMED_IN_CALLS

PAGE = Path(__file__).parents[2] / "docs" / "layers.md"


PEERS = {0: ("keras", "MultiHeadAttention"), 1: ("keras_hub", "TransformerEncoder")}


def rows(table):
    text = PAGE.read_text(encoding="utf-8").split(f"### {table}\n")[1].split("\n#")[0]
    found = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line
    ]
    assert len(found) > 8
    return found[2:]


def named(table, column):
    return [name for row in rows(table) for name in re.findall(r"`(\w+)`", row[column])]


@pytest.mark.parametrize(
    ("table", "renamed"), [("Constructors", RENAMED_ARGUMENTS), ("Calls", RENAMED_IN_CALLS)]
)
def test_every_name_that_differs_is_answered_with_ours(table, renamed):
    peers = {name for column in PEERS for name in named(table, column)}
    differing = peers - set(named(table, 2))
    refused = {
        name for row in rows(table) if row[3].startswith("not") for name in re.findall(r"`(\w+)`", row[0])
    }
    assert differing - refused <= set(renamed)
    assert set(renamed) <= differing

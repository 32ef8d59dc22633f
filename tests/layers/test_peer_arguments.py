"""The table of arguments in docs/layers.md names all those of the peers and of ours, and only those."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

from keras_selfattn import layers
from keras_selfattn.layers.weights.settings import WEIGHT_SETTINGS

PAGE = Path(__file__).parents[2] / "docs" / "layers.md"
OF_ALL = {"self", "kwargs", "settings"}
OURS = (layers.MultiHeadSelfAttention, layers.EncoderBlock, layers.Encoder)
PEERS = {0: ("keras", "MultiHeadAttention"), 1: ("keras_hub", "TransformerEncoder")}
TABLES = {"Constructors": "__init__", "Calls": "call"}


def rows(table):
    text = PAGE.read_text(encoding="utf-8").split(f"### {table}\n")[1].split("\n#")[0]
    found = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line
    ]
    assert len(found) > 8
    return found[2:]


def named(table, column):
    return [name for row in rows(table) for name in re.findall(r"`(\w+)`", row[column])]


def arguments(kinds, method):
    of_each = (inspect.signature(getattr(kind, method)).parameters for kind in kinds)
    return {name for names in of_each for name in names} - OF_ALL


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("column", PEERS)
def test_every_argument_of_a_peer_is_in_the_table_once(table, column):
    package, name = PEERS[column]
    pytest.importorskip(package)
    kind = getattr(importlib.import_module(f"{package}.layers"), name)
    found = named(table, column)
    assert set(found) == arguments([kind], TABLES[table])
    assert len(found) == len(set(found))


@pytest.mark.parametrize("table", TABLES)
def test_every_argument_of_ours_is_in_the_table_once(table):
    found = named(table, 2)
    own = arguments(OURS, TABLES[table]) | (set(WEIGHT_SETTINGS) if table == "Constructors" else set())
    assert set(found) == own
    assert len(found) == len(set(found))


@pytest.mark.parametrize("table", TABLES)
def test_every_row_gives_its_verdict(table):
    for row in rows(table):
        assert len(row) == 4, row
        *peers, ours, verdict = row
        assert verdict.startswith(("same", "better: ", "not, because ")), row
        assert verdict.startswith("not") <= (ours == "–"), row
        assert verdict.startswith("same") <= (set(peers) != {"–"}), row

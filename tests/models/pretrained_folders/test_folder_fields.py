"""The tables of `docs/folders.md` are those of the code."""

from pathlib import Path

import pytest

from keras_selfattn.models.pretrained_folders.families import FAMILIES
from keras_selfattn.models.pretrained_folders.folder_fields import all_tables, config_fields

PAGE = Path(__file__).parents[3] / "docs" / "folders.md"
HEAD = ["Field | Effect | Reason", "---|---|---"]


def test_the_page_has_each_table_of_the_code_and_no_other_row():
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    found = {}
    for section in sections:
        title, _, rest = section.partition("\n")
        lines = [line for line in rest.split("\n") if line]
        if lines[:2] == HEAD:
            found[title] = lines[2:]
    assert found == dict(all_tables({each.title: each.fields for each in FAMILIES.values()}))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_field_is_in_one_row_of_its_family(family):
    """The first row counts; another one would be a second truth."""
    names = [name for row in config_fields(FAMILIES[family].fields).fields for name in row.names]
    both = {name for name in names if names.count(name) > 1}
    # Of ELECTRA the first is a size, in DeBERTa it must be one; of NomicBERT the second changes nothing.
    assert both <= {"embedding_size", "auto_map"}

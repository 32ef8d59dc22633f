"""A family of pretrained encoders written here, as its description alone, is read like those of the package.

It computes what BERT does, under other names: of its `model_type`, fields, weights and special tokens.
"""

import json

import numpy as np
import pytest
from pretrained_folders import BERT, PIECES_OF_MPNET, hidden_states, weights_of, write_folder

from keras_selfattn import models
from keras_selfattn.errors import ConfigError
from keras_selfattn.models.pretrained_folders import families
from keras_selfattn.models.pretrained_folders.family import Family, FamilyHead, MaskedHeadNames
from keras_selfattn.models.pretrained_folders.folder_fields import READ, REFUSED, all_tables, field_row
from keras_selfattn.models.subwords import tokenizer_class

# Ours, BERT's and the toy's names.
EMBEDDING = {
    "tokens": ("word_embeddings", "table.words"),
    "positions": ("position_embeddings", "table.places"),
    "types": ("token_type_embeddings", "table.sides"),
    "norm": ("LayerNorm", "table.norm"),
}
BLOCK = {
    "query": ("attention.self.query", "q"),
    "key": ("attention.self.key", "k"),
    "value": ("attention.self.value", "v"),
    "output": ("attention.output.dense", "o"),
    "attention_norm": ("attention.output.LayerNorm", "n"),
    "hidden": ("intermediate.dense", "up"),
    "feed_forward_output": ("output.dense", "down"),
    "feed_forward_norm": ("output.LayerNorm", "m"),
}


def settings(config):
    return {
        "width": config["size"],
        "num_layers": config["depth"],
        "num_heads": 2,
        "feed_forward_dim": 12,
        "vocabulary_size": config["vocab_size"],
        "positions": 16,
        "token_types": 2,
    }


TOY = Family(
    name="toy",
    title="Toy",
    settings=settings,
    fields=(
        field_row(READ, "size depth", "sizes of the blocks"),
        field_row(REFUSED, "upside_down", "texts are read from the beginning"),
    ),
    tokenizer=tokenizer_class.MPNET,
    embedding={ours: toys for ours, (_, toys) in EMBEDDING.items()},
    block={ours: f"block.{{}}.{toys}" for ours, (_, toys) in BLOCK.items()},
    head=FamilyHead("toy.hidden", "toy.out", "tanh"),
    masked_head=MaskedHeadNames("guess", "guess_norm", ("guess_bias",)),
    padding_id=1,
)
CONFIG = {"model_type": "toy", "size": 8, "depth": 2, "vocab_size": len(PIECES_OF_MPNET)}


def toy_weights(tensors):
    """Returns the tensors of BERT under the toy's names."""
    names = {f"embeddings.{berts}": toys for berts, toys in EMBEDDING.values()}
    for number in range(2):
        names |= {f"encoder.layer.{number}.{b}": f"block.{number}.{toys}" for b, toys in BLOCK.values()}
    found = {}
    for name, value in tensors.items():
        layer, _, weight = name.rpartition(".")
        found[f"{names[layer]}.{weight}"] = value
    return found


@pytest.fixture(autouse=True)
def _known(monkeypatch):
    monkeypatch.setitem(families.FAMILIES, "toy", TOY)


def test_a_folder_of_the_family_is_loaded_tokenized_and_answers_by_the_formulas(tmp_path):
    tensors = weights_of({**BERT, "vocab_size": len(PIECES_OF_MPNET)})
    folder = write_folder(tmp_path / "m", CONFIG, toy_weights(tensors), PIECES_OF_MPNET)
    found = models.TextEncoder(start=folder).predict(["a good film", "bad zebra"], verbose=0)
    rows = [[0, 5, 6, 8, 2], [0, 7, 3, 2]]  # in the folder's ids: <s>, pieces, </s>; [UNK] is 3
    wanted = [hidden_states(BERT, tensors, row).mean(axis=0) for row in rows]
    np.testing.assert_allclose(found, wanted, atol=2e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"upside_down": True}, "`upside_down` is True.* texts are read from the beginning"),
        ({"pruned_heads": {"0": [1]}}, "`pruned_heads`"),
        ({"depth": 3}, "block.2.q.weight is missing"),
        ({"pad_token_id": 0}, "pads with the id 1, its model with 0"),
    ],
)
def test_a_folder_of_the_family_that_cannot_be_read_is_refused_by_name(tmp_path, change, message):
    folder = write_folder(
        tmp_path / "m", {**CONFIG, **change}, toy_weights(weights_of(BERT)), PIECES_OF_MPNET
    )
    with pytest.raises(ConfigError, match=message):
        models.TextEncoder(start=folder)


def test_a_field_that_only_another_family_has_is_warned_of(tmp_path):
    folder = write_folder(
        tmp_path / "m", {**CONFIG, "type_vocab_size": 2}, toy_weights(weights_of(BERT)), PIECES_OF_MPNET
    )
    with pytest.warns(UserWarning, match="type_vocab_size of config.json"):
        models.TextEncoder(start=folder)


@pytest.mark.parametrize("kind", [["bert"], {}, 7, None])
def test_a_family_that_is_no_text_is_refused_by_name(kind):
    with pytest.raises(ConfigError, match="The encoders that can be read are"):
        families.family_of({"model_type": kind}, "m")


def test_an_unknown_family_is_told_of_all_that_are_known(tmp_path):
    folder = write_folder(tmp_path / "m", {**CONFIG, "model_type": "gpt2"}, weights_of(BERT), PIECES_OF_MPNET)
    with pytest.raises(ConfigError, match="'gpt2'. The encoders that can be read are .*roberta, toy"):
        models.TextEncoder(start=folder)


def test_the_page_of_fields_would_have_its_rows():
    tables = dict(all_tables({each.title: each.fields for each in families.FAMILIES.values()}))
    assert "Toy: `size`, `depth` | read | sizes of the blocks" in tables["config.json"]
    assert json.dumps(tables["config.json"]).count("Toy: ") == 2

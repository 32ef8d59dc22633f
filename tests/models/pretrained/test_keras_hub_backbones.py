"""Backbones of KerasHub as encoders: the same hidden states, and the same vectors of texts.

Needs the extra `bench`; elsewhere these tests are skipped.
"""

import doctest
import re
from pathlib import Path

import numpy as np
import pytest
from pretrained_folders import PIECES, PIECES_PADDED_BY_1

from keras_selfattn import models
from keras_selfattn.errors import ConfigError

pytestmark = pytest.mark.slow
keras_hub = pytest.importorskip("keras_hub")

SIZES = {"num_layers": 3, "num_heads": 4, "hidden_dim": 24, "intermediate_dim": 40, "max_sequence_length": 60}
COUNT = {"vocabulary_size": len(PIECES)}
BACKBONES = {
    "BERT": lambda: keras_hub.models.BertBackbone(**SIZES, **COUNT),
    "DistilBERT": lambda: keras_hub.models.DistilBertBackbone(**SIZES, **COUNT),
    "ELECTRA": lambda: keras_hub.models.ElectraBackbone(**SIZES, vocab_size=len(PIECES), embedding_dim=24),
    "ELECTRA, narrow": lambda: keras_hub.models.ElectraBackbone(
        **SIZES, vocab_size=len(PIECES), embedding_dim=10, num_segments=3
    ),
}
TEXTS = ["a good film.", "", "badly the films", "good " * 30, "zebra Bad"]


def random_backbone(name):
    backbone, random = BACKBONES[name](), np.random.default_rng(0)
    for weight in backbone.weights:
        weight.assign(weight + 0.3 * random.normal(size=weight.shape))
    return backbone


def hidden_of(backbone, ids, real, types):
    inputs = {"token_ids": ids, "segment_ids": types, "padding_mask": real.astype("int32")}
    found = backbone({name: inputs[name] for name in backbone.input})
    return np.asarray(found["sequence_output"] if isinstance(found, dict) else found)


def assert_close(found, wanted):
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("lengths", [[2], [5, 2, 3], [60, 7]], ids=str)
def test_hidden_states_are_those_of_the_backbone(name, lengths):
    backbone = random_backbone(name)
    ours = models.from_keras_hub(backbone, PIECES, lowercase=True)
    random, shape = np.random.default_rng(1), (len(lengths), max(lengths))
    real = np.arange(shape[1]) < np.array(lengths)[:, None]
    ids = np.where(real, random.integers(1, len(PIECES), shape), 0).astype("int32")
    types = random.integers(0, max(1, ours.config.token_types), shape).astype("int32")
    embedding, encoder = ours.core.get_layer("embedding"), ours.core.get_layer("encoder")
    found = np.asarray(encoder(embedding(ids, types=types), mask=real))
    assert_close(found[real], hidden_of(backbone, ids, real, types)[real])


@pytest.mark.parametrize("pieces", [PIECES, PIECES_PADDED_BY_1], ids=["padded by 0", "padded by 1"])
@pytest.mark.parametrize("name", BACKBONES)
def test_vectors_of_texts_are_those_of_the_tokenizer_and_the_backbone(name, pieces):
    """Theirs: KerasHub's own tokenizer and packer, the backbone, and the mean over the real tokens."""
    backbone = random_backbone(name)
    tokenizer = keras_hub.models.BertTokenizer(pieces, lowercase=True)
    packer = keras_hub.layers.MultiSegmentPacker(
        sequence_length=40,
        start_value=tokenizer.cls_token_id,
        end_value=tokenizer.sep_token_id,
        pad_value=tokenizer.pad_token_id,
    )
    ids, types = (np.asarray(each) for each in packer(tokenizer(TEXTS)))
    real = ids != tokenizer.pad_token_id
    hidden = hidden_of(backbone, ids, real, types)
    wanted = (hidden * real[..., None]).sum(1) / real.sum(1, keepdims=True)
    settings = {"lowercase": tokenizer.lowercase, "strip_accents": tokenizer.strip_accents}
    ours = models.from_keras_hub(backbone, tokenizer.get_vocabulary(), max_tokens=40, **settings)
    assert_close(ours.predict(TEXTS, verbose=0), wanted)


def test_the_encoder_is_saved_without_the_backbone(tmp_path):
    ours = models.from_keras_hub(
        random_backbone("BERT"), PIECES, lowercase=True, pooling="first", normalized=True
    )
    ours.save(tmp_path / "m.keras")
    found = models.load(tmp_path / "m.keras").predict(TEXTS, verbose=0)
    np.testing.assert_allclose(found, ours.predict(TEXTS, verbose=0), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=-1), 1, atol=1e-5)


def test_backbones_that_are_not_known_or_changed_are_refused():
    roberta = keras_hub.models.RobertaBackbone(**SIZES, **COUNT)
    with pytest.raises(
        ConfigError, match="BertBackbone, DistilBertBackbone, ElectraBackbone. Received a Roberta"
    ):
        models.from_keras_hub(roberta, PIECES, lowercase=True)
    backbone = BACKBONES["BERT"]()
    backbone.enable_lora(2)
    with pytest.raises(ConfigError, match=r"such as .*lora_.*Remove LoRA's"):
        models.from_keras_hub(backbone, PIECES, lowercase=True)


@pytest.mark.parametrize(
    ("pieces", "settings", "match"),
    [
        ([*PIECES, "more"], {}, "`vocabulary` has 14 pieces. `vocabulary_size` is 13, too few"),
        (PIECES[:3], {}, r"lacks `sep`, '\[SEP\]'"),
        (PIECES, {"max_tokens": 61}, "`max_tokens` .* must be at most `positions`, 60. Received 61"),
        (PIECES, {"pooling": "sum"}, "`pooling` must be one of"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(pieces, settings, match):
    backbone = keras_hub.models.BertBackbone(**{**SIZES, "num_layers": 1}, **COUNT)
    with pytest.raises(ConfigError, match=match):
        models.from_keras_hub(backbone, pieces, lowercase=True, **settings)


def test_the_example_runs():
    """`tests/test_docs.py` skips most of its lines, because KerasHub may be missing there."""
    function = models.from_keras_hub
    (example,) = doctest.DocTestFinder().find(function, "from_keras_hub", globs=dict(vars(models)))
    for line in example.examples:
        line.options.clear()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(example) == (0, 7)


def test_bfloat16_is_widened():
    backbone = keras_hub.models.DistilBertBackbone(**SIZES, **COUNT, dtype="bfloat16")
    table = models.from_keras_hub(backbone, PIECES, lowercase=True).core.get_layer("embedding").weights[0]
    theirs = np.asarray(backbone.token_embedding.embeddings).astype("float32")
    np.testing.assert_array_equal(np.asarray(table), theirs)


def test_the_guide_from_kerashub_runs():
    text = (Path(__file__).parents[3] / "docs" / "guides" / "from-kerashub.md").read_text(encoding="utf-8")
    names = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(code, "from-kerashub.md", "exec"), names)
    assert names["vectors"].shape == (1, 8)

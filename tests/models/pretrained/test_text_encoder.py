"""Pretrained encoders from folders: their hidden states, vectors, files and errors."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from pretrained_folders import (
    BERT,
    DEBERTA,
    DISTILBERT,
    ELECTRA,
    MODERNBERT,
    MPNET,
    PIECES,
    PIECES_OF_MPNET,
    ROBERTA,
    ROBERTA_BYTE_PAIRS,
    UNIGRAM,
    XLM_ROBERTA,
    hidden_states,
    pieces_of,
    prefix_of,
    weights_of,
    write_byte_pairs,
    write_folder,
    write_unigram,
)
from safetensors.numpy import save_file

from keras_selfattn import models
from keras_selfattn.errors import ConfigError, RunError
from keras_selfattn.layers.weights.settings import weights_to_come

TEXTS = ["a good film .", "bad", "", "the films badly"]
ROWS = [[2, 5, 6, 8, 11, 3], [2, 7, 3], [2, 3], [2, 12, 8, 9, 7, 10, 3]]


POOLED = [
    {"type": "sentence_transformers.models.Transformer", "path": ""},
    {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
]
OF_MODULES = {"modules__json": POOLED, "1_Pooling/config__json": {}}


def states(model, ids, types=None):
    """Returns hidden states of padded ids, `[batch, length, width]`."""
    embedding, encoder = model.core.get_layer("embedding"), model.core.get_layer("encoder")
    vectors = embedding(ids) if types is None else embedding(ids, types=types)
    return np.asarray(encoder(vectors, mask=ids != 0))


def padded(rows):
    ids = np.zeros((len(rows), max(map(len, rows))), "int32")
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
    return ids


def in_folder(config, rows):
    """Returns rows of ids as the folder of a family has them: its special tokens have other places."""
    pieces = pieces_of(config)
    special = dict(zip((2, 3), (("<s>", "</s>") if "<s>" in pieces else ("[CLS]", "[SEP]")), strict=True))
    return [[pieces.index(special[each]) if each in special else each for each in row] for row in rows]


def in_ours(config, rows):
    """Returns rows of a folder's ids after 0 and the id of padding have changed places."""
    padding = config.get("pad_token_id", 0)
    places = {0: padding, padding: 0}
    return [[places.get(each, each) for each in row] for row in rows]


FAMILIES = [BERT, DEBERTA, ELECTRA, DISTILBERT, ROBERTA, XLM_ROBERTA, MPNET, MODERNBERT]


@pytest.mark.parametrize("config", FAMILIES, ids=lambda config: config["model_type"])
@pytest.mark.parametrize("prefix", ["", "own"])
def test_hidden_states_are_those_of_the_formulas(tmp_path, config, prefix):
    prefix = prefix and prefix_of(config)
    tensors = weights_of(config, prefix)
    model = models.TextEncoder(start=write_folder(tmp_path / "m", config, tensors))
    theirs = in_folder(config, ROWS)
    assert [row.tolist() for row in model.tokenizer.rows(TEXTS)[0]] == in_ours(config, theirs)
    found = states(model, padded(in_ours(config, theirs)))
    plain = {name.removeprefix(prefix): value for name, value in tensors.items()}
    for row, of_row in zip(theirs, found, strict=True):
        np.testing.assert_allclose(of_row[: len(row)], hidden_states(config, plain, row), atol=2e-5)


def test_token_types_enter(tmp_path):
    tensors = weights_of(BERT)
    model = models.TextEncoder(start=write_folder(tmp_path / "m", BERT, tensors))
    found = states(model, np.array([ROWS[0]]), np.array([[0, 0, 0, 1, 1, 1]]))
    np.testing.assert_allclose(found[0], hidden_states(BERT, tensors, ROWS[0], [0, 0, 0, 1, 1, 1]), atol=2e-5)


def test_the_epsilon_of_the_folder_enters_each_normalisation(tmp_path):
    config = {**BERT, "layer_norm_eps": 0.3}
    tensors = weights_of(config)
    model = models.TextEncoder(start=write_folder(tmp_path / "m", config, tensors))
    found = states(model, np.array([ROWS[0]]))[0]
    np.testing.assert_allclose(found, hidden_states(config, tensors, ROWS[0]), atol=2e-5)
    assert np.abs(found - hidden_states(BERT, tensors, ROWS[0])).max() > 0.01


@pytest.mark.parametrize("config", [BERT, MPNET, MODERNBERT], ids=lambda config: config["model_type"])
def test_all_positions_of_the_table_can_be_used(tmp_path, config):
    tensors = weights_of(config)
    model = models.TextEncoder(start=write_folder(tmp_path / "m", config, tensors))
    assert model.config.positions == model.config.max_tokens == 16
    rows = in_folder(config, [[2, *[5, 8] * 7, 3]])
    found = states(model, np.array(in_ours(config, rows)))[0]
    np.testing.assert_allclose(found, hidden_states(config, tensors, rows[0]), atol=2e-5)


def test_padding_gets_the_id_0_and_its_vector_the_first_row(tmp_path):
    tensors = weights_of(MPNET)
    files = {
        "tokenizer_config__json": {
            "added_tokens_decoder": {"0": {"content": "<s>"}, "1": {"content": "<pad>"}}
        }
    }
    model = models.TextEncoder(start=write_folder(tmp_path / "m", MPNET, tensors, **files))
    assert model.tokenizer.vocabulary == ["<pad>", "<s>", *PIECES_OF_MPNET[2:]]
    settings = model.tokenizer.settings
    ids = {name: model.tokenizer.id_of(getattr(settings, name)) for name in ("pad", "cls", "sep", "unknown")}
    assert ids == {"pad": 0, "cls": 1, "sep": 2, "unknown": 3}
    assert settings.added_tokens == {"<pad>": 0, "<s>": 1, "</s>": 2, "[UNK]": 3, "<mask>": 4}
    # Padding is what the id 0 means, so that of a text has one of its own.
    (row,) = model.tokenizer.rows(["good<pad>zebra <s>"])[0]
    assert row.tolist() == [1, 6, len(PIECES_OF_MPNET), 3, 1, 2]
    table, theirs = model.core.get_layer("embedding").weights[0], tensors["embeddings.word_embeddings.weight"]
    np.testing.assert_array_equal(table, theirs[[1, 0, *range(2, len(theirs))]])


@pytest.mark.slow
@pytest.mark.parametrize("config", FAMILIES, ids=lambda config: config["model_type"])
def test_padding_that_a_text_has_is_a_token_with_the_vector_of_padding(tmp_path, config):
    """At the beginning, in the middle, at the end and alone, beside longer and shorter rows."""
    tensors = weights_of(config)
    model = models.TextEncoder(start=write_folder(tmp_path / "m", config, tensors))
    pad = model.tokenizer.settings.pad
    texts = [f"{pad} a film", f"a {pad}{pad} good film", f"a film {pad}", pad, "the film is " * 3, ""]
    ids = padded(model.tokenizer.rows(texts)[0])
    written = model.tokenizer.written_padding
    assert [(row == written).sum() for row in ids] == [1, 2, 1, 1, 0, 0]
    found, vectors = states(model, ids), model.predict(texts, verbose=0)
    for row, text in enumerate(texts):
        known = in_ours(config, [[0 if each == written else each for each in ids[row][ids[row] != 0]]])[0]
        wanted = hidden_states(config, tensors, known)
        np.testing.assert_allclose(found[row][: len(known)], wanted, atol=2e-5, err_msg=text)
        np.testing.assert_allclose(vectors[row], wanted.mean(axis=0), atol=2e-5, err_msg=text)
        assert not found[row][len(known) :].any()


@pytest.mark.slow
def test_a_file_from_before_padding_had_a_position_answers_as_it_did(tmp_path):
    """Its table of positions begins with that of the first token, and its config knows no other."""
    model = models.TextEncoder(start=write_folder(tmp_path / "m", MPNET))
    config = model.config.to_dict()
    assert config.pop("padding_position") is True
    before = models.TextEncoder(config, vocabulary=model.tokenizer.vocabulary)
    places = before.core.get_layer("embedding").weights[1]
    weights = [np.asarray(weight) for weight in model.core.weights]
    before.core.set_weights([weights[0], weights[1][1:], *weights[2:]])
    assert places.shape == (model.config.positions, model.config.width)
    before.save(tmp_path / "before.keras")
    texts = ["a good film", "", "badly the films"]
    wanted = model.predict(texts, verbose=0)
    np.testing.assert_array_equal(models.load(tmp_path / "before.keras").predict(texts, verbose=0), wanted)


def test_a_vocabulary_with_padding_elsewhere_than_first_is_refused():
    """Any other token with the id 0 would be masked."""
    config = {"width": 8, "num_layers": 1, "num_heads": 2, "positions": 16, "max_tokens": 16}
    vocabulary = ["good", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[PAD]"]
    with pytest.raises(ConfigError, match=r"'\[PAD\]', the padding, must have the id 0, .* the id 5 in"):
        models.TextEncoder({**config, "vocabulary_size": 6}, vocabulary=vocabulary)


def test_any_id_of_the_vocabulary_can_be_that_of_padding(tmp_path):
    config = {**BERT, "pad_token_id": 5}
    tensors = weights_of(config)
    pieces = [PIECES[5], *PIECES[1:5], PIECES[0], *PIECES[6:]]
    model = models.TextEncoder(start=write_folder(tmp_path / "m", config, tensors, pieces))
    assert model.tokenizer.vocabulary == PIECES
    found = states(model, padded(ROWS))
    for row, of_row in zip(ROWS, found, strict=True):
        theirs = [{0: 5, 5: 0}.get(each, each) for each in row]
        np.testing.assert_allclose(of_row[: len(row)], hidden_states(config, tensors, theirs), atol=2e-5)


def test_each_layer_has_a_copy_of_the_shared_table_of_biases(tmp_path):
    tensors = weights_of(MPNET)
    model = models.TextEncoder(start=write_folder(tmp_path / "m", MPNET, tensors))
    tables = [weight for weight in model.core.weights if weight.path.endswith("relative_bias")]
    assert len(tables) == 2
    for table in tables:
        np.testing.assert_array_equal(table, tensors["encoder.relative_attention_bias.weight"])
    del tensors["encoder.relative_attention_bias.weight"]
    with pytest.raises(
        ConfigError, match=r"in 1 places:\n  encoder.relative_attention_bias.weight is missing"
    ):
        models.TextEncoder(start=write_folder(tmp_path / "m", MPNET, tensors))


@pytest.mark.parametrize(
    ("modules", "pooling", "normalized", "expected"),
    [
        (None, None, False, lambda x: x.mean(axis=0)),
        (["Transformer", "Pooling"], {"pooling_mode_cls_token": True}, False, lambda x: x[0]),
        (["Transformer", "Pooling"], {"pooling_mode": "cls", "include_prompt": True}, False, lambda x: x[0]),
        (["Transformer", "Pooling"], {"pooling_mode": ["max"]}, False, lambda x: x.max(axis=0)),
        (["Transformer", "Pooling"], {"pooling_mode_cls_token": False}, False, lambda x: x.mean(axis=0)),
        (["Transformer", "Pooling"], {"pooling_mode_max_tokens": True}, False, lambda x: x.max(axis=0)),
        (
            ["Transformer", "Pooling", "Normalize"],
            {"pooling_mode_mean_tokens": True},
            True,
            lambda x: x.mean(axis=0) / np.linalg.norm(x.mean(axis=0)),
        ),
    ],
)
def test_vectors_are_pooled_as_the_folder_says(tmp_path, modules, pooling, normalized, expected):
    tensors = weights_of(BERT)
    folder = write_folder(tmp_path / "m", BERT, tensors)
    if modules is not None:
        kinds = [
            {"type": f"sentence_transformers.models.{kind}", "path": f"{n}_{kind}" if n else ""}
            for n, kind in enumerate(modules)
        ]
        write_folder(folder, BERT, tensors, **{"modules__json": kinds, "1_Pooling/config__json": pooling})
    model = models.TextEncoder(start=folder)
    assert model.config.normalized is normalized
    found = model.predict(TEXTS, verbose=0)
    assert found.dtype == np.float32
    for row, vector in zip(ROWS, found, strict=True):
        np.testing.assert_allclose(vector, expected(hidden_states(BERT, tensors, row)), atol=2e-5)


def write_dense(folder, tensors, prompt=None, **settings):
    """A folder with two poolings, a layer after them, a normalisation, and a prompt if it is given."""
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in LAYERED]
    pooling = {"pooling_mode": ["mean", "cls"], "include_prompt": False}
    of_layer = {"in_features": 16, "out_features": 5, "bias": True, **settings}
    of_layer.setdefault("activation_function", "torch.nn.modules.activation.Tanh")
    named = {} if prompt is None else {"prompts": {"a": prompt}, "default_prompt_name": "a"}
    files = {"modules__json": modules, "1_Pooling/config__json": pooling, "2_Dense/config__json": of_layer}
    write_folder(folder, BERT, tensors, **files, config_sentence_transformers__json=named)
    random = np.random.default_rng(4)
    layer = {"linear.weight": random.normal(size=(5, 16)), "linear.bias": random.normal(size=5)}
    layer = {name: value.astype(np.float32) for name, value in layer.items()}
    save_file(layer, folder / "2_Dense" / "model.safetensors")
    return layer


LAYERED = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", "2_Dense"), ("Normalize", "3_Normalize")]


def test_vectors_pass_the_layers_after_the_poolings(tmp_path):
    tensors = weights_of(BERT)
    layer = write_dense(tmp_path / "m", tensors)
    model = models.TextEncoder(start=tmp_path / "m")
    assert (model.config.pooling, model.config.further_poolings) == ("mean", ["first"])
    found = model.predict(TEXTS, verbose=0)
    for row, vector in zip(ROWS, found, strict=True):
        states = hidden_states(BERT, tensors, row)
        x = np.concatenate([states.mean(axis=0), states[0]])
        x = np.tanh(layer["linear.weight"].astype(np.float64) @ x + layer["linear.bias"])
        np.testing.assert_allclose(vector, x / np.linalg.norm(x), atol=2e-5)
    model.save(tmp_path / "m.keras")
    np.testing.assert_array_equal(models.load(tmp_path / "m.keras").predict(TEXTS, verbose=0), found)


def test_a_prompt_is_read_before_each_text_and_left_out_by_the_pooling(tmp_path):
    tensors = weights_of(BERT)
    layer = write_dense(tmp_path / "m", tensors, prompt="the bad ")
    model = models.TextEncoder(start=tmp_path / "m")
    prompt = [PIECES.index("the"), PIECES.index("bad")]
    found = model.predict(TEXTS, verbose=0)
    for row, vector in zip(ROWS, found, strict=True):
        read = [row[0], *prompt, *row[1:]][:16]
        read[-1] = row[-1]
        states = hidden_states(BERT, tensors, read)[3:]
        x = np.concatenate([states.mean(axis=0), states[0]])
        x = np.tanh(layer["linear.weight"].astype(np.float64) @ x + layer["linear.bias"])
        np.testing.assert_allclose(vector, x / np.linalg.norm(x), atol=2e-5)
    np.testing.assert_allclose(np.asarray(model(tf.constant(TEXTS))), found, atol=1e-6)
    model.save(tmp_path / "m.keras")
    np.testing.assert_array_equal(models.load(tmp_path / "m.keras").predict(TEXTS, verbose=0), found)


def test_files_of_sentence_transformers_count_beside_its_modules_alone(tmp_path):
    """As in sentence-transformers, which makes modules of its own where a folder names none."""
    files = {
        "sentence_bert_config__json": {"max_seq_length": 5, "do_lower_case": True},
        "config_sentence_transformers__json": {
            "default_prompt_name": "a",
            "prompts": {"a": "the bad "},
            "truncate_dim": 3,
        },
    }
    found = models.TextEncoder(start=write_folder(tmp_path / "m", **files)).config
    assert (found.max_tokens, found.prompt, found.truncate_dim) == (16, "", None)
    found = models.TextEncoder(start=write_folder(tmp_path / "n", **files, **OF_MODULES)).config
    assert (found.max_tokens, found.prompt, found.truncate_dim) == (5, "the bad ", 3)


def test_texts_and_groups_are_predicted_one_after_the_other(tmp_path):
    model = models.TextEncoder(start=write_folder(tmp_path / "m"))
    texts, groups = ["good", "a film", "bad"], [("good", "a film"), ("bad", "")]
    for _ in range(2):
        alone, together = model.predict(texts, verbose=0), model.predict(groups, verbose=0)
        np.testing.assert_allclose(together[0], alone[:2], atol=1e-6)
        np.testing.assert_allclose(together[1, 0], alone[2], atol=1e-6)


def test_a_training_begins_with_the_first_pooling_alone(tmp_path):
    """Layers after it, and the prompt, are of the vectors that the folder was made for."""
    write_dense(tmp_path / "m", weights_of(BERT), prompt="the bad ")
    model = models.TextClassifier(start=tmp_path / "m")
    assert (model.config.pooling, model.config.further_poolings, model.config.dense) == ("mean", [], [])
    assert model.config.prompt == ""


def test_the_layers_after_the_poolings_are_trained(tmp_path):
    write_dense(tmp_path / "m", weights_of(BERT))
    model = models.TextEncoder(start=tmp_path / "m")
    before = model.core.get_layer("dense_0").get_weights()
    model.compile()
    model.fit([("a good film", "the film"), ("bad", "a good film")], [1.0, 0.0], epochs=1, verbose=0)
    after = model.core.get_layer("dense_0").get_weights()
    assert all(np.abs(one - two).max() > 0 for one, two in zip(before, after, strict=True))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"in_features": 8}, "`in_features` is 8, and the vectors before it have 16 features"),
        ({"out_features": 0}, "`units` must be a positive integer"),
        ({"out_features": 6}, "The tensors of .*2_Dense are .* needs"),
        ({"bias": "yes"}, "`use_bias` must be"),
        ({"activation_function": "mine.Softer"}, "`activation_function` is 'mine.Softer'. Those that can be"),
        ({"use_residual": True}, "`use_residual` is True. This cannot be read"),
        ({"module_input_name": "token_embeddings"}, "`module_input_name` is 'token_embeddings'"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_a_layer_after_the_poolings_that_does_not_fit_is_refused(tmp_path, settings, message):
    write_dense(tmp_path / "m", weights_of(BERT), **settings)
    with pytest.raises(ConfigError, match=message):
        models.TextEncoder(start=tmp_path / "m")


def test_a_layer_without_safetensors_is_told_with_the_way_out(tmp_path):
    write_dense(tmp_path / "m", weights_of(BERT))
    (tmp_path / "m" / "2_Dense" / "model.safetensors").rename(
        tmp_path / "m" / "2_Dense" / "pytorch_model.bin"
    )
    with pytest.raises(RunError, match=r"lacks 2_Dense/model.safetensors. The weights of this module are a"):
        models.TextEncoder(start=tmp_path / "m")


_READ = """
import sys
from pathlib import Path
from keras_selfattn import models
def kilobytes(name):  # ru_maxrss would also be of the process that began this one
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))
models.TextEncoder(start=sys.argv[1])  # a small one: all that is imported and compiled once
before = kilobytes("VmRSS")
model = models.TextEncoder(start=sys.argv[2])
grown = 1024 * (kilobytes("VmHWM") - before)
print(grown / (4 * model.core.count_params()))
"""


@pytest.mark.slow
@pytest.mark.process
def test_reading_a_folder_takes_little_memory_beside_its_weights(tmp_path):
    """The file's pages, the array that is read, and the weights; random numbers took three times more."""
    small, rows = write_folder(tmp_path / "small"), 60_000
    pieces = [*PIECES, *(f"w{number}" for number in range(rows - len(PIECES)))]
    config = {**BERT, "vocab_size": rows, "hidden_size": 256}
    large = write_folder(tmp_path / "large", config, pieces=pieces)
    found = subprocess.run(
        [sys.executable, "-c", _READ, str(small), str(large)], capture_output=True, text=True, check=True
    )
    assert 1 < float(found.stdout) < 5


def test_weights_are_zeros_until_those_of_the_folder_are_set(tmp_path):
    with weights_to_come():
        empty = models.TextEncoder(
            {
                "width": 8,
                "num_layers": 1,
                "num_heads": 2,
                "positions": 16,
                "max_tokens": 16,
                "vocabulary_size": 13,
            },
            vocabulary=PIECES,
        )
    kernels = [weight for weight in empty.core.weights if weight.name.endswith(("kernel", "tokens"))]
    assert len(kernels) > 4
    assert not any(np.asarray(weight).any() for weight in kernels)
    drawn = models.TextEncoder(empty.config, vocabulary=PIECES)
    assert all(np.asarray(drawn.core.get_layer("embedding").vectors).any(axis=1))


@pytest.mark.slow
def test_texts_and_ids_give_the_same_vectors_in_any_batch(tmp_path):
    model = models.TextEncoder(start=write_folder(tmp_path / "m"))
    whole = model.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(model.predict(TEXTS, batch_size=1, verbose=0), whole, atol=1e-6)
    np.testing.assert_allclose(np.asarray(model(np.array([ROWS[0]]))), whole[:1], atol=1e-6)
    assert model.predict([], verbose=0).shape == (0, 8)


@pytest.mark.slow
def test_a_saved_model_needs_the_folder_no_more(tmp_path):
    folder = write_folder(tmp_path / "m", ELECTRA)
    model = models.TextEncoder(start=folder)
    before = model.predict(TEXTS, verbose=0)
    model.save(tmp_path / "m.keras")
    for file in folder.iterdir():
        file.unlink()
    np.testing.assert_array_equal(models.load(tmp_path / "m.keras").predict(TEXTS, verbose=0), before)


def test_load_takes_the_folder(tmp_path):
    assert isinstance(models.load(write_folder(tmp_path / "m")), models.TextEncoder)


@pytest.mark.slow
def test_shards_and_older_names_and_half_precision_and_unused_heads_are_read(tmp_path):
    tensors = weights_of(BERT, "bert.")
    plain = models.TextEncoder(start=write_folder(tmp_path / "plain", BERT, tensors))
    older = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in tensors.items()
    }
    older |= {
        "bert.embeddings.position_ids": np.arange(16)[None],
        "bert.pooler.dense.weight": np.zeros((8, 8), np.float32),
        "cls.predictions.bias": np.zeros(13, np.float32),
    }
    folder = write_folder(tmp_path / "m", BERT)
    (folder / "model.safetensors").unlink()
    places = {}
    for number in (1, 2):
        shard = f"model-{number:05}-of-00002.safetensors"
        part = {name: older[name] for name in sorted(older)[number - 1 :: 2]}
        save_file(part, folder / shard)
        places |= dict.fromkeys(part, shard)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    whole = plain.predict(TEXTS, verbose=0)
    np.testing.assert_array_equal(models.TextEncoder(start=folder).predict(TEXTS, verbose=0), whole)
    half = {name: value.astype(np.float16) for name, value in tensors.items()}
    found = models.TextEncoder(start=write_folder(tmp_path / "half", BERT, half)).predict(TEXTS, verbose=0)
    np.testing.assert_allclose(found, whole, atol=0.02)


@pytest.mark.slow
def test_bfloat16_is_widened(tmp_path):
    import ml_dtypes

    tensors = weights_of(BERT)
    narrow = {name: value.astype(ml_dtypes.bfloat16) for name, value in tensors.items()}
    folder = write_folder(tmp_path / "m", BERT, narrow)
    widened = write_folder(tmp_path / "w", BERT, {n: v.astype(np.float32) for n, v in narrow.items()})
    np.testing.assert_array_equal(
        models.TextEncoder(start=folder).predict(TEXTS, verbose=0),
        models.TextEncoder(start=widened).predict(TEXTS, verbose=0),
    )


def without(tensors, *names):
    return {name: value for name, value in tensors.items() if name not in names}


def test_all_faults_of_the_weights_are_named_at_once(tmp_path):
    first, second = "encoder.layer.0.attention.self.key.bias", "encoder.layer.1.output.dense.weight"
    tensors = without(weights_of(BERT), first)
    tensors[second] = np.zeros((8, 11), np.float32)
    tensors["encoder.layer.1.adapter.weight"] = np.zeros(3, np.float32)
    with pytest.raises(ConfigError) as caught:
        models.TextEncoder(start=write_folder(tmp_path / "m", BERT, tensors))
    message = str(caught.value)
    assert "in 3 places" in message
    assert f"{first} is missing" in message
    assert f"{second} has shape [8, 11] where config.json needs [8, 12]" in message
    assert "encoder.layer.1.adapter.weight has no place in this family" in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model_type": "gpt2"},
            "'gpt2'. The encoders that can be read are bert, deberta-v2, distilbert, electra, eurobert, gte",
        ),
        ({"model_type": None}, "family None"),
        ({"is_decoder": True}, "holds a decoder"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type 'relative_key'"),
        ({"pad_token_id": 1}, "tokenizer of .* pads with the id 0, its model with 1"),
        (
            {"pad_token_id": None},
            r"pads with the id None \(pad_token_id in config.json\). It must be 0 or more",
        ),
        ({"pad_token_id": -1}, "pads with the id -1"),
        (
            {"hidden_size": 10**9},
            r"has 8,000,000,079,000,000,000 weights or more.* width 1000000000",
        ),
        ({"num_hidden_layers": 10**9}, "files hold [0-9,]*: .* layers 1000000000"),
        ({"vocab_size": 10**12}, "has 8,000,0.* vocab_size 1000000000000"),
        ({"hidden_act": "mish"}, "activation 'mish' of config.json is not known"),
        ({"hidden_size": 9}, "config.json cannot be used: `width` must be divisible by `num_heads`"),
        ({"model_type": ["bert"]}, r"family \['bert'\]"),
        ({"hidden_act": [1]}, r"activation \[1\] of config.json is not known"),
        ({"vocab_size": "8"}, r"config.json cannot be used: `vocabulary_size` must be a positive integer"),
        ({"num_hidden_layers": None}, r"config.json cannot be used: `num_layers` must be a positive integer"),
        ({"vocab_size": 12}, "tokenizer of .* has 13 pieces, the model vectors for 12"),
    ],
)
def test_a_config_that_cannot_be_read_is_refused(tmp_path, change, message):
    with pytest.raises(ConfigError, match=message):
        models.TextEncoder(start=write_folder(tmp_path / "m", {**BERT, **change}, weights_of(BERT)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pad_token_id": 0}, r"pads with the id 0 \(pad_token_id in config.json\). In MPNet it must be 1"),
        ({"relative_attention_num_buckets": 64}, "relative_attention_num_buckets is 64 in config.json"),
        ({"max_position_embeddings": "18"}, "`positions` must be a positive integer. Received '18'"),
        ({"max_position_embeddings": 2}, "`positions` must be a positive integer. Received 0"),
    ],
)
def test_a_config_of_mpnet_that_cannot_be_read_is_refused(tmp_path, change, message):
    with pytest.raises(ConfigError, match=message):
        models.TextEncoder(start=write_folder(tmp_path / "m", {**MPNET, **change}, weights_of(MPNET)))


def test_a_tokenizer_that_pads_with_another_id_is_refused(tmp_path):
    folder = write_folder(tmp_path / "m", pieces=[PIECES[5], *PIECES[1:5], PIECES[0], *PIECES[6:]])
    with pytest.raises(ConfigError, match=r"tokenizer of .* pads with the id 5, its model with 0"):
        models.TextEncoder(start=folder)
    folder = write_folder(
        tmp_path / "n",
        {**BERT, "pad_token_id": 20},
        pieces=[*PIECES[1:]],
        **{"tokenizer_config__json": {"added_tokens_decoder": {"20": {"content": "[PAD]"}}}},
    )
    with pytest.raises(ConfigError, match=r"added token '.PAD.' has the id 20, but 12 is the next one"):
        models.TextEncoder(start=folder)


OF_BYTE_PAIRS = ["a good film", "", " bad<mask> films\n", "sœurs </s>"]


def ids_of_byte_pairs(folder):
    """Returns the ids that the package `tokenizers` gives the texts of a folder with byte pairs."""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.ByteLevelBPETokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    for token in ("<s>", "<pad>", "</s>", "<unk>", "<mask>"):
        made.add_special_tokens([tokenizers.AddedToken(token, lstrip=token == "<mask>")])
    return [[0, *each.ids, 2] for each in made.encode_batch(OF_BYTE_PAIRS)]


def test_hidden_states_of_a_unigram_tokenizer_are_those_of_the_formulas(tmp_path):
    config = {**XLM_ROBERTA, "vocab_size": len(UNIGRAM)}
    tensors = weights_of(config)
    model = models.TextEncoder(start=write_unigram(tmp_path / "m", tensors))
    ids = {piece: number for number, (piece, _) in enumerate(UNIGRAM)}
    texts = ["a good films .", "", "bad <mask>xy"]
    pieces = [["▁a", "▁good", "▁film", "s", "▁", "."], [], ["▁bad", "<mask>", "▁", "<unk>"]]
    theirs = [[0, *(ids[piece] for piece in row), 2] for row in pieces]
    rows = in_ours(config, theirs)
    assert [row.tolist() for row in model.tokenizer.rows(texts)[0]] == rows
    found = states(model, padded(rows))
    for row, of_row in zip(theirs, found, strict=True):
        np.testing.assert_allclose(of_row[: len(row)], hidden_states(config, tensors, row), atol=2e-5)
    model.save(tmp_path / "m.keras")
    again = models.load(tmp_path / "m.keras")
    np.testing.assert_array_equal(again.predict(texts, verbose=0), model.predict(texts, verbose=0))


def test_a_bert_with_the_tokenizer_of_xlm_roberta_pads_as_that_does(tmp_path):
    """Such as multilingual MiniLM, whose config.json says that padding is 0: the id of <s>."""
    config = {**BERT, "vocab_size": len(UNIGRAM), "pad_token_id": 0}
    tensors = weights_of(config)
    folder = write_unigram(tmp_path / "m", tensors, config=config)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "XLMRobertaTokenizer"}))
    model = models.TextEncoder(start=folder)
    ids = {piece: number for number, (piece, _) in enumerate(UNIGRAM)}
    theirs = [[0, *(ids[piece] for piece in row), 2] for row in (["▁a", "▁film"], [], ["▁bad", "<mask>"])]
    rows = in_ours({"pad_token_id": 1}, theirs)
    assert [row.tolist() for row in model.tokenizer.rows(["a film", "", "bad <mask>"])[0]] == rows
    found = states(model, padded(rows))
    for row, of_row in zip(theirs, found, strict=True):
        np.testing.assert_allclose(of_row[: len(row)], hidden_states(config, tensors, row), atol=2e-5)


def test_hidden_states_of_byte_pairs_are_those_of_the_formulas(tmp_path):
    tensors = weights_of(ROBERTA_BYTE_PAIRS)
    folder = write_byte_pairs(tmp_path / "m", tensors)
    model = models.TextEncoder(start=folder)
    theirs = ids_of_byte_pairs(folder)
    rows = in_ours(ROBERTA_BYTE_PAIRS, theirs)
    assert [row.tolist() for row in model.tokenizer.rows(OF_BYTE_PAIRS)[0]] == rows
    found = states(model, padded(rows))
    for row, of_row in zip(theirs, found, strict=True):
        np.testing.assert_allclose(of_row[: len(row)], hidden_states(ROBERTA, tensors, row), atol=2e-5)


@pytest.mark.slow
def test_a_saved_model_of_byte_pairs_needs_the_folder_no_more(tmp_path):
    folder = write_byte_pairs(tmp_path / "m")
    model = models.TextEncoder(start=folder)
    before = model.predict(OF_BYTE_PAIRS, verbose=0)
    model.save(tmp_path / "m.keras")
    for file in folder.iterdir():
        file.unlink()
    again = models.load(tmp_path / "m.keras")
    assert again.tokenizer.settings == model.tokenizer.settings
    assert again.config.pieces["kind"] == "byte pairs"
    np.testing.assert_array_equal(again.predict(OF_BYTE_PAIRS, verbose=0), before)


def test_a_tokenizer_saved_before_there_were_kinds_is_wordpiece(tmp_path):
    config = models.TextEncoder(start=write_folder(tmp_path / "m")).get_config()
    assert config["config"]["pieces"].pop("kind") == "wordpiece"
    again = models.TextEncoder.from_config(config)
    assert [row.tolist() for row in again.tokenizer.rows(TEXTS)[0]] == ROWS
    config["config"]["pieces"]["kind"] = "words"
    with pytest.raises(ConfigError, match="must be one of wordpiece, byte pairs, unigram. Received 'words'"):
        models.TextEncoder.from_config(config)


def test_byte_pairs_of_another_kind_are_refused(tmp_path):
    folder = write_byte_pairs(tmp_path / "m", tokenizer__json={"model": {"type": "BPE"}})
    with pytest.raises(ConfigError, match="tokenizer.json, or .* has not the usual form: KeyError"):
        models.TextEncoder(start=folder)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {
                "modules__json": [
                    {"type": "sentence_transformers.models.Transformer"},
                    {"type": "sentence_transformers.models.Dense"},
                ]
            },
            "modules of .* are Transformer at '', Dense at ''",
        ),
        (
            {
                "modules__json": [
                    {"type": f"sentence_transformers.models.{kind}", "path": kind if place else ""}
                    for place, kind in enumerate(["Transformer", "Pooling", "Normalize", "Dense"])
                ],
                "Pooling/config__json": {},
            },
            "Normalize at 'Normalize', Dense at 'Dense'. Only Transformer, Pooling, then any of Dense",
        ),
        ({"modules__json": {"a": 1}}, "must hold a list of JSON objects"),
        (
            {"modules__json": [POOLED[0], {"type": "custom_st.Pooling", "path": "p"}], "p/config__json": {}},
            "custom_st.Pooling at 'p'. Only .* all of them sentence-transformers' own",
        ),
        (
            {**OF_MODULES, "1_Pooling/config__json": {"pooling_mode": []}},
            "is empty in 1_Pooling/config.json. One or several of",
        ),
        (
            {**OF_MODULES, "1_Pooling/config__json": {"include_prompt": 0}},
            "1_Pooling/config.json: `include_prompt` must be true or false. Received 0",
        ),
        (
            {
                "modules__json": [
                    {"type": "sentence_transformers.models.Transformer"},
                    {"type": "sentence_transformers.models.Pooling", "path": "p"},
                ],
                "p/config__json": {"pooling_mode_weightedmean_tokens": True},
            },
            "pooling of .* is pooling_mode_weightedmean_tokens",
        ),
        (
            {
                "modules__json": [
                    {"type": "sentence_transformers.models.Transformer"},
                    {"type": "sentence_transformers.models.Pooling", "path": "../p"},
                ]
            },
            "must be in a subfolder. Its path is '../p'",
        ),
        (
            {
                "modules__json": [
                    {"type": "sentence_transformers.models.Transformer"},
                    {"type": "sentence_transformers.models.Pooling", "path": "p"},
                ],
                "p/config__json": {"pooling_mode_cls_token": 1},
            },
            "pooling of .* is pooling_mode_cls_token",
        ),
        (
            {"modules__json": [{"type": "sentence_transformers.models.Transformer", "path": "0_T"}]},
            "Transformer at '0_T'",
        ),
        (
            {**OF_MODULES, "config_sentence_transformers__json": {"default_prompt_name": "a"}},
            "default_prompt_name is 'a', and `prompts` has no text of that name: {}",
        ),
        (
            {**OF_MODULES, "sentence_bert_config__json": {"max_seq_length": "long"}},
            "`max_seq_length` must be a positive integer",
        ),
    ],
)
def test_modules_that_cannot_be_read_are_refused(tmp_path, files, message):
    with pytest.raises(ConfigError, match=message):
        models.TextEncoder(start=write_folder(tmp_path / "m", **files))


SENTENCE = "sentence_bert_config__json"
OF_SENTENCES = "config_sentence_transformers__json"
SCORES = {"text": {"method": "forward", "method_output_name": "logits"}}
TOKENS = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {SENTENCE: {"modality_config": SCORES}},
            r"sentence_bert_config.json: `modality_config` is .*logits",
        ),
        ({SENTENCE: {"modality_config": {**TOKENS, "message": TOKENS["text"]}}}, "`modality_config` is"),
        ({SENTENCE: {"module_output_name": "scores"}}, "`module_output_name` is 'scores'"),
        ({SENTENCE: {"transformer_task": "sequence-classification"}}, "`transformer_task` is 'sequence-"),
        (
            {SENTENCE: {"processing_kwargs": {"text": {"max_length": 3}}}},
            "`processing_kwargs` is .* arguments",
        ),
        ({SENTENCE: {"tokenizer_args": {"do_lower_case": False}}}, "`tokenizer_args` is"),
        ({SENTENCE: {"query_length": 32}}, "`query_length` is 32"),
        ({SENTENCE: {"new_field": 1}}, "`new_field` is not a known field, and could change the outputs"),
        ({**OF_MODULES, OF_SENTENCES: {"truncate_dim": "8"}}, "`truncate_dim` must be .*'8'"),
        ({OF_SENTENCES: {"model_type": "CrossEncoder"}}, "`model_type` is 'CrossEncoder'"),
        ({OF_SENTENCES: {"model_type": "SparseEncoder"}}, "`model_type` is 'SparseEncoder'"),
        ({"tokenizer_config__json": {"truncation_side": "left"}}, "`truncation_side` is 'left'"),
        ({"tokenizer_config__json": {"split_special_tokens": True}}, "`split_special_tokens` is True"),
        (
            {"tokenizer_config__json": {"fast_tokenizer_files": ["tokenizer.4.0.json"]}},
            "`fast_tokenizer_files`",
        ),
        ({"tokenizer_config__json": {"auto_map": {"AutoTokenizer": ["a.B", None]}}}, "`auto_map` is"),
        ({"tokenizer_config__json": {"tokenizer_class": "BertJapaneseTokenizer"}}, "'BertJapaneseTokenizer'"),
        ({"special_tokens_map__json": {"do_lower_case": False}}, "`do_lower_case` is not a known field"),
        ({"tokenizer__json": {"added": []}}, "`added` is not a known field"),
        ({"adapter_config__json": {}}, r"holds an adapter \(adapter_config.json\)"),
        ({"modules__json": [{**POOLED[0], "kwargs": ["task"]}]}, r"modules.json: `kwargs` is \['task'\]"),
        (
            {"modules__json": POOLED, "1_Pooling/config__json": {"pooling_mode_new": False}},
            "1_Pooling/config.json: `pooling_mode_new` is not a known field",
        ),
        (
            {
                "modules__json": [
                    *POOLED,
                    {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"},
                ],
                "1_Pooling/config__json": {},
                "2_Normalize/config__json": {"module_input_name": "token_embeddings"},
            },
            "2_Normalize/config.json: `module_input_name` is 'token_embeddings'",
        ),
    ],
)
def test_fields_that_would_change_the_vectors_are_refused_by_name(tmp_path, files, message):
    with pytest.raises(ConfigError, match=message):
        models.TextEncoder(start=write_folder(tmp_path / "m", **files))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"quantization_config": {"bits": 8}}, "config.json: `quantization_config` is"),
        ({"is_causal": True}, "config.json: `is_causal` is True. This cannot be read: only encoders"),
        ({"auto_map": {"AutoModel": "a.B"}}, "config.json: `auto_map` is .* code of its own"),
        ({"pruned_heads": {"0": [1]}}, "config.json: `pruned_heads` is"),
        ({"is_encoder_decoder": True}, "an encoder and a decoder, 'bert'"),
    ],
)
def test_fields_of_the_model_that_are_refused_are_named(tmp_path, change, message):
    with pytest.raises(ConfigError, match=message):
        models.TextEncoder(start=write_folder(tmp_path / "m", {**BERT, **change}))


def test_distilberts_sizes_have_two_names(tmp_path):
    """The number of heads shows in no weight."""
    other = {"dim": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads"}
    config = {other.get(name, name): value for name, value in DISTILBERT.items()}
    tensors = weights_of(DISTILBERT)
    model = models.TextEncoder(start=write_folder(tmp_path / "m", config, tensors))
    assert (model.config.num_heads, model.config.num_layers) == (2, 2)
    with pytest.raises(ConfigError, match="n_heads is 2 in config.json, and num_attention_heads, its other"):
        models.TextEncoder(
            start=write_folder(tmp_path / "m", {**DISTILBERT, "num_attention_heads": 4}, tensors)
        )


def test_a_window_of_modernbert_by_another_name_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="`sliding_window` is 3.*`local_attention`, which is twice as much"):
        models.TextEncoder(start=write_folder(tmp_path / "m", {**MODERNBERT, "sliding_window": 3}))


# Notes and settings that folders have, and that change no vector.
NOTES = {
    **BERT,
    "_name_or_path": "a",
    "architectures": ["BertModel"],
    "auto_map": None,
    "classifier_dropout": None,
    "directionality": "bidi",
    "dtype": "float32",
    "gradient_checkpointing": False,
    "id2label": {"0": "LABEL_0"},
    "initializer_range": 0.02,
    "label2id": {"LABEL_0": 0},
    "output_hidden_states": True,
    "pooler_fc_size": 768,
    "position_embedding_type": "absolute",
    "pruned_heads": {},
    "task_specific_params": None,
    "torch_dtype": "float16",
    "transformers_version": "4.8.2",
    "use_cache": True,
}
QUIET = {
    "tokenizer_config__json": {
        "do_lower_case": True,
        "unk_token": "[UNK]",
        "model_max_length": 1000000000000000019884624838656,
        "name_or_path": "a",
        "special_tokens_map_file": None,
        "tokenize_chinese_chars": True,
        "strip_accents": None,
        "tokenizer_class": "BertTokenizer",
        "never_split": None,
        "do_basic_tokenize": True,
        "clean_up_tokenization_spaces": True,
        "truncation_side": "right",
        "padding_side": "right",
    },
    SENTENCE: {
        "max_seq_length": None,
        "do_lower_case": False,
        "modality_config": TOKENS,
        "unpad_inputs": True,
    },
    OF_SENTENCES: {
        "__version__": {"sentence_transformers": "6.2.0"},
        "default_prompt_name": "query",
        "model_type": "SentenceTransformer",
        "prompts": {"query": "", "document": ""},
        "similarity_fn_name": "cosine",
        "truncate_dim": 8,
    },
    "special_tokens_map__json": {"cls_token": "[CLS]", "pad_token": {"content": "[PAD]", "lstrip": False}},
    "modules__json": [
        *({**each, "idx": place, "name": str(place)} for place, each in enumerate(POOLED)),
        {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"},
        {"type": "sentence_transformers.models.Dropout", "path": "3_Dropout"},
        {"type": "sentence_transformers.models.Normalize", "path": "4_Normalize"},
    ],
    "1_Pooling/config__json": {
        "word_embedding_dimension": 8,
        "pooling_mode": "cls",
        "pooling_mode_mean_tokens": True,
        "include_prompt": True,
    },
    "2_Normalize/config__json": {"module_input_name": "sentence_embedding", "module_output_name": None},
    "3_Dropout/config__json": {"dropout": 0.5},
}


def test_fields_without_effect_change_nothing_and_are_not_spoken_of(tmp_path):
    tensors = weights_of(BERT)
    model = models.TextEncoder(start=write_folder(tmp_path / "m", NOTES, tensors, **QUIET))
    assert (model.config.pooling, model.config.normalized, model.config.max_tokens) == ("first", True, 16)
    first = hidden_states(BERT, tensors, ROWS[0])[0]
    np.testing.assert_allclose(
        model.predict(TEXTS[:1], verbose=0)[0], first / np.linalg.norm(first), atol=2e-5
    )


def test_fields_that_nobody_knows_are_named_in_one_line(tmp_path):
    files = {"tokenizer_config__json": {"b_field": 1}, OF_SENTENCES: {"c_field": 2}}
    folder = write_folder(tmp_path / "m", {**BERT, "a_field": 0}, **files)
    with pytest.warns(UserWarning, match="fields that are not known") as caught:
        models.TextEncoder(start=folder)
    message = str(caught[0].message)
    assert len(caught) == 1
    assert "a_field of config.json, b_field of tokenizer_config.json, c_field of config_sentence" in message


def test_a_cross_encoder_can_still_begin_a_training(tmp_path):
    """Its vectors mean nothing, but its encoder is one."""
    files = {SENTENCE: {"modality_config": SCORES}, OF_SENTENCES: {"model_type": "CrossEncoder"}}
    folder = write_folder(tmp_path / "m", **files)
    assert models.TextClassifier(start=folder).config.pooling == "mean"


@pytest.mark.slow
def test_case_is_folded_before_a_tokenizer_that_keeps_it(tmp_path):
    folded = {SENTENCE: {"do_lower_case": True}, **OF_MODULES}
    files = {"tokenizer_config__json": {"do_lower_case": False}, **folded}
    model = models.TextEncoder(start=write_folder(tmp_path / "m", **files))
    assert model.tokenizer.rows(["A GOOD film"])[0][0].tolist() == [2, 5, 6, 8, 3]
    assert not model.tokenizer.settings.strips_accents
    with pytest.raises(ConfigError, match="folds the case of texts before a tokenizer of byte pairs"):
        models.TextEncoder(start=write_byte_pairs(tmp_path / "b", **folded))


def test_the_pooling_that_the_folder_names_must_be_there(tmp_path):
    modules = [
        {"type": "sentence_transformers.models.Transformer"},
        {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
    ]
    with pytest.raises(RunError, match=r"lacks 1_Pooling/config.json, which modules.json names"):
        models.TextEncoder(start=write_folder(tmp_path / "m", modules__json=modules))


@pytest.mark.parametrize("place", ["../model.safetensors", "/model.safetensors", "", 1, None])
def test_shards_lie_in_the_folder(tmp_path, place):
    files = {"model__safetensors__index__json": {"weight_map": {"a": place}}}
    with pytest.raises(ConfigError, match="must name a file of the folder for each tensor"):
        models.TextEncoder(start=write_folder(tmp_path / "m", **files))


def test_integers_are_no_weights(tmp_path):
    tensors = {name: value.astype(np.int8) for name, value in weights_of(BERT).items()}
    with pytest.raises(ConfigError, match="encoder.layer.0.output.dense.weight is of type I8, not F32, F16"):
        models.TextEncoder(start=write_folder(tmp_path / "m", BERT, tensors))


@pytest.mark.parametrize(
    ("sentence", "tokenizer", "tokens"),
    [
        ({}, {}, 16),
        ({}, {"model_max_length": 7}, 7),
        ({"max_seq_length": 5}, {"model_max_length": 7}, 5),
        ({"max_seq_length": None}, {"model_max_length": 7}, 7),
        ({}, {"max_len": 6}, 6),
        ({}, {"model_max_length": 1e30}, 16),
        ({}, {"model_max_length": 7.0}, 7),
    ],
)
def test_the_cut_is_that_of_sentence_transformers(tmp_path, sentence, tokenizer, tokens):
    files = {"sentence_distilbert_config__json": sentence, "tokenizer_config__json": tokenizer, **OF_MODULES}
    model = models.TextEncoder(start=write_folder(tmp_path / "m", **files))
    assert model.config.max_tokens == tokens


@pytest.mark.parametrize(
    ("file", "field"), [("sentence_xlnet_config", "max_seq_length"), ("tokenizer_config", "model_max_length")]
)
@pytest.mark.parametrize("value", ["long", 2.5, -1, True])
def test_a_length_that_cannot_be_read_is_named_with_its_file(tmp_path, file, field, value):
    folder = write_folder(tmp_path / "m", **{f"{file}__json": {field: value}, **OF_MODULES})
    with pytest.raises(
        ConfigError, match=f"{file}.json cannot be used: `{field}` must be a positive integer"
    ):
        models.TextEncoder(start=folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"activation": "tanh"}, "`activation` must be one of gelu, gelu_tanh, relu, silu"),
        ({"vocabulary_size": 6}, "`vocabulary` has 13 pieces. `vocabulary_size` is 6"),
        ({"pooling": "sum"}, "`pooling` must be one of"),
        ({"max_tokens": 17}, "`max_tokens` .* must be at most `positions`, 16"),
        ({"relative_buckets": 5}, "`relative_buckets` must be 0, or even and from 4 to 254. Received 5"),
        ({"relative_buckets": 256}, "`relative_buckets` must be 0, or even"),
    ],
)
def test_a_config_out_of_range_is_refused(tmp_path, change, message):
    config = models.TextEncoder(start=write_folder(tmp_path / "m")).config.to_dict()
    with pytest.raises(ConfigError, match=message):
        models.TextEncoder({**config, **change}, vocabulary=PIECES)


def test_files_that_are_missing_or_broken_are_named(tmp_path):
    with pytest.raises(RunError, match="There is no folder .*nobody. Give a pretrained model"):
        models.TextEncoder(start=tmp_path / "nobody")
    folder = write_folder(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    with pytest.raises(RunError, match=r"lacks model.safetensors. Fetch"):
        models.TextEncoder(start=folder)
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").write_bytes(b"")
    with pytest.raises(RunError, match=r"weights for ONNX alone \(onnx/model.onnx\).* model.safetensors"):
        models.TextEncoder(start=folder)
    (folder / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(RunError, match="a pickle, which is never opened"):
        models.TextEncoder(start=folder)
    (folder / "model.safetensors").write_bytes(b"\x00" * 40)
    with pytest.raises(RunError, match="not a whole safetensors file"):
        models.TextEncoder(start=folder)
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-2.safetensors"}}')
    with pytest.raises(RunError, match=r"lacks model-2.safetensors"):
        models.TextEncoder(start=folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"config.json is not JSON"):
        models.TextEncoder(start=folder)
    (folder / "config.json").unlink()
    with pytest.raises(RunError, match=r"has no config.json"):
        models.TextEncoder(start=folder)


def test_the_folder_s_settings_are_not_given_again(tmp_path):
    write_folder(tmp_path / "m")
    with pytest.raises(ConfigError, match="`width` is 8 in .*Received 16: leave it out"):
        models.TextEncoder({"width": 16}, start=tmp_path / "m")
    with pytest.raises(ConfigError, match="`start` has its own vocabulary"):
        models.TextEncoder(start=tmp_path / "m", vocabulary=PIECES)
    with pytest.raises(ConfigError, match=r"Give `start` \(--from\), a pretrained model's folder"):
        models.TextEncoder()


def test_only_known_backbones_are_read():
    with pytest.raises(ConfigError, match="must be one of KerasHub's BertBackbone, .* Received a dict"):
        models.from_keras_hub({}, PIECES, lowercase=True)


def test_long_texts_are_cut(tmp_path):
    files = {"sentence_bert_config__json": {"max_seq_length": 5}, **OF_MODULES}
    model = models.TextEncoder(start=write_folder(tmp_path / "m", **files))
    with pytest.warns(UserWarning, match="1 of 2 texts are longer than max_tokens=5 tokens and are cut"):
        cut, short = model.predict(["a good film the bad", "a good film"], verbose=0)
    np.testing.assert_allclose(cut, short, atol=1e-6)
    assert PIECES.index("[SEP]") == 3

"""ModernBERT's folders: the forms of its settings, its weights, errors, fine-tuning and saving."""

import json

import numpy as np
import pytest
from pretrained_folders import MODERNBERT, PIECES, hidden_states, weights_of, write_folder

from keras_selfattn import models
from keras_selfattn.errors import ConfigError
from keras_selfattn.models.optimizers import FineTuningAdamW

# "a good film the bad .", between [CLS] and [SEP], as in the folder, whose padding is 1; here it is 0.
THEIRS = [0, 5, 6, 8, 12, 7, 11, 2]
OURS = [1, *THEIRS[1:]]
TEXTS = ["a good film .", "the good film", "good films", "a bad film .", "the bad film", "badly bad"] * 4
LABELS = ["+", "+", "+", "-", "-", "-"] * 4
KINDS = ["full_attention", "sliding_attention"]
OLDER = ("global_attn_every_n_layers", "global_rope_theta", "local_rope_theta")


def changed(**change):
    """The settings of a folder; those whose value is `...` are left out."""
    return {name: value for name, value in {**MODERNBERT, **change}.items() if value is not ...}


def states(model):
    embedding, encoder = model.core.get_layer("embedding"), model.core.get_layer("encoder")
    ids = np.array([OURS], "int32")
    return np.asarray(encoder(embedding(ids), mask=ids != 0))[0]


def newer(**change):
    """The same settings as transformers writes them from version 5 on."""
    rotary = {
        kind: {"rope_type": "default", "rope_theta": base}
        for kind, base in zip(KINDS, (50.0, 3.0), strict=True)
    }
    settings = {"rope_parameters": rotary, "layer_types": [KINDS[0], KINDS[1], KINDS[0]]}
    return changed(**{**dict.fromkeys(OLDER, ...), **settings, **change})


@pytest.mark.parametrize(
    "config",
    [
        changed(position_embedding_type="sans_pos", deterministic_flash_attn=True, classifier_bias=True),
        newer(),
        newer(rope_parameters=None, rope_scaling=None, global_rope_theta=50.0, local_rope_theta=3.0),
        newer(global_attn_every_n_layers=3, global_rope_theta=7.0),
    ],
    ids=["with flags of no effect here", "newer", "newer, with older bases", "the newer form counts"],
)
def test_each_form_of_the_settings_gives_the_same_model(tmp_path, config):
    tensors = weights_of(MODERNBERT)
    model = models.TextEncoder(start=write_folder(tmp_path / "m", config, tensors))
    assert (model.config.windows, model.config.rotary_base, model.config.local_rotary_base) == (
        [None, 1, None],
        50.0,
        3.0,
    )
    np.testing.assert_allclose(states(model), hidden_states(MODERNBERT, tensors, THEIRS), atol=2e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"local_attention": 4},
        {"local_attention": 1},
        {"global_attn_every_n_layers": 1},
        {"global_attn_every_n_layers": 7},
        {"local_rope_theta": 50.0},
        {"norm_eps": 0.2},
        {"norm_bias": True},
        {"attention_bias": True, "mlp_bias": True},
    ],
    ids=str,
)
def test_each_setting_enters(tmp_path, change):
    config = changed(**change)
    tensors = weights_of(config)
    found = states(models.TextEncoder(start=write_folder(tmp_path / "m", config, tensors)))
    np.testing.assert_allclose(found, hidden_states(config, tensors, THEIRS), atol=1e-4)
    if not any("bias" in name for name in change):  # other weights otherwise
        assert np.abs(found - hidden_states(MODERNBERT, tensors, THEIRS)).max() > 0.01


def test_local_blocks_have_the_base_of_the_others_if_theirs_is_null(tmp_path):
    model = models.TextEncoder(start=write_folder(tmp_path / "m", changed(local_rope_theta=None)))
    assert (model.config.rotary_base, model.config.local_rotary_base) == (50.0, 50.0)


def test_the_defaults_are_those_of_the_base_model(tmp_path):
    names = (
        "model_type",
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "pad_token_id",
    )
    config = {name: MODERNBERT[name] for name in names}
    found = models.TextEncoder(start=write_folder(tmp_path / "m", config, weights_of(MODERNBERT))).config
    assert (found.positions, found.max_tokens, found.windows) == (8192, 8192, [None, 64, 64])
    assert (found.rotary_base, found.local_rotary_base, found.norm_epsilon) == (160_000.0, 10_000.0, 1e-5)


def test_heads_of_a_folder_are_not_used_and_padding_gets_the_id_0(tmp_path):
    tensors = weights_of(MODERNBERT, "model.")
    heads = {
        "head.dense.weight": np.zeros((8, 8), np.float32),
        "head.norm.weight": np.zeros(8, np.float32),
        "decoder.bias": np.zeros(len(PIECES), np.float32),
        "classifier.weight": np.zeros((2, 8), np.float32),
    }
    model = models.TextEncoder(start=write_folder(tmp_path / "m", MODERNBERT, {**tensors, **heads}))
    plain = {name.removeprefix("model."): value for name, value in tensors.items()}
    np.testing.assert_allclose(states(model), hidden_states(MODERNBERT, plain, THEIRS), atol=2e-5)
    model = models.TextEncoder(start=write_folder(tmp_path / "n", MODERNBERT, {**plain, **heads}))
    np.testing.assert_allclose(states(model), hidden_states(MODERNBERT, plain, THEIRS), atol=2e-5)
    assert model.tokenizer.rows(["a good film the bad ."])[0][0].tolist() == OURS
    assert not [
        weight.path for weight in model.core.weights if weight.path.endswith(("positions", "beta", "bias"))
    ]


def test_all_faults_of_the_settings_are_named_at_once(tmp_path):
    config = changed(
        hidden_activation="mish",
        mlp_bias=True,
        local_attention=0,
        layer_types=["full_attention", "chunked_attention", "full_attention"],
        rope_parameters={"full_attention": {"rope_type": "yarn", "factor": 4.0}},
    )
    with pytest.raises(ConfigError) as caught:
        models.TextEncoder(start=write_folder(tmp_path / "m", config))
    message = str(caught.value)
    assert "cannot be used, for 5 reasons" in message
    for part in (
        "activation 'mish' of config.json is not known",
        "attention_bias is False and mlp_bias True: both must be the same",
        "local_attention is 0: it must be a positive integer",
        "layer_types is ['full_attention', 'chunked_attention', 'full_attention']: it must hold",
        "rope_parameters of full_attention is {'rope_type': 'yarn', 'factor': 4.0}: only",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer_types": ["full_attention"]}, "for each of 3 layers"),
        ({"layer_types": "full_attention"}, "layer_types is 'full_attention'"),
        ({"layer_types": [[], {}, None]}, "layer_types is"),
        ({"global_attn_every_n_layers": 0}, "global_attn_every_n_layers is 0: it must be a positive integer"),
        ({"local_attention": 2.5}, "local_attention is 2.5"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000: it must be from 1 to 1,000"),
        ({"num_hidden_layers": "3"}, "num_hidden_layers is '3'"),
        (
            {"rope_scaling": {"type": "linear", "factor": 2}},
            "rope_scaling is {'type': 'linear', 'factor': 2}",
        ),
        ({"rope_parameters": {"rope_theta": 5}, "rope_scaling": [1]}, r"rope_scaling is \[1\]"),
        ({"rope_parameters": [1]}, r"rope_parameters of full_attention is \[1\]"),
        (
            {"rope_parameters": {"sliding_attention": {"rope_theta": 3, "partial_rotary_factor": 0.5}}},
            "of sliding_attention",
        ),
        ({"global_rope_theta": 1}, "config.json cannot be used: `rotary_base` must be a number above 1"),
        ({"local_rope_theta": "3"}, "`local_rotary_base` must be a number above 1, or None. Received '3'"),
        ({"norm_bias": 1}, "`norm_shift` must be True or False. Received 1"),
        ({"attention_bias": None, "mlp_bias": None}, "`use_bias` must be True or False. Received None"),
        ({"hidden_size": 10**9}, "weights or more"),
        ({"intermediate_size": 10**9}, "weights or more"),
        ({"pad_token_id": ...}, "pads with the id 1, its model with 50283"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_read_are_named(tmp_path, change, message):
    with pytest.raises(ConfigError, match=message):
        models.TextEncoder(start=write_folder(tmp_path / "m", changed(**change), weights_of(MODERNBERT)))


def test_weights_that_do_not_fit_are_named(tmp_path):
    tensors = weights_of(MODERNBERT)
    del tensors["final_norm.weight"]
    tensors["layers.1.mlp.Wi.weight"] = np.zeros((23, 8), np.float32)
    tensors["layers.0.attn_norm.weight"] = np.ones(8, np.float32)
    tensors["layers.2.attn.Wo.bias"] = np.ones(8, np.float32)
    with pytest.raises(ConfigError) as caught:
        models.TextEncoder(start=write_folder(tmp_path / "m", MODERNBERT, tensors))
    message = str(caught.value)
    assert "in 4 places" in message
    assert "final_norm.weight is missing" in message
    assert "layers.1.mlp.Wi.weight has shape [23, 8] where config.json needs [24, 8]" in message
    assert "layers.0.attn_norm.weight has no place in this family" in message
    assert "layers.2.attn.Wo.bias has no place in this family" in message
    with pytest.raises(
        ConfigError, match=r"holds no tensor embeddings\.tok_embeddings\.weight, or model\.emb"
    ):
        models.TextEncoder(start=write_folder(tmp_path / "n", MODERNBERT, {"a": np.zeros(9999, np.float32)}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"windows": [1]},
            r"`windows` must be an empty list, or hold .* each of the 3 blocks. Received \[1\]",
        ),
        ({"windows": [None, -1, None]}, "`windows` must be"),
        ({"windows": 3}, "`windows` must be"),
        ({"rotary_base": None}, "`local_rotary_base` needs `rotary_base`. Received 3.0 alone"),
        ({"relative_buckets": 32}, "`rotary_base` and `relative_buckets` exclude each other"),
        ({"gated": 1}, "`gated` must be True or False. Received 1"),
        ({"max_tokens": 17}, "`max_tokens` .* must be at most `positions`, 16"),
    ],
)
def test_fields_out_of_range_are_named(tmp_path, change, message):
    config = models.TextEncoder(start=write_folder(tmp_path / "m", MODERNBERT)).config.to_dict()
    with pytest.raises(ConfigError, match=message):
        models.TextEncoder({**config, **change}, vocabulary=PIECES)


@pytest.mark.slow
def test_a_saved_model_answers_the_same(tmp_path):
    model = models.TextEncoder(start=write_folder(tmp_path / "m", MODERNBERT))
    model.save(tmp_path / "m.keras")
    again = models.load(tmp_path / "m.keras")
    assert again.config == model.config
    np.testing.assert_array_equal(again.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0))
    assert json.loads(json.dumps(model.config.to_dict())) == model.config.to_dict()


def weights(model):
    layers = (model.core.get_layer(name) for name in ("embedding", "encoder"))
    return {weight.path: np.array(weight) for layer in layers for weight in layer.weights}


@pytest.mark.slow
def test_a_classifier_begins_with_its_weights_and_lower_blocks_learn_slower(tmp_path):
    folder = write_folder(tmp_path / "m", MODERNBERT)
    model = models.TextClassifier(start=folder)
    model.adapt(TEXTS, LABELS)
    wanted = weights(models.TextEncoder(start=folder))
    for found, value in zip(weights(model).values(), wanted.values(), strict=True):
        np.testing.assert_array_equal(found, value)
    optimizer = FineTuningAdamW(rates=model.learning_rates)
    paths = [next(path for path in weights(model) if f"block_{place}/" in path) for place in range(3)]
    rates = [optimizer.rate_of(path) for path in (*paths, "encoder/norm/gamma")]
    assert rates[0] < rates[1] < rates[2] == rates[3] == 1
    assert optimizer.rate_of(next(path for path in weights(model) if path.startswith("embedding"))) < rates[0]


@pytest.mark.slow
def test_a_classifier_learns_but_for_frozen_layers_and_is_the_same_after_saving(tmp_path):
    model = models.TextClassifier({"frozen_layers": 1}, start=write_folder(tmp_path / "m", MODERNBERT))
    model.adapt(TEXTS, LABELS)
    before = weights(model)
    model.compile(FineTuningAdamW(0.03, rates=model.learning_rates))
    model.fit(TEXTS, LABELS, epochs=5, batch_size=8, verbose=0)
    moved = {path for path, value in weights(model).items() if not np.array_equal(value, before[path])}
    assert moved == {path for path in before if not path.startswith(("embedding", "encoder/block_0"))}
    model.save(tmp_path / "m.keras")
    answers = model.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(
        models.load(tmp_path / "m.keras").predict(TEXTS, verbose=0), answers, atol=1e-6
    )
    assert [model.labels[row] for row in answers.argmax(axis=1)] == LABELS

"""DeBERTa-v2's folders: the forms of its settings, tensors without use, errors, fine-tuning and saving."""

import keras
import numpy as np
import pytest
from pretrained_folders import (
    DEBERTA,
    PIECES,
    classifier_of,
    classifier_weights,
    hidden_states,
    weights_of,
    write_folder,
)

from keras_selfattn import models
from keras_selfattn.errors import ConfigError

# "a good film the bad .", between [CLS] and [SEP].
IDS = [2, 5, 6, 8, 12, 7, 11, 3]
TEXTS = ["a good film .", "the good film", "good films", "a bad film .", "the bad film", "badly bad"] * 4
LABELS = ["+", "+", "+", "-", "-", "-"] * 4


def changed(**change):
    """The settings of a folder; those whose value is `...` are left out."""
    return {name: value for name, value in {**DEBERTA, **change}.items() if value is not ...}


def states(model):
    embedding, encoder = model.core.get_layer("embedding"), model.core.get_layer("encoder")
    ids = np.array([IDS], "int32")
    return np.asarray(encoder(embedding(ids), mask=ids != 0))[0]


@pytest.mark.parametrize(
    "change",
    [
        {"pos_att_type": ["c2p", "p2c"], "position_buckets": 4, "conv_kernel_size": 0},
        {"pos_att_type": "c2p | P2C", "max_position_embeddings": 7, "max_relative_positions": -1},
        {
            "norm_rel_ebd": "LAYER_NORM",
            "pooler_hidden_size": 8,
            "embedding_size": 8,
            "z_steps": 0,
            "legacy": True,
        },
    ],
    ids=["a list", "as many distances as positions", "of other parts"],
)
def test_each_form_of_the_settings_gives_the_same_model(tmp_path, change):
    tensors, config = weights_of(DEBERTA), changed(**change)
    most = min(config["max_position_embeddings"], 16)
    model = models.TextEncoder({"max_tokens": most}, start=write_folder(tmp_path / "m", config, tensors))
    assert (model.config.disentangled_buckets, model.config.disentangled_distance) == (4, 7)
    np.testing.assert_allclose(states(model), hidden_states(DEBERTA, tensors, IDS), atol=1e-4)


def test_a_table_of_positions_that_has_no_use_is_left_out(tmp_path):
    """As transformers leaves it out; any other tensor of the encoder must have a place."""
    tensors = weights_of(DEBERTA, "deberta.")
    name = "deberta.embeddings.position_embeddings.weight"
    unused = {name: np.ones((16, 8), np.float32), "lm_predictions.lm_head.bias": np.ones(13, np.float32)}
    model = models.TextEncoder(start=write_folder(tmp_path / "m", DEBERTA, {**tensors, **unused}))
    wanted = hidden_states(DEBERTA, weights_of(DEBERTA), IDS)
    np.testing.assert_allclose(states(model), wanted, atol=1e-4)
    other = {"deberta.encoder.conv.conv.weight": np.ones((8, 8, 3), np.float32)}
    with pytest.raises(ConfigError, match=r"deberta.encoder.conv.conv.weight has no place in this family"):
        models.TextEncoder(start=write_folder(tmp_path / "n", DEBERTA, {**tensors, **other}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"relative_attention": ...}, "relative_attention is None: it must be true"),
        ({"position_biased_input": ...}, "position_biased_input is None: it must be false"),
        ({"position_biased_input": True}, "position_biased_input is True: it must be false"),
        ({"share_att_key": False}, "share_att_key is False: it must be true"),
        ({"norm_rel_ebd": "none"}, "norm_rel_ebd is 'none': it must be \"layer_norm\""),
        ({"pos_att_type": "c2p"}, "pos_att_type is 'c2p': it must be \"p2c|c2p\""),
        ({"pos_att_type": "p2c|c2p|p2p"}, "pos_att_type is 'p2c|c2p|p2p'"),
        ({"position_buckets": -1}, "position_buckets is -1: it must be an even number"),
        ({"position_buckets": 5}, "position_buckets is 5: it must be an even number"),
        ({"position_buckets": True}, "position_buckets is True"),
        ({"max_relative_positions": "far"}, "max_relative_positions is 'far': it must be a whole number"),
        (
            {"max_relative_positions": 3},
            "max_relative_positions is 3: it must be more than half of position_buckets",
        ),
        ({"embedding_size": 6}, "embedding_size is 6: it must be hidden_size, 8"),
        ({"pooler_hidden_size": 6}, "pooler_hidden_size is 6: it must be hidden_size, 8"),
        ({"attention_head_size": 8}, "attention_head_size is 8: it must be hidden_size by"),
        ({"conv_kernel_size": 3}, "`conv_kernel_size` is 3. This cannot be read: a convolution"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_name(tmp_path, change, message):
    with pytest.raises(ConfigError) as caught:
        models.TextEncoder(start=write_folder(tmp_path / "m", changed(**change), weights_of(DEBERTA)))
    assert message in str(caught.value)


def test_all_reasons_are_told_at_once(tmp_path):
    config = changed(relative_attention=False, share_att_key=..., position_buckets=0)
    with pytest.raises(ConfigError, match="cannot be used, for 3 reasons"):
        models.TextEncoder(start=write_folder(tmp_path / "m", config, weights_of(DEBERTA)))


def test_the_head_has_the_dropout_and_the_activation_of_its_pooler(tmp_path):
    config = classifier_of(DEBERTA, ["-", "+"], pooler_hidden_act="tanh", pooler_dropout=0.3, cls_dropout=0.2)
    folder = write_folder(tmp_path / "m", config, classifier_weights(DEBERTA, 2))
    found = models.TextClassifier.from_folder(folder).config
    assert (found.hidden_head, found.hidden_dropout, found.head_dropout) == ("tanh", 0.3, 0.2)


def test_it_is_fine_tuned_saved_and_loaded(tmp_path):
    keras.utils.set_random_seed(0)
    model = models.TextClassifier(start=write_folder(tmp_path / "m", DEBERTA))
    model.adapt(TEXTS, LABELS)
    before = {weight.path: np.array(weight) for weight in model.core.weights}
    model.compile(optimizer=keras.optimizers.Adam(1e-2))
    losses = model.fit(TEXTS, LABELS, epochs=3, batch_size=8, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    moved = {path for path, value in before.items() if not np.array_equal(value, dict_of(model)[path])}
    assert {path.rpartition("/")[2] for path in moved} >= {"relative_embeddings", "relative_gain"}
    model.save(tmp_path / "model.keras")
    loaded = models.load(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0))
    assert list(loaded.tokenizer.vocabulary) == PIECES


def dict_of(model):
    return {weight.path: np.array(weight) for weight in model.core.weights}

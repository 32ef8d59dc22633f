"""Going on from a trained model of answers: what it takes over, what it tells, and what it refuses."""

import json

import keras
import numpy as np
import pytest

from keras_selfattn import models
from keras_selfattn.errors import ConfigError, DataError, RunError
from keras_selfattn.models.sequences.sequence_start import sequence_starting_point

SMALL = {"width": 16, "num_layers": 1, "decoder_layers": 1, "num_heads": 2, "tokens": "characters"}
SOURCES = ["ab", "bca", "c", "abcabc", "ba", "cc", "bab", "acb"]
TARGETS = [text[::-1] for text in SOURCES]
OTHERS = ["acc", "bb"], ["cca", "bb"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Returns the path of a trained model, and the model."""
    keras.utils.set_random_seed(1)
    model = models.SequenceToSequence({**SMALL, "max_new_tokens": 9, "length_penalty": 0.5})
    model.compile()
    model.fit(SOURCES, TARGETS, epochs=2, verbose=0)
    path = tmp_path_factory.mktemp("start") / "model.keras"
    model.save(path)
    return path, model


def test_it_begins_with_symbols_weights_and_config(trained):
    path, model = trained
    found = models.SequenceToSequence(start=path)
    assert found.config == model.config
    found.adapt(*OTHERS)
    assert found.symbols.vocabulary == model.symbols.vocabulary
    for own, before in zip(found.core.get_weights(), model.core.get_weights(), strict=True):
        np.testing.assert_array_equal(own, before)
    assert found.generate(SOURCES) == model.generate(SOURCES)


@pytest.mark.slow
def test_training_changes_it_alone_and_its_file_needs_no_start(trained, tmp_path):
    path, model = trained
    found, before = models.SequenceToSequence(start=path), model.get_weights()
    found.compile(keras.optimizers.Adam(1e-2))
    found.fit(*OTHERS, epochs=3, verbose=0)
    changed = [np.abs(one - other).max() for one, other in zip(found.get_weights(), before, strict=True)]
    assert max(changed) > 1e-3
    for one, other in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, other)
    assert found.get_config()["start"] is None
    found.save(tmp_path / "next.keras")
    assert models.load(tmp_path / "next.keras").predict(SOURCES, verbose=0) == found.predict(
        SOURCES, verbose=0
    )


def test_settings_of_the_search_and_of_training_may_change(trained):
    path, model = trained
    given = {"beams": 2, "max_new_tokens": 20, "max_tokens": 30, "dropout": 0.4, "length_penalty": 1.0}
    config = models.SequenceToSequence(given, start=path).config
    assert {name: getattr(config, name) for name in given} == given
    assert config.width == model.config.width
    own = models.SequenceToSequence(models.SequenceConfig(beams=3), start=path).config
    assert (own.beams, own.tokens, own.length_penalty) == (3, "characters", 0.5)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"width": 32}, "`width` is 16 in .*model.keras, whose weights and symbols .* Received 32: leave it"),
        ({"tokens": "words"}, "`tokens` is 'characters' in"),
        ({"min_count": 1}, "`min_count` is 2 in"),
        ({"members": 2}, "`members` is not a field of SequenceConfig"),
    ],
)
def test_settings_of_the_weights_are_refused_by_name(trained, given, told):
    with pytest.raises(ConfigError, match=told):
        models.SequenceToSequence(given, start=trained[0])


def test_trials_of_tuning_change_no_weights_shape(trained):
    names = {name for each in models.SequenceToSequence(start=trained[0]).alternatives() for name in each}
    assert names == {"learning_rate", "dropout", "batch_size"}


def test_symbols_that_it_does_not_know_are_counted(trained):
    start = sequence_starting_point(trained[0])
    assert sequence_starting_point(start) is start
    said = start.described(["ab", "xa", "é"], [("ba",), ("aX", "ay"), ("a",)])
    assert "3 characters; 2 of 3 sources ('x', 'é') and 2 of 4 answers ('X', 'y') have characters" in said
    found = models.SequenceToSequence(start=start)
    with pytest.warns(UserWarning, match=r"1 of 2 answers have characters .*'x'.* It has the characters of"):
        found.adapt(["ab", "ca"], ["ba", "xa"])
    with pytest.raises(DataError, match="None of the characters of the 1 answers is known .*without `start`"):
        models.SequenceToSequence(start=start).adapt(["ab"], ["xy"])


def test_pieces_know_every_text(tmp_path):
    pytest.importorskip("tokenizers")
    model = models.SequenceToSequence({**SMALL, "tokens": "pieces"})
    model.adapt(SOURCES, TARGETS)
    model.save(tmp_path / "model.keras")
    start = sequence_starting_point(tmp_path)
    assert "the bytes are pieces, so it knows every text" in start.described(["漢"], [("字",)])
    models.SequenceToSequence(start=start).adapt(["漢"], ["字"])


def test_what_is_no_trained_model_of_answers_is_refused_by_name(tmp_path, trained):
    other = models.TextClassifier(vocabulary=["a", "b"], labels=["+", "-"])
    for name in ("new", "text"):
        (tmp_path / name).mkdir()
    with pytest.warns(UserWarning, match="not yet been built"):
        models.SequenceToSequence(SMALL).save(tmp_path / "new" / "model.keras")
    other.save(tmp_path / "text" / "model.keras")
    with pytest.raises(RunError, match="new has not been trained"):
        models.SequenceToSequence(start=tmp_path / "new")
    with pytest.raises(RunError, match="text holds a TextClassifier.*--task seq2seq"):
        models.SequenceToSequence(start=tmp_path / "text")
    with pytest.raises(RunError, match=r"no model at .*nowhere. Give a run folder of .*, or a .keras file.$"):
        models.SequenceToSequence(start=tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="`start` is of a model before training"):
        models.SequenceToSequence(SMALL, vocabulary=["a"], start=trained[0])


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (
            {"model_type": "marian", "architectures": ["MarianMTModel"]},
            "MarianMTModel of the family 'marian'",
        ),
        ({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]}, "T5ForConditionalGeneration"),
        ({"model_type": "bart", "architectures": ["BartForConditionalGeneration"]}, "of the family 'bart'"),
        ({"model_type": "mt5"}, "an encoder and a decoder, 'mt5'"),
        ({"model_type": "newer", "is_encoder_decoder": True}, "an encoder and a decoder, 'newer'"),
    ],
)
def test_folders_of_others_are_refused_by_name_with_what_to_do(tmp_path, config, told):
    (tmp_path / "config.json").write_text(json.dumps(config))
    for begin in (models.SequenceToSequence, models.TextClassifier, models.TextEncoder):
        with pytest.raises(ConfigError, match=f"{told}.*train pairs.csv --task seq2seq"):
            begin(start=tmp_path)
    with pytest.raises(ConfigError, match=told):
        models.load(tmp_path)


def test_a_folder_of_an_encoder_is_none_either(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(ConfigError, match="family 'bert', with which no model of answers begins"):
        models.SequenceToSequence(start=tmp_path)

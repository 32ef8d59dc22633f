"""The core of a model of answers: its logits, all at once and step by step, and its attention."""

import keras
import numpy as np
import pytest

from keras_selfattn.models.config import SequenceConfig
from keras_selfattn.models.sequences.sequence_core import SequenceCore, SharedEmbedding

SOURCE = np.array([[4, 5, 6, 3, 0], [7, 3, 0, 0, 0], [8, 9, 5, 4, 3]], np.int32)
TARGET = np.array([[2, 5, 6, 4], [2, 7, 8, 0], [2, 9, 9, 9]], np.int32)


def core_of(**settings):
    keras.utils.set_random_seed(3)
    config = SequenceConfig(width=12, num_layers=1, decoder_layers=2, num_heads=2, **settings)
    return SequenceCore(config, 11, keras.config.dtype_policy())


def steps(core, source, target):
    cache, found = core.start(source, target.shape[1]), []
    for place in range(target.shape[1]):
        logits, cache = core.step(keras.ops.convert_to_tensor(target[:, place]), cache)
        found.append(np.asarray(logits))
    return np.stack(found, axis=1)


@pytest.mark.parametrize("position", ["sinusoidal", pytest.param("rotary", marks=pytest.mark.slow)])
def test_steps_give_the_logits_of_a_call(position):
    core = core_of(position=position)
    whole, real = np.asarray(core([SOURCE, TARGET])), TARGET != 0
    np.testing.assert_allclose(steps(core, SOURCE, TARGET)[real], whole[real], atol=1e-5)


def test_a_row_has_the_same_logits_alone_and_beside_longer_ones():
    core = core_of()
    together = np.asarray(core([SOURCE, TARGET]))[1, :3]
    alone = np.asarray(core([SOURCE[1:2, :2], TARGET[1:2, :3]]))[0]
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_the_attention_of_an_answer_sums_to_one_over_the_real_symbols_of_its_source():
    found = np.asarray(core_of().alignment(SOURCE, TARGET))
    assert found.shape == (3, 4, 5)
    np.testing.assert_allclose(found[TARGET != 0].sum(axis=-1), 1, atol=1e-6)
    assert not found[1, :3, 2:].any()


def test_one_table_embeds_symbols_and_gives_logits_and_special_symbols_have_none():
    layer = SharedEmbedding(7, 4)
    vectors = np.asarray(layer(np.array([[5, 3]])))
    table = np.asarray(layer.vectors)
    np.testing.assert_allclose(vectors[0], table[[5, 3]] * 2, rtol=1e-6)  # times the root of the width
    features = np.random.default_rng(0).normal(size=(2, 4)).astype("float32")
    logits = np.asarray(layer(features))
    np.testing.assert_allclose(logits[:, 3:], features @ table[3:].T, atol=1e-6)
    assert (logits[:, :3] < -1e8).all()
    assert layer.compute_mask(np.array([[5, 0]])).numpy().tolist() == [[True, False]]

"""The exported graph reads the WAV files that training reads, to the same samples, and refuses the same."""

import numpy as np
import pytest
import tensorflow as tf
from wav_samples import EMPTY, NOT_FINITE, READ, REFUSED, chunk, described, wave

from keras_selfattn.export.signatures.wav_graph import wav_format, wav_samples
from keras_selfattn.rows import wav_files

ALL = READ | EMPTY
FILE, NUMBER = tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.int64)
graph_format = tf.function(wav_format, input_signature=[FILE])
Refused = tf.errors.InvalidArgumentError


@tf.function(input_signature=[FILE, NUMBER, NUMBER])
def graph_block(file, first, count):
    return wav_samples(file, wav_format(file), first, count)


def in_numpy(content):
    samples, _ = wav_files.read_wav(content, "a.wav")
    return samples / np.float32(2**15) if samples.dtype == np.int16 else samples


@pytest.mark.parametrize("name", ALL)
def test_the_format_is_the_one_that_training_reads(name):
    found = graph_format(ALL[name])
    wanted = wav_files.wav_format(ALL[name], name)
    assert {key: value.numpy() for key, value in found._asdict().items()} == vars(wanted)
    assert [value.dtype for value in found] == [tf.int64] * 3 + [tf.bool] + [tf.int64] * 2


@pytest.mark.parametrize("name", ALL)
def test_samples_are_the_same_whole_and_in_blocks(name):
    """A block equals a cut from the whole recording with zeros around it."""
    whole, random = in_numpy(ALL[name]), np.random.default_rng(0)
    found = graph_block(ALL[name], 0, len(whole)).numpy()
    assert (found.dtype, found.shape) == (np.float32, whole.shape)
    # Three channels of floats may be added in another order.
    equal = np.testing.assert_array_max_ulp if name.startswith(("float", "extensible, float")) else None
    compared = equal or np.testing.assert_array_equal
    compared(found, whole)
    around = np.pad(whole, 90)
    for first, count in zip(random.integers(-50, 50, 12), random.integers(0, 60, 12), strict=True):
        compared(graph_block(ALL[name], first, count).numpy(), around[90 + first : 90 + first + count])
    assert graph_block(ALL[name], 2**40, 3).numpy().tolist() == [0, 0, 0]
    assert graph_block(ALL[name], -(2**40), 3).numpy().tolist() == [0, 0, 0]


def test_32_bits_are_rounded_alike():
    numbers = np.arange(2**24 - 9, 2**24 + 9, dtype="<i4") * 37 + 2**30
    content = wave(described(1, 1, 32), chunk(b"data", numbers.tobytes()))
    np.testing.assert_array_equal(graph_block(content, 0, 18), in_numpy(content))
    assert len(set(in_numpy(content))) < 18 or (in_numpy(content) * 2.0**31 != numbers).any()


@pytest.mark.parametrize(("content", "rule"), [each[:2] for each in REFUSED.values()], ids=REFUSED)
def test_what_training_refuses_is_refused_with_the_same_rule(content, rule):
    for read in (graph_format, lambda file: graph_block(file, 0, 1)):
        with pytest.raises(Refused, match=f"(?s)assertion failed: .*{rule}"):
            read(content)


@pytest.mark.parametrize("content", NOT_FINITE.values(), ids=NOT_FINITE)
def test_floats_must_be_finite_in_the_block_that_is_read(content):
    with pytest.raises(Refused, match="assertion failed: .*must be finite"):
        graph_block(content, 0, 3)
    assert graph_block(content, 0, 2).numpy().tolist() == [0.5, 0]


def test_random_changes_of_a_file_are_read_or_refused_alike():
    """A fault in one head's byte may do anything, but the same on both sides."""
    random, seen = np.random.default_rng(0), set()
    for name in ("16 bits", "extensible, float", "RF64", "chunks before"):
        for _ in range(60):
            content = bytearray(READ[name])
            for place in random.integers(0, 100, 2):
                content[place] = random.choice([0, 1, 2, 3, 8, 24, 32, 255])
            content = bytes(content)
            try:
                wanted = vars(wav_files.wav_format(content, name))
            except wav_files.DataError:
                wanted = None
            try:
                found = {key: value.numpy() for key, value in graph_format(content)._asdict().items()}
            except Refused as error:
                # An operation's own error would show what is in the file.
                found = None if "assertion failed" in error.message else error.message
            assert found == wanted, content[:100]
            seen.add(found is None)
    assert seen == {True, False}

"""Words of byte-level tokenizers are split as in the package, at every code point."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from keras_selfattn.models.subwords.byte_level_words import ByteLevelSplit
from keras_selfattn.models.subwords.byte_pair_files import LLAMA_3_WORDS
from keras_selfattn.models.subwords.byte_pair_settings import GPT_2, LLAMA_3, BytePairSettings
from keras_selfattn.models.subwords.byte_pairs import byte_letters
from keras_selfattn.models.subwords.merges import FIRST, Merges

EVERY = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]


def merged(merges, word):
    """The pieces of a word by the definition: the pair of the lowest rank, the leftmost of several."""
    ranks = {(left, right): (rank, made) for rank, (left, right, made) in enumerate(merges)}
    word = list(word)
    while pairs := [
        (ranks[pair], place) for place, pair in enumerate(itertools.pairwise(word)) if pair in ranks
    ]:
        (_, made), place = min(pairs)
        word[place : place + 2] = [made]
    return word


def assert_merged(merges, longest, words):
    flat, splits = np.concatenate(words), np.cumsum([0, *map(len, words)])
    flat[splits[:-1]] += FIRST
    ids, splits = Merges(merges, longest)(tf.constant(flat, tf.int32), tf.constant(splits, tf.int64))
    found = [ids.numpy()[a:b].tolist() for a, b in itertools.pairwise(splits.numpy())]
    assert found == [merged(merges, word) for word in words]


@st.composite
def lists_of_merges(draw):
    """Merges in any order, also those of a piece before those that make it, and words, some of them long."""
    ids = {letter: number for number, letter in enumerate("abc")}
    merges = {}
    for _ in range(draw(st.integers(1, 12))):
        left, right = draw(st.sampled_from(sorted(ids))), draw(st.sampled_from(sorted(ids)))
        if len(left + right) <= 6:
            merges[left, right] = ids.setdefault(left + right, len(ids))
    made = [(ids[left], ids[right], number) for (left, right), number in merges.items()]
    words = draw(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=40), min_size=1, max_size=6))
    return draw(st.permutations(made)), max(map(len, ids)), [word * draw(st.integers(1, 4)) for word in words]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(lists_of_merges())
def test_pairs_are_merged_in_the_order_of_their_ranks(drawn):
    assert_merged(*drawn)


@pytest.mark.parametrize(
    "merges",
    [
        [(0, 0, 2)],  # aa
        [(0, 0, 2), (2, 2, 3), (3, 3, 4)],  # aa, aaaa, aaaaaaaa
        [(0, 1, 2), (2, 0, 3), (1, 0, 4), (0, 4, 3)],  # "aba" in two ways, the second after its merges
        [(5, 0, 6), (0, 1, 5), (6, 1, 7)],  # "aba" before "ab"
    ],
)
def test_repeated_pairs_are_merged_from_the_left(merges):
    random = np.random.default_rng(0)
    words = [[0] * count for count in range(1, 70)] + [random.integers(0, 2, 90).tolist() for _ in range(30)]
    assert_merged(merges, 8, words)


ONE_STRING_EACH = [tf.TensorSpec([None], tf.string)]


@functools.cache
def traced_split(prefixed, rule):
    """A graph, which many calls run faster."""
    split = ByteLevelSplit(BytePairSettings(10**6, add_prefix_space=prefixed, words=rule))

    def strings_and_rows(texts):
        found = split(texts)
        return found.strings(), found.rows

    return tf.function(strings_and_rows, input_signature=ONE_STRING_EACH)


def words(texts, prefixed=False, rule=GPT_2):
    strings, rows = (each.numpy().tolist() for each in traced_split(prefixed, rule)(tf.constant(texts)))
    return [[word.decode() for word in strings[a + 1 : b]] for a, b in itertools.pairwise(rows)]


def known_words(texts, prefixed=False):
    split = pre_tokenizers.ByteLevel(add_prefix_space=prefixed).pre_tokenize_str
    letters = {letter: byte for byte, letter in enumerate(byte_letters())}
    return [[bytes(letters[each] for each in word).decode() for word, _ in split(text)] for text in texts]


@pytest.mark.parametrize("prefixed", [False, True])
def test_code_points_are_split_as_in_the_package(prefixed):
    codes = [*range(0x400), *EVERY[0x400::211]]
    texts = [f"{c}a{c}1{c}!{c} {c}'s'{c}  {c}\n{c}b" for c in map(chr, codes)]
    assert words(texts, prefixed) == known_words(texts, prefixed)


@pytest.mark.slow
def test_every_code_point_is_split_as_in_the_package():
    for start in range(0, len(EVERY), 65_536):
        texts = [f"{c}a{c}1{c}!{c} {c}  {c}" for c in map(chr, EVERY[start : start + 65_536])]
        assert words(texts) == known_words(texts)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.sampled_from("'stdrevlmSa1 \n\u3000!é\u0301.")), min_size=1, max_size=8))
def test_contractions_and_white_space_are_split_as_in_the_package(texts):
    assert words(texts) == known_words(texts)


def words_of_llama(texts):
    split = pre_tokenizers.Split(Regex(LLAMA_3_WORDS), "isolated").pre_tokenize_str
    return [[word for word, _ in split(text)] for text in texts]


def test_code_points_are_split_as_by_the_expression_of_llama():
    codes = [*range(1, 0x400), *EVERY[0x400::211]]
    texts = [f"{c}a{c}1{c}!{c} {c}'s'{c}  {c}\n{c}b '{c}" for c in map(chr, codes)]
    assert words(texts, rule=LLAMA_3) == words_of_llama(texts)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(st.sampled_from("'stdrevlmSLLſa12 \n\r\t\u3000!é\u0301.")), min_size=1, max_size=8))
def test_all_rules_of_llama_meet(texts):
    assert words(texts, rule=LLAMA_3) == words_of_llama(texts)

"""Byte pairs learned from texts: what is learned, that it is the same each time, and the ids."""

import itertools
import sys
from collections import Counter

import pytest
import tensorflow as tf
import tokenizers
from tokenizers import pre_tokenizers, trainers

from keras_selfattn.errors import ConfigError, DataError, MissingExtraError
from keras_selfattn.models.subwords.byte_pairs import byte_letters
from keras_selfattn.models.subwords.learned_byte_pairs import (
    LEAST_PIECES,
    SPECIAL_PIECES,
    LearnedBytePairs,
    learn_merges,
    saved_vocabulary,
)

TEXTS = [
    "The film was good, and its actors were unbelievably good.",
    "I'm sure they've seen it; we'll say it isn't bad, don't you'd? 'Tis 'sold 're",
    "Der Straßenbahnfahrer fährt über die Brücke; ÖPNV nach Köln!",
    "Это очень хороший фильм, ещё лучше книги. Її",
    "东京 是 日本 的 首都 映画が好きです パーティー 안녕하세요 영화가",
    "फ़िल्म बहुत अच्छी थी। হ্যাঁ কো فيلم جميلٌ جدًّا، שָׁלוֹם ภาพยนตร์",
    "tiếng Việt rất hay 🙂🎬👩‍🚀 3.5€ x² ½ 1000 2nd",
    "def  f(x):\n\n    return  x+1\t# twice \r\n",
    "aaaaaaa aaaa aaaaaaaaaaaaaaaa !!!!!! ------------",
] * 3


def merges_by_counting(texts, merges):
    """Algorithm 1 of Sennrich et al.; of pairs with one count that of the oldest symbols is first."""
    split = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    words = Counter(word for text in texts for word, _ in split(text))
    spelled = {word: list(word) for word in words}
    ages = {letter: age for age, letter in enumerate(sorted(byte_letters()))}
    found = []
    while len(found) < merges:
        pairs = Counter()
        for word, symbols in spelled.items():
            for pair in itertools.pairwise(symbols):
                pairs[pair] += words[word]
        first, second = min(pairs, key=lambda pair: (-pairs[pair], ages[pair[0]], ages[pair[1]]))
        found.append(f"{first} {second}")
        ages.setdefault(first + second, len(ages))
        for symbols in spelled.values():
            place = 0
            while place < len(symbols) - 1:
                if symbols[place : place + 2] == [first, second]:
                    symbols[place : place + 2] = [first + second]
                place += 1
    return found


def test_the_merges_are_those_of_the_algorithm():
    texts = TEXTS[:2] * 2
    assert learn_merges(texts, LEAST_PIECES + 60, 2) == merges_by_counting(texts, 60)


def test_the_same_texts_give_the_same_merges_in_any_order_with_any_threads(monkeypatch):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
    wanted = learn_merges(TEXTS, 500, 2)
    assert len(wanted) == 500 - LEAST_PIECES
    assert learn_merges(TEXTS[::-1], 500, 2) == wanted
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    assert learn_merges(TEXTS, 500, 2) == wanted


def test_the_pieces_are_those_of_the_tokenizer_that_learned_them():
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    made.train_from_iterator(TEXTS, trainer)
    ours = LearnedBytePairs(learn_merges(TEXTS, 600 + len(SPECIAL_PIECES), 1), max_tokens=4096)
    texts = [*TEXTS[:9], " ", "", "\0\x1f\x7f", "ÄÖ\u0308 \u200d\ufeff", "Kölner Filme, unseen wörds …"]
    ids = ours(tf.constant(texts)).to_list()
    assert [[ours.vocabulary[each] for each in row[1:-1]] for row in ids] == [
        made.encode(text).tokens for text in texts
    ]


def test_names_of_special_pieces_in_a_text_are_bytes_as_any_others():
    ours = LearnedBytePairs(["s >"], max_tokens=256)
    (ids,), _ = ours.rows(["⟨pad⟩⟨mask⟩⟨s⟩⟨/s⟩ <s> </s> <pad> [mask]"])
    assert ids[0] == ours.id_of("⟨s⟩")
    assert ids[-1] == ours.id_of("⟨/s⟩")
    assert ids[1:-1].min() >= len(SPECIAL_PIECES)


def test_two_texts_have_one_end_between_them_and_the_type_of_each():
    ours = LearnedBytePairs(["g o"], max_tokens=9)
    (row,), cut = ours.rows_of_pairs([("go", "a go")])
    assert [ours.names[piece] for piece in row[:, 0]] == ["⟨s⟩", "go", "⟨/s⟩", "a", " ", "go", "⟨/s⟩"]
    assert (row[:, 1].tolist(), cut) == ([0, 0, 0, 1, 1, 1, 1], 0)


def test_several_merges_of_one_piece_are_kept_and_saved():
    merges = ["a b", "b c", "ab c", "a bc"]
    ours = LearnedBytePairs(merges, max_tokens=8)
    assert ours.size == LEAST_PIECES + 3
    assert saved_vocabulary(ours) == merges


def test_a_long_run_of_one_sign_becomes_no_piece_of_its_own_length():
    merges = learn_merges(["-" * 5000] * 3, 600, 2)
    assert 32 <= max(len(merge) - 1 for merge in merges) <= 64


def test_texts_without_repeated_bytes_are_too_few():
    with pytest.raises(DataError, match="The 2 texts are too few to learn pieces from"):
        learn_merges(["ab", "cd"], 300, 2)
    assert learn_merges(["ab", "cd"], LEAST_PIECES, 2) == [], "bytes alone were asked for"


def test_a_limit_without_room_is_refused():
    with pytest.raises(ConfigError, match="`max_tokens` must be at least 2, for ⟨s⟩ and ⟨/s⟩. Received 1"):
        LearnedBytePairs([], max_tokens=1)


def test_learning_without_the_package_names_the_extra_and_ids_need_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtraError, match=r"tokenizers.*pip install 'keras-selfattn\[pieces\]'"):
        learn_merges(TEXTS, 300, 2)
    assert LearnedBytePairs(["g o"], 8).rows(["go"])[0][0].tolist() == [2, 260, 3]


def test_a_lone_surrogate_is_learned_and_read_as_a_question_mark():
    merges = learn_merges(["!\udc80"] * 2, 300, 2)
    assert merges == ["! ?"]

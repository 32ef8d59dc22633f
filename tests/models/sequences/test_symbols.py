"""Symbols of sources and answers: to ids and back, in NumPy and in a graph."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.sequences.symbols import (
    BEGIN,
    END,
    PADDING,
    UNKNOWN,
    Characters,
    Pieces,
    Words,
    learn_symbols,
    symbols_of,
)

FIRST = 4


def config(tokens, **fields):
    return SimpleNamespace(
        **({"vocabulary_size": None, "min_count": 1, "max_tokens": 12} | fields), tokens=tokens
    )


KINDS = {
    "pieces": Pieces(["h e", "l l", "he ll"], 13),
    "characters": Characters(list("helo Wrd東"), 13),
    "words": Words(["hello", "World", "東京"], 13),
}
every_kind = pytest.mark.parametrize("symbols", KINDS.values(), ids=KINDS)


def in_graph(symbols, texts):
    """Ids of sources and the texts of these ids, by one function that knows no shape."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def there_and_back(texts):
        ids = symbols(texts)
        return ids, symbols.graph_texts(ids.to_tensor(PADDING)), symbols.graph_texts(ids)

    ids, padded, ragged = there_and_back(tf.constant(texts, tf.string))
    assert ids.dtype == tf.int32
    assert padded.numpy().tolist() == ragged.numpy().tolist()
    return ids.to_list(), [text.decode() for text in padded.numpy()]


@every_kind
def test_rows_of_training_are_those_of_the_graph(symbols):
    texts = ["hello World", "", " ", "hell 東京\n hello " * 3, "o\udc80", "a"]
    rows, cut = symbols.rows(texts)
    ids, _ = in_graph(symbols, [text.encode(errors="replace") for text in texts])
    assert [row.tolist() for row in rows] == ids
    assert {row.dtype for row in rows} == {np.dtype("int32")}
    assert all(row[-1] == END and END not in row[:-1] for row in rows)
    assert cut == sum(len(row) == 13 for row in rows) == (0 if isinstance(symbols, Words) else 1)


@every_kind
def test_a_text_comes_out_as_it_went_in(symbols):
    texts = ["hello World", "", "World hello"]
    ids, written = in_graph(symbols, [text.encode() for text in texts])
    assert symbols.texts(ids) == written == texts


@settings(max_examples=12, deadline=None)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=8))
@example(["", " ", "  ", "\r\n", "a\r\nb\rc\n", "\0", "\0a\0", "\x1f\x7f\x85\xa0"])
@example(
    ["\ufeffa", "\ufffe\uffff", "\U0010ffff", "\ufffd", "⟨s⟩⟨/s⟩⟨pad⟩", "e\u0301é", "가각", "ﬁ", "İI", "👩‍🚀"]
)
def test_every_script_comes_out_of_characters_that_were_learned_from_it(texts):
    if not any(text.strip() for text in texts):
        texts = [*texts, "a"]
    symbols = learn_symbols(config("characters", max_tokens=64), texts)
    rows, cut = symbols.rows(texts)
    assert symbols.texts(rows) == texts
    assert cut == 0
    assert not any(UNKNOWN in row for row in rows)
    assert [text.decode() for text in symbols.graph_texts(symbols(tf.constant(texts))).numpy()] == texts


@settings(max_examples=12, deadline=None)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=8))
def test_every_script_comes_out_of_pieces(texts):
    symbols = Pieces(["h e", "Ã ¼"], 256)
    assert symbols.texts(symbols.rows(texts)[0]) == texts
    assert [text.decode() for text in symbols.graph_texts(symbols(tf.constant(texts))).numpy()] == texts


def test_words_are_split_at_runs_of_blanks_and_joined_by_one():
    symbols = KINDS["words"]
    texts = ["  hello\t\u3000World\r\n東京 ", "hello, world", "hello unknown World"]
    ids, written = in_graph(symbols, [text.encode() for text in texts])
    assert ids == [[4, 5, 6, END], [UNKNOWN, UNKNOWN, END], [4, UNKNOWN, 5, END]]
    assert symbols.texts(ids) == written == ["hello World 東京", "", "hello World"]


@every_kind
def test_bytes_that_are_no_text_come_out_as_replacement_characters(symbols):
    broken = b"h\xffe \xe6\x9d o"
    _, (written,) = in_graph(symbols, [broken])
    known = {"pieces": "h\ufffde \ufffd o", "characters": "he  o", "words": ""}
    assert written == next(known[name] for name, each in KINDS.items() if each is symbols)
    learned = Characters([*"he o", "\ufffd"], 12)
    assert in_graph(learned, [broken])[1] == ["h\ufffde \ufffd o"]


@every_kind
def test_special_symbols_never_come_out_and_nothing_after_the_end_does(symbols):
    one, other = symbols.rows(["hello World"])[0][0][[0, -2]].tolist()
    rows = [[BEGIN, one, PADDING, UNKNOWN, other, END, one], [END] + 6 * [one], [PADDING] * 7]
    wanted = [symbols.texts([[one, other]])[0], "", ""]
    assert symbols.texts(rows) == wanted
    assert [text.decode() for text in symbols.graph_texts(tf.constant(rows)).numpy()] == wanted
    empty = tf.zeros([0, 3], tf.int32), tf.zeros([2, 0], tf.int32)
    assert [symbols.graph_texts(ids).numpy().tolist() for ids in empty] == [[], [b"", b""]]


@every_kind
def test_answers_begin_and_end_and_a_cut_one_does_not_end(symbols):
    texts = ["hello World", "", "hello"]
    whole, cut = symbols.answers(texts, 99)
    assert cut == 0
    assert [row.tolist() for row in whole] == [
        [BEGIN, *row] for row in map(np.ndarray.tolist, symbols.rows(texts)[0])
    ]
    most = len(whole[0]) - 2  # one symbol too few
    shorter, cut = symbols.answers(texts, most)
    assert cut == 1
    assert shorter[0].tolist() == whole[0][: most + 1].tolist()
    assert END not in shorter[0]
    assert shorter[1].tolist() == [BEGIN, END]
    exact, cut = symbols.answers(texts, most + 1)
    assert cut == 0
    assert exact[0].tolist() == whole[0].tolist()


@every_kind
def test_long_answers_are_not_bounded_by_sources(symbols):
    text = " ".join(["hello"] * 30)
    row = symbols.answers([text], 200)[0][0]
    assert symbols.texts([row]) == [text]
    assert len(row) > symbols.max_tokens + 10


@pytest.mark.parametrize("tokens", KINDS)
def test_symbols_are_restored_from_what_is_saved(tokens):
    settings_of = config(tokens, vocabulary_size=270 if tokens == "pieces" else None)
    texts = ["hello World", "hello hello", "World hell"]
    symbols = learn_symbols(settings_of, texts)
    restored = symbols_of(settings_of, symbols.vocabulary)
    assert [row.tolist() for row in restored.rows(texts)[0]] == [
        row.tolist() for row in symbols.rows(texts)[0]
    ]
    assert restored.size == symbols.size == len(symbols.names)
    assert max(row.max() for row in symbols.rows(texts)[0]) < symbols.size
    assert len(symbols.tables) == len(restored.tables) > 0


def test_vocabularies_are_the_most_frequent_that_occur_often_enough():
    texts = ["b a b", "b c a", "\u3000d"]
    assert learn_symbols(config("words"), texts).vocabulary == ["b", "a", "c", "d"]
    assert learn_symbols(config("words", min_count=2), texts).vocabulary == ["b", "a"]
    assert learn_symbols(config("words", vocabulary_size=1), texts).vocabulary == ["b"]
    assert learn_symbols(config("characters", min_count=2), texts).vocabulary == [" ", "b", "a"]
    assert learn_symbols(config("characters"), ["aA"]).vocabulary == ["A", "a"]


@pytest.mark.parametrize("tokens", KINDS)
def test_what_teaches_nothing_is_refused(tokens):
    with pytest.raises(DataError, match=f"The 2 texts hold no {tokens}: all of them are blank"):
        learn_symbols(config(tokens), ["", " \n"])
    with pytest.raises(ConfigError, match=r"`max_tokens` must be at least 2.* Received 1"):
        learn_symbols(config(tokens, max_tokens=1), ["a"])


def test_ids_of_no_symbol_are_refused():
    with pytest.raises(DataError, match="Ids of pieces are 0 to 6. Received 3 to 7"):
        KINDS["words"].texts([[7, END]])
    assert FIRST + len(KINDS["words"].vocabulary) == KINDS["words"].size == 7


def test_texts_with_unknown_symbols_are_told_and_a_few_of_these_named():
    found = KINDS["characters"].unknown_in(["hello", "héllo Ж", "", "ЖЦ", "é"])
    assert (found.texts.tolist(), found.count) == ([False, True, False, True, True], 3)
    assert found.symbols == ("é", "Ж", "Ц")
    assert KINDS["words"].unknown_in(["hello  there", "hello"]).named == "'there'"
    assert KINDS["words"].unknown_in(["hello there"], 1).count == 0  # beyond the cut
    assert KINDS["pieces"].unknown_in(["漢", ""]).count == 0
    assert KINDS["words"].unknown_in([]).count == 0


@every_kind
def test_a_text_is_compared_in_the_blanks_that_answers_have(symbols):
    text = "\u3000hello\u00a0 \tWorld\n"
    (row,), _ = symbols.answers([text], 99)
    if not symbols.unknown_in([text]).count:
        assert symbols.comparable(text) == symbols.texts([row])[0]
    expected = "hello World" if symbols is KINDS["words"] else text
    assert symbols.comparable(text) == expected
    assert KINDS["words"].comparable(" a\x1cb ") == "a\x1cb"  # a control character is part of a symbol

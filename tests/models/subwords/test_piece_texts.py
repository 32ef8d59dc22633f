"""Pieces back to texts: the identity on every text, and Python's own reading of bytes that are no UTF-8."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_selfattn.errors import DataError
from keras_selfattn.models.subwords.learned_byte_pairs import LEAST_PIECES, LearnedBytePairs, learn_merges
from keras_selfattn.models.subwords.piece_texts import PieceTexts

LEARNED = ["Ünïcode 🙂🎬 Это фильм 东京 映画 good film, it's \r\n\t  so  ", "\0\0 a\u0308"]
MERGES = learn_merges(LEARNED * 2, 300, 2)
TOKENIZER = LearnedBytePairs(MERGES, max_tokens=1024)
TEXTS = PieceTexts(TOKENIZER)
PAD, HIDDEN, BEGIN, END = range(4)
FIRST_BYTE = 4


def by_graph(ids):
    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def decode(rows):
        return TEXTS(rows)

    return [text.decode() for text in decode(ids).numpy()]


def spelled(ids):
    """The text that Python makes of the bytes of pieces."""
    return b"".join(TOKENIZER.bytes_of_ids[each] for each in ids).decode("utf-8", "replace")


@settings(max_examples=15, deadline=None)
@given(st.lists(st.text(max_size=60), min_size=1, max_size=16))
@example(["", " ", "  ", "\r\n", "a\r\nb\rc\n", "\0", "\0a\0", "\x1f\x7f\x85\xa0"])
@example(["\ufeffa", "\ufffe\uffff", "\U0010ffff", "\U0010ffff.\U0010ffff", "\ufffd", "⟨s⟩⟨/s⟩⟨pad⟩"])
@example(["e\u0301é", "가각", "ﬁ", "İI", " leading", "trailing ", "\u3000", "👩‍🚀" * 20])
def test_a_text_comes_out_as_it_went_in(texts):
    ids = TOKENIZER(tf.constant([text.encode() for text in texts]))
    assert TEXTS.of(ids.numpy()) == texts
    assert [text.decode() for text in TEXTS(ids).numpy()] == texts


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(FIRST_BYTE, TOKENIZER.size - 1), min_size=5, max_size=5), max_size=8))
def test_bytes_that_are_no_text_are_replaced_as_python_does_it(rows):
    ids = np.array(rows, np.int32).reshape(-1, 5)
    wanted = [spelled(row) for row in rows]
    assert TEXTS.of(ids) == wanted
    assert [text.decode() for text in TEXTS(tf.constant(ids)).numpy()] == wanted


@pytest.mark.parametrize("decode", [TEXTS.of, by_graph], ids=["NumPy", "graph"])
def test_special_pieces_do_not_come_out_and_nothing_after_the_first_end_does(decode):
    a, b = FIRST_BYTE + ord("a"), FIRST_BYTE + ord("b")
    rows = [
        [BEGIN, a, END, b, END],
        [a, PAD, HIDDEN, BEGIN, b],
        [END, a, a, a, a],
        [a, b, PAD, PAD, PAD],
        [FIRST_BYTE + 0xF0, FIRST_BYTE + 0x9F, END, FIRST_BYTE + 0x99, FIRST_BYTE + 0x82],
    ]
    assert decode(np.array(rows, np.int32)) == ["a", "ab", "", "ab", "\ufffd"]
    assert decode(np.zeros((2, 0), np.int32)) == ["", ""]
    assert decode(np.zeros((0, 3), np.int32)) == []


def test_offsets_are_where_the_bytes_of_each_piece_are():
    text = "Это good film 🙂\r\n"
    ids = TOKENIZER(tf.constant([text]))[0].numpy()
    offsets = TEXTS.offsets([*ids, FIRST_BYTE, PAD])
    written = text.encode()
    assert [written[begin:end] for begin, end in offsets[: len(ids)]] == [
        TOKENIZER.bytes_of_ids[each] for each in ids
    ]
    assert offsets[len(ids) - 1 :].tolist() == [[len(written)] * 2] * 3, "nothing after the end"
    assert TEXTS.offsets([]).shape == (0, 2)


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ([[1.5]], "A row of pieces must be integers, one for each piece. Received float64"),
        ([3, 4], r"of the shape \(\)"),
        ([[-1, 5]], "Ids of pieces are 0 to 299. Received -1 to 5"),
        ([[300]], "Received 300 to 300"),
    ],
)
def test_what_is_no_row_of_pieces_is_refused(ids, reason):
    assert TOKENIZER.size == 300 >= LEAST_PIECES
    with pytest.raises(DataError, match=reason):
        TEXTS.of(ids)

"""Two texts a row: the ids and types of pretrained models' tokenizers, and the cut of the longer text."""

import numpy as np
import pytest
import tensorflow as tf
from pretrained_folders import BERT, PIECES, PIECES_OF_MPNET, write_folder

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.ragged_rows import pair_shares
from keras_selfattn.models.subwords.tokenizer_files import _between
from keras_selfattn.models.subwords.wordpiece import WordPiece, WordPieceSettings

ID = {piece: number for number, piece in enumerate(PIECES)}


def of_bert(max_tokens=12, **settings):
    return WordPiece(WordPieceSettings(max_tokens, **settings), PIECES)


def named(tokenizer, rows):
    return [[(tokenizer.names[number], kind) for number, kind in row.tolist()] for row in rows]


def test_second_text_has_type_1_after_one_separator():
    tokenizer = of_bert()
    rows, cut = tokenizer.rows_of_pairs([("A good film", "the films"), ("", "bad"), ("bad", "")])
    first = [("[CLS]", 0), ("a", 0), ("good", 0), ("film", 0), ("[SEP]", 0)]
    second = [("the", 1), ("film", 1), ("##s", 1), ("[SEP]", 1)]
    assert named(tokenizer, rows) == [
        [*first, *second],
        [("[CLS]", 0), ("[SEP]", 0), ("bad", 1), ("[SEP]", 1)],
        [("[CLS]", 0), ("bad", 0), ("[SEP]", 0), ("[SEP]", 1)],
    ]
    assert cut == 0


def test_separators_and_types_are_those_of_the_settings():
    settings = WordPieceSettings(
        12, cls="<s>", sep="</s>", pad="<pad>", mask="<mask>", separators=2, second_type=0
    )
    tokenizer = WordPiece(settings, PIECES_OF_MPNET)
    rows, _ = tokenizer.rows_of_pairs([("good", "film")])
    assert [name for name, _ in named(tokenizer, rows)[0]] == ["<s>", "good", "</s>", "</s>", "film", "</s>"]
    assert not rows[0][:, 1].any()


def test_rows_are_those_of_the_graph_with_other_rows_beside_them():
    tokenizer = of_bert(9)
    pairs = [("a good film " * n, "bad " * m) for n, m in [(0, 0), (4, 1), (1, 9), (3, 3), (2, 40)]]
    rows, cut = tokenizer.rows_of_pairs(pairs)
    graph = tf.function(tokenizer.pairs)(*(tf.constant(texts) for texts in zip(*pairs, strict=True)))
    for row, alone in zip(rows, graph, strict=True):
        np.testing.assert_array_equal(row, alone.numpy())
    assert cut == 4
    assert max(map(len, rows)) == 9


# Lengths of two texts, and what `tokenizers` 0.23 keeps of each of at most 9: "longest_first".
KEPT = {(4, 5): (4, 5), (5, 4): (5, 4), (3, 20): (3, 6), (20, 3): (6, 3), (5, 5): (4, 5), (6, 5): (5, 4)}
KEPT |= {(5, 6): (4, 5), (20, 20): (4, 5), (20, 0): (9, 0), (0, 20): (0, 9), (0, 0): (0, 0), (4, 20): (4, 5)}


@pytest.mark.parametrize("lengths", KEPT)
def test_longer_text_is_cut_first_and_then_both(lengths):
    first, second = (tf.constant([each], tf.int64) for each in lengths)
    kept = pair_shares(first, second, 9)
    assert (int(kept[0][0]), int(kept[1][0])) == KEPT[lengths]


def test_cut_at_the_tokens_around_two_texts_leaves_none_of_them():
    rows, cut = of_bert(3).rows_of_pairs([("good", "film")])
    assert rows[0][:, 0].tolist() == [ID["[CLS]"], ID["[SEP]"], ID["[SEP]"]]
    assert cut == 1


def test_two_texts_need_room_for_the_tokens_around_them():
    with pytest.raises(ConfigError, match="at least 3 for two texts"):
        of_bert(2).rows_of_pairs([("good", "film")])


@pytest.mark.parametrize(("name", "value"), [("separators", 0), ("separators", 1.5), ("second_type", 2)])
def test_settings_of_two_texts_out_of_range_are_refused(name, value):
    with pytest.raises(ConfigError, match=f"`{name}` must be"):
        WordPieceSettings(8, **{name: value})


def test_tokenizer_of_a_file_from_before_there_were_pairs_refuses_them():
    saved = WordPieceSettings(8).to_dict()
    del saved["separators"]
    tokenizer = WordPiece(WordPieceSettings.from_dict(saved), PIECES)
    with pytest.raises(
        ConfigError, match="not known what stands between two texts. The tokenizer was saved before"
    ):
        tokenizer.pairs(tf.constant(["a"]), tf.constant(["b"]))
    assert tokenizer(tf.constant(["a"])).to_list() == [[ID["[CLS]"], ID["a"], ID["[SEP]"]]]


def special(token, kind=0):
    return {"SpecialToken": {"id": token, "type_id": kind}}


def text(name, kind=0):
    return {"Sequence": {"id": name, "type_id": kind}}


SINGLE = [special("[CLS]"), text("A"), special("[SEP]")]
TEMPLATES = {
    (1, 1): [*SINGLE, text("B", 1), special("[SEP]", 1)],
    (1, 0): [*SINGLE, text("B"), special("[SEP]")],
    (2, 0): [*SINGLE, special("[SEP]"), text("B"), special("[SEP]")],
}
ODD = {
    "no separator": [special("[CLS]"), text("A"), text("B", 1), special("[SEP]", 1)],
    "second text first": [special("[CLS]"), text("B"), special("[SEP]"), text("A", 1), special("[SEP]", 1)],
    "first tokens twice": [*SINGLE, special("[CLS]"), text("B"), special("[SEP]")],
    "last separator of another type": [*SINGLE, text("B", 1), special("[SEP]")],
    "nothing": [],
}


@pytest.mark.parametrize("expected", TEMPLATES)
def test_template_of_two_texts_is_read(expected):
    part = {"type": "TemplateProcessing", "single": SINGLE, "pair": TEMPLATES[expected]}
    assert tuple(_between(part).values()) == expected


@pytest.mark.parametrize("name", ODD)
def test_template_of_another_form_is_not_guessed(name):
    part = {"type": "TemplateProcessing", "single": SINGLE, "pair": ODD[name]}
    assert _between(part)["separators"] is None


@pytest.mark.parametrize("part", [{}, {"pair": None}], ids=["absent", "null"])
def test_template_without_two_texts_is_not_guessed(part):
    found = _between({"type": "TemplateProcessing", "single": SINGLE, **part})
    assert found["separators"] is None


def test_folder_without_a_written_template_has_that_of_its_class(tmp_path):
    tokenizer = WordPiece.from_folder(write_folder(tmp_path / "bert", BERT), 16)
    assert (tokenizer.settings.separators, tokenizer.settings.second_type) == (1, 1)

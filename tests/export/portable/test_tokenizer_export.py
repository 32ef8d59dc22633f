"""`tokenizer.json` gives the package `tokenizers` the same ids, and the pieces of each token."""

import json

import pytest
import tensorflow as tf
from tokenizers import Tokenizer

from keras_selfattn.export.portable.tokenizer_export import tokenizer_json
from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.pretrained.word_pieces import WordPieces
from keras_selfattn.models.subwords.byte_pair_settings import BytePairSettings
from keras_selfattn.models.subwords.byte_pairs import BytePairs
from keras_selfattn.models.subwords.wordpiece import WordPiece
from keras_selfattn.models.subwords.wordpiece_settings import WordPieceSettings
from keras_selfattn.models.text.tokenizer import Tokenizer as Words

SMALL = {"width": 8, "num_layers": 1, "num_heads": 1, "ngram_buckets": 64}


TEXTS = [
    "Good film, good FILM!",
    "it's a film_noir of 1999 …",
    "",
    " \t\n\v\u3000 ",
    "日本語 ไทย ひらがな",
    "ÉTÉ Straße İstanbul ΣΑΣ",
    "good<unk>[MASK] bad",
    "x" * 120,
]


def word_piece():
    settings = WordPieceSettings(16, added_tokens={"[MASK]": 4, "<unk>": 9}, normalized_tokens=("<unk>",))
    return WordPiece(
        settings, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "film", "##s", "日", "<unk>"]
    )


def byte_pairs(**settings):
    letters = map(chr, [*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324)])
    vocabulary = ["<pad>", "<s>", "</s>", "<unk>", *letters, "go", "goo", "Ġf", "<mask>"]
    settings = BytePairSettings(16, merges=("g o", "go o", "Ġ f"), added_tokens={"<mask>": 263}, **settings)
    return BytePairs(settings, vocabulary)


@pytest.mark.parametrize(
    "tokenizer",
    [
        Words(TextConfig(**SMALL), ["good", "a", "it's", "film_noir", "日", "ไ", "été", "!", "straße"]),
        Words(TextConfig(**SMALL, lowercase=False), ["good", "FILM", "ΣΑΣ"]),
        Words(TextConfig(**SMALL, tokens="characters"), ["g", "o", " ", "\n", "日", "i", "̇"]),
        word_piece(),
        byte_pairs(),
        byte_pairs(words="llama-3"),
    ],
    ids=["words", "words with case", "characters", "wordpiece", "byte pairs", "words of Llama"],
)
def test_tokenizer_json_gives_the_package_tokenizers_the_same_ids(tokenizer):
    read = Tokenizer.from_str(json.dumps(tokenizer_json(tokenizer)))
    wanted = tokenizer(tf.constant(TEXTS)).to_list()
    read.no_padding()
    assert [read.encode(text).ids for text in TEXTS] == wanted
    padded = Tokenizer.from_str(json.dumps(tokenizer_json(tokenizer))).encode_batch(TEXTS)
    assert {len(row.ids) for row in padded} == {max(map(len, wanted))}
    assert padded[2].ids[-1] == 0


@pytest.mark.parametrize("kind", ["wordpiece", "byte pairs"])
def test_tokenizer_json_of_a_labeller_gives_the_pieces_of_each_token(kind):
    tokenizer = word_piece() if kind == "wordpiece" else byte_pairs()
    pieces = WordPieces(tokenizer)
    read = Tokenizer.from_str(json.dumps(tokenizer_json(tokenizer, of_tokens=True)))
    tokens = ["good", "films", "it's", "日本", "x" * 40, "<mask>"]
    found = pieces(tf.constant(tokens)).numpy()
    assert [read.encode(token).ids for token in tokens] == [row[row != 0].tolist() for row in found]

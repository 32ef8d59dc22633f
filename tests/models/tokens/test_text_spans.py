"""Spans of raw texts: those that figures count, at characters of the text as it was given."""

import random
from itertools import groupby, pairwise

import keras
import numpy as np
import pytest

from keras_selfattn import models
from keras_selfattn.errors import DataError
from keras_selfattn.metrics.positions import spans as counted
from keras_selfattn.models.tokens.text_spans import SpanMarks
from keras_selfattn.rows.span_schemes import scheme_of
from keras_selfattn.rows.text_spans import Span
from keras_selfattn.rows.text_tokens import token_places

SCHEMES = {
    "BIO": "B-A I-A B-B I-B O",
    "IOBES": "B_A I_A E_A S_A B_B E_B O",
    "BILOU": "B-A I-A L-A U-A O",
    "no kinds": "B I O",
    "no O": "B-A I-A B-B",
}
TEXTS = [
    "Ada wrote to Rome.",
    "",
    " \r\n\t ",
    "\r\nAda\r\nL.\r\n",
    "😀Ada👩\u200d🚒 𝒜𝒷 𠀀x",
    "東京都のAdaさん",
    "ภาษาไทย ລາວ e\u0301te\u0301",
    "עברית العربية हिन्दी",
]


def drawn(count):
    """Random texts of many scripts, with white space of all kinds."""
    draw = random.Random(5)
    ranges = [range(0x20, 0x7F), range(0xA0, 0x250), range(0x5D0, 0x780), range(0x900, 0x1100)]
    ranges += [range(0x3000, 0x3100), range(0x1F300, 0x1F650), [0xD, 0xA, 0x9, 0x20, 0x200D, 0xFE0F, 0x301]]
    return [
        "".join(chr(draw.choice(draw.choice(ranges))) for _ in range(draw.randrange(30)))
        for _ in range(count)
    ]


def found_in(labels, row):
    """Spans of a row of labels, each token a letter, as places of tokens."""
    places = [(place, place + 1) for place in range(len(row))]
    chosen = np.array([labels.index(name) for name in row], int)
    return SpanMarks(labels).spans("x" * len(row), places, chosen, np.ones(len(row)))


@pytest.mark.parametrize("labels", SCHEMES.values(), ids=SCHEMES)
def test_labels_that_mark_spans_are_read_as_the_figures_read_them_valid_rows_or_not(labels):
    draw, labels = random.Random(3), labels.split()
    rows = [[draw.choice(labels) for _ in range(draw.randrange(9))] for _ in range(300)]
    for row in rows:
        expected = [(each.kind, each.start, each.stop) for each in counted(row, scheme_of(labels))]
        assert [(each.label, each.start, each.end) for each in found_in(labels, row)] == expected


@pytest.mark.parametrize("labels", ["NOUN VERB O", "NOUN VERB ADJ", "O B-A I-A Name"])
def test_of_labels_without_a_scheme_equal_neighbours_are_one_span_and_o_is_none(labels):
    draw, labels = random.Random(4), labels.split()
    for row in ([draw.choice(labels) for _ in range(draw.randrange(9))] for _ in range(200)):
        edges = np.cumsum([0, *(len(list(group)) for _, group in groupby(row))]).tolist()
        expected = [(row[first], first, end) for first, end in pairwise(edges) if row[first] != "O"]
        assert [(each.label, each.start, each.end) for each in found_in(labels, row)] == expected


def test_a_span_is_as_sure_as_its_least_certain_token():
    scores = np.float32([0.9, 0.5, 0.75, 0.25])
    marks, places = SpanMarks(["B-A", "I-A", "O"]), [(0, 1), (2, 3), (3, 4), (4, 5)]
    assert marks.spans("a bcd", places, np.array([0, 1, 2, 1]), scores) == [
        Span("a b", "A", 0, 3, 0.5),
        Span("d", "A", 4, 5, 0.25),
    ]


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    made = models.TokenClassifier(models.TokenConfig(width=12, num_layers=1, num_heads=3, hash_buckets=64))
    made.adapt([["a"] * 4], [["B-A", "I-A", "B-B", "I-B"]])  # without O, each token is in a span
    return made


@pytest.mark.slow
def test_a_span_is_the_text_between_its_characters_and_begins_and_ends_with_tokens(model):
    texts = [*TEXTS, *drawn(60)]
    found = model.spans(texts)
    assert sum(map(len, found)) > 100, "else this would show little"
    for raw, spans in zip(texts, found, strict=True):
        starts, ends = map(set, zip(*token_places(raw), strict=True)) if raw.split() else (set(), set())
        assert all(each.text == raw[each.start : each.end] for each in spans)
        assert {each.start for each in spans} <= starts
        assert {each.end for each in spans} <= ends
        assert all(before.end <= after.start for before, after in pairwise(spans))
        assert all(0 < each.score <= 1 for each in spans)


def test_the_spans_are_those_of_the_labels_that_the_model_gives_to_the_tokens(model):
    places = list(map(token_places, TEXTS))
    rows = [[raw[start:end] for start, end in each] for raw, each in zip(TEXTS, places, strict=True)]
    answers = zip(model.label(rows), model.predict(rows, verbose=0), places, model.spans(TEXTS), strict=True)
    for labels, outputs, each, spans in answers:
        scores = [row[model.labels.index(name)] for row, name in zip(outputs, labels, strict=True)]
        assert [(span.label, span.start, span.end) for span in spans] == [
            (span.kind, each[span.start][0], each[span.stop - 1][1]) for span in counted(labels)
        ]
        assert [span.score for span in spans] == pytest.approx(
            [min(scores[span.start : span.stop]) for span in counted(labels)], abs=1e-6
        )


@pytest.mark.slow
def test_a_model_knows_how_many_of_its_training_tokens_are_several_in_a_raw_text(tmp_path):
    config = models.TokenConfig(width=8, num_layers=1, num_heads=2, hash_buckets=64)
    rows = [["Ada's", "cat"], ["U.N.", "here", "cat", "cat"], ["U.N.", "x"]]
    by_hand = models.TokenClassifier(config)
    by_hand.adapt(rows, [["O", "B-A"], ["I-A", "O", "O", "O"], ["O", "O"]])
    assert by_hand.split_otherwise == 3 / 8
    by_hand.save(tmp_path / "model.keras")
    loaded = models.load(tmp_path / "model.keras")
    with pytest.warns(UserWarning, match="split otherwise than the training rows: 37.50% of their tokens"):
        loaded.spans(["Ada"])
    old = {name: value for name, value in by_hand.get_config().items() if name != "split_otherwise"}
    assert models.TokenClassifier.from_config(old).spans(["Ada"]) is not None, "without a warning: not known"
    # The weights of a model of the same words, whose rows were split by the rule of raw texts, are its own.
    as_read = models.TokenClassifier.from_config({**old, "split_otherwise": 0.0})
    by_hand.save_weights(tmp_path / "model.weights.h5")
    as_read.load_weights(tmp_path / "model.weights.h5")


def test_the_share_of_tokens_that_are_split_otherwise_is_of_the_last_training():
    model = models.TokenClassifier({"width": 8, "num_layers": 1, "num_heads": 2, "hash_buckets": 16})
    model.compile()
    rows, labels = [["Ada's", "cat"], ["x"]], [["B-A", "O"], ["O"]]
    model.fit(rows, labels, epochs=0, verbose=0)
    assert model.split_otherwise == 1 / 3
    model.fit([["Ada", "'", "s"]], [["B-A", "O", "O"]], epochs=0, verbose=0)
    assert model.split_otherwise == 0
    with pytest.raises(DataError, match="1 tokens and 2 labels"):
        model.fit([["Ada's"]], [["B-A", "O"]], epochs=0, verbose=0)
    assert model.split_otherwise == 0
    # Rows of a source are never in memory together.
    model.fit(iter([(rows, labels)]), epochs=0, verbose=0)
    assert model.split_otherwise is None


def test_what_are_no_texts_is_refused_and_no_texts_have_no_spans(model):
    assert model.spans([]) == []
    assert model.spans(np.array(["", "  "])) == [[], []]
    assert model.spans([b"a\xff "]) == model.spans(["a\ufffd "]) != [[]]
    for texts, reason in (
        ("Ada", "wrap it in a list"),
        ([["Ada"]], "Text 0 .* is not a string"),
        ([None], "''"),
    ):
        with pytest.raises(DataError, match=reason):
            model.spans(texts)
    with pytest.raises(DataError, match="has not seen any rows"):
        models.TokenClassifier().spans(["Ada"])

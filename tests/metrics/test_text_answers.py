"""Figures of answers that are texts, against numbers computed by hand and sacrebleu's own."""

import math
import sys

import numpy as np
import pytest

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.metrics import report_of, text_answers
from keras_selfattn.metrics.evaluation import Evaluation
from keras_selfattn.metrics.mistakes import mistakes_of
from keras_selfattn.metrics.report_of_model import head_metrics
from keras_selfattn.metrics.text_answers import edit_rate, text_answer_report
from keras_selfattn.models.sequences.sequence_head import AnswerHead
from keras_selfattn.models.sequences.symbols import Characters, Words
from keras_selfattn.models.sequences.text_answer import Answer
from keras_selfattn.rows.targets import ANSWERS
from keras_selfattn.rows.texts import TEXTS

SOURCES = ["a man", "two men", "a dog", "a cat runs"]
TARGETS = [("ein Mann",), ("zwei Männer", "2 Männer"), ("ein Hund", "der Hund"), ("eine Katze rennt",)]
TEXTS_OUT = ["ein Mann", "2 Männer", "ein Hand", "ein Hund"]
OUTPUTS = [Answer(text, -0.5, text != "ein Hund", (text,), (-0.5,)) for text in TEXTS_OUT]
ROWS = LabelledRows(SOURCES, TARGETS, "pairs.csv", [2, 3, 4, 7], kind=TEXTS, target_kind=ANSWERS)


@pytest.fixture(scope="module")
def figures():
    return report_of(AnswerHead(), TARGETS, OUTPUTS, {"copying": np.array(SOURCES, object)})


def test_figures_are_those_computed_by_hand(figures):
    found = figures.answers["model"]
    assert found.exact_match == 0.5
    # Of words one of "ein Hund", and all three of the last row; of the right answers 2 + 2 + 2 + 3.
    assert found.word_error_rate == pytest.approx(4 / 9)
    # Of characters one of "ein Hund"; and eight more beside three others (H, u, d): 8 + 8 + 8 + 16.
    assert found.character_error_rate == pytest.approx(12 / 40)
    assert figures.rows == 4
    assert figures.unfinished == 0.25
    assert figures.summary()["exact_match_of_copying"] == 0


def test_the_most_frequent_answer_is_a_baseline():
    found = text_answer_report([("b",), ("a", "c"), ("a",)], ["x"] * 3, 0.0, {})
    assert found.answers["constant"].exact_match == pytest.approx(2 / 3)


def test_the_nearest_right_answer_counts_with_its_own_length():
    # Of words "c d e" is a third away, of characters two fifths; "b" is farther than it is long.
    assert edit_rate([("b", "c d e")], ["c d x"], str.split) == pytest.approx(1 / 3)
    assert edit_rate([("b", "c d e")], ["c e"]) == pytest.approx(2 / 5)
    assert edit_rate([("a",), ("b", "c d e")], ["a", "c d x"], str.split) == pytest.approx(1 / 4)


def test_an_empty_answer_and_an_empty_right_one_have_rates():
    assert edit_rate([("ab",)], [""]) == 1
    assert edit_rate([("",)], ["ab"]) == 2
    assert edit_rate([("",)], [""]) == 0


def test_bleu_and_chrf_are_those_of_sacrebleu(figures):
    sacrebleu = pytest.importorskip("sacrebleu")
    references = [
        ["ein Mann", "zwei Männer", "ein Hund", "eine Katze rennt"],
        [None, "2 Männer", "der Hund", None],
    ]
    found = figures.answers["model"]
    assert found.chrf == pytest.approx(sacrebleu.corpus_chrf(TEXTS_OUT, references).score)
    assert found.chrf > 20
    assert figures.signatures["bleu"].startswith("nrefs:var|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert figures.signatures["chrf"].startswith("nrefs:var|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


def test_bleu_is_of_answers_of_four_words(figures):
    sacrebleu = pytest.importorskip("sacrebleu")
    targets, texts = [("a b c d", "a b c e g"), ("f",)], ["a b c e", "f g"]
    found = text_answer_report(targets, texts, 0.0, {}).answers["model"]
    references = [["a b c d", "f"], ["a b c e g", None]]
    assert found.bleu == pytest.approx(sacrebleu.corpus_bleu(texts, references).score)
    assert 50 < found.bleu < 99
    # Right ones of fewer words would have a BLEU of 0.
    assert math.isnan(figures.answers["model"].bleu)
    assert figures.no_bleu == "There is no BLEU, since no right answer has four words."
    assert "bleu" not in figures.summary()


def test_right_answers_have_the_best_figures():
    found = text_answer_report([("a b c d e",), ("f g h i",)], ["a b c d e", "f g h i"], 0.0, {}).answers[
        "model"
    ]
    assert found[:3] == (1.0, pytest.approx(100), pytest.approx(100))
    assert found[3:] == (0, 0)


def test_without_sacrebleu_the_other_figures_are_there_and_the_reason_is_told(monkeypatch):
    monkeypatch.setattr(text_answers, "find_spec", lambda _name: None)
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    found = report_of(AnswerHead(), TARGETS, OUTPUTS)
    assert math.isnan(found.answers["model"].bleu)
    assert [*found.summary()][:3] == ["exact_match", "word_error_rate", "character_error_rate"]
    assert found.no_bleu.endswith("without sacrebleu: pip install 'keras-selfattn[bleu]'.")
    assert [*found.tables()] == ["errors"]


def test_rows_with_another_answer_are_mistakes_the_largest_error_first():
    found = mistakes_of(AnswerHead(), ROWS, OUTPUTS)
    assert found.header == ["line", "text", "target", "predicted", "error"]
    assert found.rows == [
        (7, "a cat runs", "eine Katze rennt", "ein Hund", 0.6875),
        (4, "a dog", ["ein Hund", "der Hund"], "ein Hand", 0.125),
    ]


def test_an_example_of_a_run_is_a_row_with_a_right_answer(figures):
    found = Evaluation(AnswerHead(), ROWS, OUTPUTS, figures)
    assert found.example() == {"input": "a man", "target": "ein Mann", "where": 2}
    assert found.reliability() is None


def test_the_epoch_is_chosen_by_the_edits_of_characters_of_some_answers():
    figures = head_metrics(AnswerHead())
    assert (figures.chooses_epoch(TARGETS), figures.rows_of_epoch) == ("character_error_rate", 500)
    assert figures.chooses_epoch([("",), ("",)]) is None


def test_of_words_blanks_between_them_are_no_mistakes():
    rows = LabelledRows(
        ["x", "y"], [("HH  AH0 ", "B"), ("B",)], "sounds.csv", kind=TEXTS, target_kind=ANSWERS
    )
    outputs = [Answer(text, -0.1, True, (text,), (-0.1,)) for text in ("HH AH0", "B")]
    head = AnswerHead(Words(["HH", "AH0", "B"], 9), 9)
    found = report_of(head, rows.targets, outputs).answers["model"]
    assert (found.exact_match, found.word_error_rate, found.character_error_rate) == (1, 0, 0)
    assert mistakes_of(head, rows, outputs).rows == []
    exact = AnswerHead(Characters([*"HA0B "], 9), 9)  # these can write any blanks
    assert report_of(exact, rows.targets, outputs).answers["model"].exact_match == 0.5
    assert len(mistakes_of(exact, rows, outputs).rows) == 1

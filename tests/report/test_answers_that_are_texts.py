"""The report of a model that writes texts: figures, lengths, worst and best answers; also on the terminal."""

import dataclasses

import numpy as np
import pytest
from html_pages import figure, read_page, section, table

from keras_selfattn.cli.shared import console as consoles
from keras_selfattn.cli.shared.report_tables import print_report, print_worst_answers
from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.drawing.builders import lengths_of_answers
from keras_selfattn.metrics.evaluation import Evaluation
from keras_selfattn.metrics.report_of_model import report_of
from keras_selfattn.models.sequences.sequence_head import AnswerHead
from keras_selfattn.models.sequences.text_answer import Answer, AnswerExplanation
from keras_selfattn.report import alignments
from keras_selfattn.report.alignments import alignment_section
from keras_selfattn.report.figure_names import value_in_words
from keras_selfattn.report.misread import misread_section
from keras_selfattn.report.page import page_html
from keras_selfattn.report.results import answers_section
from keras_selfattn.report.sections import Page
from keras_selfattn.rows.targets import ANSWERS
from keras_selfattn.rows.texts import TEXTS

SOURCES = ["a man", "two men", "a <b>dog</b>", "a cat runs far"]
TARGETS = [("ein Mann",), ("zwei Männer", "2 Männer"), ("ein Hund",), ("eine Katze rennt weit",)]
OUTPUTS = [
    Answer(text, -0.5, text != "", (text,), (-0.5,)) for text in ("ein Mann", "2 Männer", "ein Hand", "")
]
ROWS = LabelledRows(SOURCES, TARGETS, "pairs.csv", [2, 3, 4, 7], kind=TEXTS, target_kind=ANSWERS)


@pytest.fixture(scope="module")
def found():
    figures = report_of(AnswerHead(), TARGETS, OUTPUTS, {"copying": np.array(SOURCES, object)})
    return Evaluation(AnswerHead(), ROWS, OUTPUTS, figures)


@pytest.fixture(scope="module")
def page(found):
    sections = [answers_section(found.figures, "test", found), misread_section(found.head, ROWS, OUTPUTS)]
    return read_page(page_html(Page("Run", [], [], sections)))


def test_the_figures_stand_beside_those_of_the_baselines(page):
    rows = table(page, "Figures of the answers").rows()
    assert [row[:2] for row in rows] == [
        ["the model", "50.0%"],
        ["a copy of the source", "0.0%"],
        ["the most frequent answer", "25.0%"],
    ]
    assert "25.0% of the answers were cut at the bound" in page.text


def test_the_worst_answers_come_first_and_the_best_have_their_own_table(page):
    of_errors = section(page, "Largest errors").all("table")[0]
    rows = of_errors.rows()
    assert [each.text for each in of_errors.all("th")] == ["place", "text", "target", "predicted", "error"]
    assert [row[0] for row in rows] == ["7", "4"]
    assert rows[1][1:4] == ["a <b>dog</b>", "ein Hund", "ein Hand"]
    assert "2 rows have another answer than the right ones, the largest error first." in page.text
    best = table(page, "Best answers").rows()
    assert [row[0] for row in best] == ["2", "3", "4", "7"]
    assert best[1][2] == "zwei Männer | 2 Männer"


def test_lengths_are_drawn_as_points_and_shares(page):
    assert figure(page, "Lengths in and out")
    chart = lengths_of_answers(np.array([8, 11]), np.array([8, 0]))
    assert (chart.lines[0].x, chart.lines[0].y, chart.diagonal) == ([8, 11], [8, 0], True)


def test_the_terminal_has_figures_signatures_and_the_worst_answers(found):
    with consoles.console.capture() as printed:
        print_report(found.figures, "test")
        print_worst_answers(found.mistakes())
    said = printed.get()
    for part in ("the model", "50.0%", "25.0% of the answers were cut", "ein Hand", "The worst answers"):
        assert part in said


def test_figures_of_texts_are_shares_and_numbers_to_a_hundred():
    assert value_in_words("word_error_rate", 0.125) == "12.5%"
    assert value_in_words("character_error_rate_of_copying", 1.5) == "150.0%"
    assert value_in_words("bleu", 41.234) == "41.2"
    assert value_in_words("mean_absolute_error_of_mean", 0.125) == "0.125"


class _Explaining:
    """Explains answers of words: each symbol reads all of its source evenly."""

    def explain(self, sources, answers):
        self.asked = [*zip(sources, answers, strict=True)]
        return [self._one(source.split(), answer.split()) for source, answer in self.asked]

    @staticmethod
    def _one(source, target):
        return AnswerExplanation(source, target, np.full((len(target), len(source)), 1 / len(source)))


def test_right_and_wrong_answers_have_their_alignment_the_largest_error_first(found):
    model = _Explaining()
    shown = alignment_section(found, model)
    # The empty answer has none, and of right ones the longest are there.
    assert model.asked == [("a man", "ein Mann"), ("two men", "2 Männer"), ("a <b>dog</b>", "ein Hand")]
    titles = ["ein Mann (right, place 2)", "2 Männer (right, place 3)", "ein Hand (error 12%, place 4)"]
    assert [each.title for each in shown.blocks[1:]] == titles
    assert shown.blocks[1].weights == [[0.5, 0.5], [0.5, 0.5]]
    page = read_page(page_html(Page("Run", [], [], [shown])))
    assert figure(page, titles[0])
    assert "ein reads man: 50%" in {each.tooltip for each in page.all("g")}


def test_alignments_are_left_out_without_a_model_of_labels_and_of_long_answers(found, monkeypatch):
    assert alignment_section(found, None) is None
    monkeypatch.setattr(alignments, "_CHARACTERS", 4)
    assert alignment_section(found, _Explaining()) is None
    monkeypatch.setattr(alignments, "_CHARACTERS", 200)
    monkeypatch.setattr(alignments, "_SYMBOLS", 1)
    assert alignment_section(found, _Explaining()) is None


def test_an_answer_that_the_bound_cut_has_no_alignment(found):
    cut = [dataclasses.replace(answer, ended=False) for answer in OUTPUTS[:2]]
    outputs, model = [*cut, *OUTPUTS[2:]], _Explaining()
    alignment_section(Evaluation(found.head, ROWS, outputs, found.figures), model)
    assert model.asked == [("a <b>dog</b>", "ein Hand")]


def test_a_source_that_is_there_twice_is_drawn_once(found):
    rows = LabelledRows(
        [SOURCES[0]] * 2, [TARGETS[0]] * 2, "pairs.csv", [2, 3], kind=TEXTS, target_kind=ANSWERS
    )
    twice = Evaluation(found.head, rows, [OUTPUTS[0]] * 2, found.figures)
    assert len(alignment_section(twice, _Explaining()).blocks) == 2


def test_rows_that_are_all_right_are_told(found):
    right = [Answer(target[0], 0.0, True, target, (0.0,)) for target in TARGETS]
    shown = misread_section(found.head, ROWS, right)
    assert shown.blocks == ["No held-out row is answered wrongly."]

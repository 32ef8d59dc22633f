"""Each head answers for itself: figures, mistakes, decisions and its graph's answers, computed by hand."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.errors import ConfigError, ExportError
from keras_selfattn.export.signatures.answers import raw_answers
from keras_selfattn.metrics.evaluation import Evaluation
from keras_selfattn.metrics.head_metrics import HeadMetrics
from keras_selfattn.metrics.mistakes import mistakes_of
from keras_selfattn.metrics.report import Report
from keras_selfattn.metrics.report_of_model import head_metrics, report_of
from keras_selfattn.models.heads.class_heads import ClassHead, Head, LabelHead, MultiLabelHead
from keras_selfattn.models.heads.number_head import NumbersHead
from keras_selfattn.models.heads.score_heads import BoundedScoreHead, ScoreHead
from keras_selfattn.models.pretrained.text_encoder import VectorHead
from keras_selfattn.models.sequences.sequence_head import AnswerHead
from keras_selfattn.models.text.masked_prediction import MaskedTokenHead
from keras_selfattn.models.tokens.position_head import PositionHead
from keras_selfattn.report.results import answers_section, reliability_section
from keras_selfattn.report.sections import Table


@dataclass(frozen=True)
class Told:
    """All that a head is asked, with the answers computed by hand.

    Args:
        head: of small labels.
        inputs: of the rows.
        targets: of the rows.
        outputs: of the model.
        summary: the figures of the report.
        mistakes: the lines of the table, without the places and inputs of the rows.
        decisions: which are right, and their probabilities; None for a head without probabilities.
        decided: in words.
        answers: of `serving_default`, by name.
    """

    head: Head
    inputs: list[Any]
    targets: list[Any]
    outputs: list[Any]
    summary: dict[str, float]
    mistakes: list[tuple[Any, ...]]
    decisions: tuple[list[bool], list[float]] | None
    decided: str
    answers: dict[str, Any]


TOLD = [
    # The second row ties: the first class is taken, and is wrong. Its confidence is off by 1/2, that of the
    # two others by 1/4.
    Told(
        ClassHead(["a", "b"]),
        ["x", "y", "z"],
        ["a", "b", "b"],
        [[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]],
        {"accuracy": 2 / 3, "macro_f1": 2 / 3, "calibration_error": 1 / 3},
        [("b", "a", 0.5)],
        ([True, False, True], [0.75, 0.5, 0.75]),
        "each answer",
        {
            "probabilities": [[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]],
            "label": [b"a", b"a", b"b"],
            "score": [0.75, 0.5, 0.75],
        },
    ),
    # One half is enough for a label. The surest wrong decision is that the second row is no "b", with 0.625.
    Told(
        MultiLabelHead(["a", "b"]),
        ["x", "y"],
        [["a"], ["b"]],
        [[0.75, 0.5], [0.25, 0.375]],
        {"micro_f1": 0.5, "macro_f1": 0.5, "accuracy": 0.0},
        [(["b"], [], 0.625), (["a"], ["a", "b"], 0.5)],
        ([True, False, False, True], [0.75, 0.5, 0.25, 0.375]),
        "each label",
        {
            "probabilities": [[0.75, 0.5], [0.25, 0.375]],
            "label": [b"a", b"b"],
            "score": [0.75, 0.375],
            "labels": [[b"a", b"b"], [b"", b""]],
        },
    ),
    # O I-A is not valid: B-A I-A has 0.5 * 0.75, O O has 0.5 * 0.25, and B-A O as much. The spans are 0 to 1
    # and 0 to 2, so that none is right, and both overlap.
    Told(
        PositionHead(["B-A", "I-A", "O"], "IOB2"),
        [["Ada", "is"]],
        [["B-A", "O"]],
        [[[0.5, 0.0, 0.5], [0.0, 0.75, 0.25]]],
        {
            "span_f1": 0.0,
            "span_precision": 0.0,
            "span_recall": 0.0,
            "span_macro_f1": 0.0,
            "span_overlap_f1": 1.0,
            "span_overlap_precision": 1.0,
            "span_overlap_recall": 1.0,
            "accuracy": 0.5,
            "macro_f1": 1 / 3,
            "calibration_error": 0.625,
        },
        [(1, "is", "Ada is", "O", "I-A", 0.75)],
        ([True, False], [0.5, 0.75]),
        "each answer",
        {
            "probabilities": [[[0.5, 0.0, 0.5], [0.0, 0.75, 0.25]]],
            "label": [[b"B-A", b"I-A"]],
            "score": [[0.5, 0.75]],
        },
    ),
    # Of the second score all answers are alike, so that it has no correlations; nor have the means.
    Told(
        ScoreHead([0.0, 0.0], [1.0, 1.0]),
        ["x", "y", "z"],
        [np.array([1.0, 0.0]), np.array([2.0, 1.0]), np.array([3.0, 2.0])],
        [[1.0, 1.0], [2.0, 1.0], [6.0, 1.0]],
        {
            "r_squared": (1 - 9 / 2 + 0) / 2,
            "mean_absolute_error": 5 / 6,
            "root_mean_squared_error": (11 / 6) ** 0.5,
            "pearson": np.nan,
            "spearman": np.nan,
            "r_squared_1": 1 - 9 / 2,
            "mean_absolute_error_1": 1.0,
            "root_mean_squared_error_1": 3**0.5,
            "pearson_1": 5 / (2 * 14) ** 0.5,
            "spearman_1": 1.0,
            "r_squared_2": 0.0,
            "mean_absolute_error_2": 2 / 3,
            "root_mean_squared_error_2": (2 / 3) ** 0.5,
            "pearson_2": np.nan,
            "spearman_2": np.nan,
        },
        [([3.0, 2.0], [6.0, 1.0], 2.0), ([1.0, 0.0], [1.0, 1.0], 0.5), ([2.0, 1.0], [2.0, 1.0], 0.0)],
        None,
        "",
        {"predictions": [[1.0, 1.0], [2.0, 1.0], [6.0, 1.0]]},
    ),
    Told(
        BoundedScoreHead([0.5], [0.25]),
        ["x", "y"],
        [np.array([0.0]), np.array([1.0])],
        [[0.25], [0.5]],
        {
            "r_squared": 1 - (1 / 16 + 1 / 4) / (1 / 2),
            "mean_absolute_error": 0.375,
            "root_mean_squared_error": (5 / 32) ** 0.5,
            "pearson": 1.0,
            "spearman": 1.0,
        },
        [(1.0, 0.5, 0.5), (0.0, 0.25, 0.25)],
        None,
        "",
        {"predictions": [[0.25], [0.5]]},
    ),
    # No number is exactly right, so that all rows are listed.
    Told(
        NumbersHead([0.0, 0.0], [1.0, 1.0]),
        [np.zeros((2, 1))] * 2,
        [np.array([3.0, 4.0]), np.array([1.0, 2.0])],
        [[3.0, 4.0], [1.0, 3.0]],
        {"mean_absolute_error": 0.25, "root_mean_squared_error": 0.5},
        [([1.0, 2.0], [1.0, 3.0], 0.5), ([3.0, 4.0], [3.0, 4.0], 0.0)],
        None,
        "",
        {"predictions": [[3.0, 4.0], [1.0, 3.0]]},
    ),
]
each_head = pytest.mark.parametrize("told", TOLD, ids=lambda told: type(told.head).__name__)


def outputs_of(told):
    return [np.float32(row) for row in told.outputs] if told.head.per_position else np.float32(told.outputs)


def evaluated(told):
    rows = LabelledRows(told.inputs, told.targets, "made up", range(len(told.targets)))
    outputs = outputs_of(told)
    return Evaluation(told.head, rows, outputs, report_of(told.head, told.targets, outputs))


def heads_of_the_library(base=Head):
    found = set()
    for kind in base.__subclasses__():
        found |= {kind} | heads_of_the_library(kind)
    return {kind for kind in found if kind.__module__.startswith("keras_selfattn.")}


def test_each_head_is_told_of_here():
    # Their outputs or targets are of other forms: `tests/metrics/test_vectors.py`, `test_text_answers.py`.
    elsewhere = {VectorHead, MaskedTokenHead, AnswerHead}
    assert heads_of_the_library() - {LabelHead} == {type(told.head) for told in TOLD} | elsewhere


@each_head
def test_a_head_has_its_report(told):
    assert evaluated(told).figures.summary() == pytest.approx(told.summary, nan_ok=True)


@each_head
def test_a_head_has_its_mistakes(told):
    rows = evaluated(told).rows
    found = mistakes_of(told.head, rows, outputs_of(told))
    cells = 1 + len(rows.kind.headings)
    assert [line[cells:] for line in found.rows] == told.mistakes
    assert {len(line) for line in found.rows} == {len(found.header)}
    assert found.header[-1] == ("error" if told.decisions is None else "probability")


@each_head
def test_a_head_has_its_decisions_and_a_section_of_them(told):
    found = evaluated(told)
    decisions = head_metrics(told.head).decisions(told.targets, found.outputs)
    section = reliability_section(found, "test", None)
    if told.decisions is None:
        assert decisions is section is found.reliability() is None
        return
    assert decisions is not None
    assert section is not None
    assert (decisions.right.tolist(), decisions.probability.tolist()) == told.decisions
    assert section.blocks[0].startswith(f"The probability of {told.decided} beside")


@each_head
def test_a_head_has_its_answers_in_the_graph(told):
    answers = raw_answers(told.head)
    assert answers.task == told.head.task
    found = answers.named(tf.constant(np.float32(told.outputs)))
    assert {name: value.numpy().tolist() for name, value in found.items()} == told.answers


@pytest.mark.parametrize("told", TOLD[:3], ids=lambda told: type(told.head).__name__)
def test_the_model_and_its_graph_name_the_same_labels(told):
    by_name = told.answers.get("labels", told.answers["label"])
    wanted = [[name.decode() for name in row if name] for row in np.atleast_2d(np.array(by_name, "O"))]
    found = told.head.answered(outputs_of(told))
    assert (found if isinstance(found[0], list) else [found]) == wanted


def test_vectors_have_answers():
    assert raw_answers(VectorHead()).named(tf.constant([[1.0, 2.0]]))["embedding"].numpy().tolist() == [
        [1.0, 2.0]
    ]


class Derived(MultiLabelHead):
    """A head of somebody else, which changes nothing that reports or graphs ask."""


class New(MaskedTokenHead):
    """A head that nothing was registered for."""


def test_a_derived_head_has_all_of_its_base():
    told = TOLD[1]
    assert report_of(Derived(["a", "b"]), told.targets, outputs_of(told)).summary() == told.summary
    assert set(raw_answers(Derived(["a", "b"])).named(tf.constant(told.outputs))) == set(told.answers)


def test_an_unknown_head_is_an_error_that_names_the_place_of_what_it_lacks():
    lacks = r"keras_selfattn/metrics/, registered with `@head_metrics\.register\(New\)`"
    with pytest.raises(ConfigError, match=lacks):
        report_of(New(), [], [])
    with pytest.raises(ConfigError, match=lacks):
        mistakes_of(New(), LabelledRows([], [], "none"), [])
    lacks = r"export/signatures/answers\.py, registered with `@raw_answers\.register\(New\)`"
    with pytest.raises(ExportError, match=lacks):
        raw_answers(New())


def test_metrics_of_a_head_say_all_or_cannot_be_made():
    class Silent(HeadMetrics[ClassHead]):
        def report(self, targets, outputs, baselines):
            raise NotImplementedError

    with pytest.raises(TypeError, match="decisions.*mistakes|mistakes.*decisions"):
        Silent(ClassHead(["a", "b"]))


def test_each_report_has_its_own_content_of_the_page_and_a_new_one_says_that_it_has_none():
    titles = [
        {
            block.title
            for block in answers_section(evaluated(told).figures, "test").blocks
            if isinstance(block, Table)
        }
        for told in TOLD
    ]
    assert titles == [
        {"Most frequent mistakes", "All 2 classes"},
        {"All 2 classes"},
        {
            "All 1 classes",
            "Spans",
            "Overlapping spans by label",
            "Most frequent mistakes",
            "All 3 classes",
        },
        *[{"Figures of the scores; errors in their units"}] * 2,
        {"Errors, in the units of the targets"},
    ]

    class NewReport(Report):
        rows = 3

        def summary(self):
            return {}

        def tables(self):
            return {}

    section = answers_section(NewReport(), "test")
    assert section.title == "Answers on 3 test rows"
    assert section.blocks == ["The figures above are all that is measured for this kind of model."]

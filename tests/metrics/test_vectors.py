"""Figures of vectors: correlations as SciPy's, and places of documents as counted by hand and in loops."""

import numpy as np
import pytest
from scipy import stats

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.metrics import vectors
from keras_selfattn.metrics.head_metrics import head_metrics
from keras_selfattn.models.pretrained.vector_head import VectorHead
from keras_selfattn.rows.text_groups import TEXT_GROUPS, numbered

RANDOM = np.random.default_rng(0)


def report(groups, found):
    return head_metrics(VectorHead()).report(numbered(groups), found, {})


def on_circle(*degrees):
    return [[np.cos(np.radians(each)), np.sin(np.radians(each))] for each in degrees]


def test_correlations_are_those_of_scores_and_cosines():
    scores = RANDOM.integers(0, 6, 40).astype(float)
    found = RANDOM.standard_normal((40, 2, 5)).round(1)
    unit = found / np.linalg.norm(found, axis=-1, keepdims=True)
    cosines = (unit[:, 0] * unit[:, 1]).sum(axis=-1)
    figures = head_metrics(VectorHead()).report(scores.tolist(), found, {})
    assert figures.spearman == pytest.approx(stats.spearmanr(scores, cosines).statistic, abs=1e-12)
    assert figures.pearson == pytest.approx(stats.pearsonr(scores, cosines).statistic, abs=1e-12)
    assert figures.rows == 40


def test_places_counted_by_hand():
    """The query q is at 0°, p at 90°; documents at 10°, 20° and 80°, of which q has two."""
    groups = [("q", "at 20"), ("p", "at 80"), ("q", "at 80", "at 10")]
    found = np.zeros((3, 3, 2))
    found[0, :2], found[1, :2], found[2] = on_circle(0, 20), on_circle(90, 80), on_circle(0, 80, 10)
    placed = {(each.query, each.document): each.place for each in vectors.places(numbered(groups), found)}
    assert placed == {(0, 1): 2, (0, 3): 3, (2, 3): 1}
    figures = report(groups, found)
    assert figures.reciprocal_rank == pytest.approx((1 / 2 + 1) / 2)
    assert figures.recall == pytest.approx({1: (0 + 1) / 2, 5: 1, 10: 1})
    assert (figures.queries, figures.documents, figures.rows) == (2, 3, 3)
    assert list(figures.summary()) == [
        "mean_reciprocal_rank", "recall_at_1", "recall_at_5", "recall_at_10", "queries", "documents"
    ]  # fmt: skip


def test_alike_vectors_find_nothing_first():
    groups = [(f"q{n}", f"d{n}") for n in range(20)]
    figures = report(groups, np.ones((20, 2, 3)))
    assert figures.recall == {1: 0, 5: 0, 10: 0}
    assert figures.reciprocal_rank == pytest.approx(1 / 20)


def test_a_query_does_not_find_itself_unless_it_is_right():
    groups = [("a", "b"), ("b", "a"), ("c", "c")]
    at = dict(zip("abc", on_circle(0, 30, 90), strict=True))
    found = np.array([[at[text] for text in group] for group in groups])
    assert [each.place for each in vectors.places(numbered(groups), found)] == [1, 1, 1]


def test_many_queries_as_in_loops(monkeypatch):
    monkeypatch.setattr(vectors, "_QUERIES", 7)
    names = RANDOM.integers(0, 12, (30, 3))
    groups = [(f"q{q}", f"d{d}", None if n == 0 else f"d{n}") for q, d, n in names]
    of_text = {text: RANDOM.standard_normal(4) for group in groups for text in group if text}
    found = np.array([[of_text.get(text, np.zeros(4)) for text in group] for group in groups])
    right = {}
    for query, document, _ in groups:
        right.setdefault(query, set()).add(document)
    documents = sorted({text for group in groups for text in group[1:] if text})
    reciprocal, first_five = [], []
    for query, wanted in right.items():
        cosine = {
            text: of_text[query]
            @ of_text[text]
            / np.linalg.norm(of_text[query])
            / np.linalg.norm(of_text[text])
            for text in documents
        }
        ordered = sorted(documents, key=lambda text: -cosine[text])
        reciprocal.append(1 / (1 + min(map(ordered.index, wanted))))
        first_five.append(len(wanted & set(ordered[:5])) / len(wanted))
    figures = report(groups, found)
    assert figures.reciprocal_rank == pytest.approx(np.mean(reciprocal))
    assert figures.recall[5] == pytest.approx(np.mean(first_five))


def test_the_worst_rows():
    groups = [("q", "right", None), ("p", "late", "soon")]
    found = np.zeros((2, 3, 2))
    found[0, :2], found[1] = on_circle(0, 10), on_circle(90, 30, 80)
    rows = LabelledRows(groups, numbered(groups), "made up", kind=TEXT_GROUPS)
    lines = head_metrics(VectorHead()).mistakes(rows, found)
    assert lines == [("row 0", 0, "right", "right", 0.0), ("row 1", 1, "late", "soon", 1.0)]
    scored = LabelledRows([("a", "b"), ("c", "d")], [5.0, 1.0], "made up", kind=TEXT_GROUPS)
    lines = head_metrics(VectorHead()).mistakes(scored, np.array([on_circle(0, 60), on_circle(0, 0)]))
    assert [line[2:] for line in lines] == [(5.0, 0.5, 0.5), (1.0, 1.0, 0.5)]


def test_the_order_of_scores_chooses_the_epoch_and_equal_scores_say_that_they_cannot():
    metrics = head_metrics(VectorHead())
    assert metrics.chooses_epoch([1.0, 2.0]) == "spearman"
    assert metrics.chooses_epoch(numbered([("a", "b")])) == "mean_reciprocal_rank"
    with pytest.warns(UserWarning, match="All 2 validation scores are 3"):
        assert metrics.chooses_epoch([3.0, 3.0]) is None

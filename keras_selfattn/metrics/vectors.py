"""Figures of vectors of texts: cosines beside scores, and the places of the right documents among all.

Axes: B (rows), K (texts of a row), D (features), Q (queries), N (documents).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from keras_selfattn.data.labelled import LabelledRows
from keras_selfattn.metrics.correlations import pearson, ranks, spearman
from keras_selfattn.metrics.head_metrics import HeadMetrics, Line, head_metrics, short
from keras_selfattn.metrics.report import Columns, Report
from keras_selfattn.models.pretrained.vector_head import VectorHead
from keras_selfattn.rows.targets import SIMILARITY
from keras_selfattn.rows.text_groups import TextNumbers
from keras_selfattn.user_warnings import warn_user

RECALLED = (1, 5, 10)
"""The numbers of documents at which recall is measured."""
# Queries whose cosines with all documents are computed at once.
_QUERIES = 256


@dataclass(frozen=True)
class SimilarityReport(Report):
    """Correlations of cosines with scores.

    Args:
        spearman: correlation of the ranks of cosines and scores, ties having their mean rank; NaN if one of
            them is constant.
        pearson: correlation of cosines and scores.
        count: number of rows.
    """

    spearman: float
    pearson: float
    count: int

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.count

    def summary(self) -> dict[str, float]:
        return {"spearman": self.spearman, "pearson": self.pearson}

    def tables(self) -> dict[str, Columns]:
        return {}


@dataclass(frozen=True)
class SearchReport(Report):
    """The places of the right documents of queries, where all documents are ordered by their cosine.

    Args:
        reciprocal_rank: mean over the queries of 1 / place of the first right document.
        recall: mean share of a query's right documents among the first 1, 5 and 10.
        queries: number of different queries.
        documents: number of different documents, hard negatives included.
        count: number of rows.
    """

    reciprocal_rank: float
    recall: Mapping[int, float]
    queries: int
    documents: int
    count: int

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.count

    def summary(self) -> dict[str, float]:
        recalls = {f"recall_at_{count}": share for count, share in self.recall.items()}
        counts = {"queries": self.queries, "documents": self.documents}
        return {"mean_reciprocal_rank": self.reciprocal_rank, **recalls, **counts}

    def tables(self) -> dict[str, Columns]:
        return {}


class Found(NamedTuple):
    """The place of a right document for a query.

    Args:
        query: its number.
        document: its number.
        place: among all documents, counted from 1. Documents with the same cosine come before it.
        first: the number of the document that comes first.
    """

    query: int
    document: int
    place: int
    first: int


def similarity_report(scores: np.ndarray, cosines: np.ndarray) -> SimilarityReport:
    """Return the correlations of scores and cosines, float `[B]` each.

    Example:

        >>> similarity_report(np.array([1, 2, 5]), np.array([0.1, 0.2, 0.3])).spearman
        1.0
    """
    return SimilarityReport(spearman(scores, cosines), pearson(scores, cosines), len(scores))


def search_report(targets: Sequence[TextNumbers], found: Sequence[Found]) -> SearchReport:
    """Return the figures of a search.

    Args:
        targets: the numbers of the texts of each row.
        found: the places of the right documents, as `places` returns them.
    """
    by_query: dict[int, list[int]] = {}
    for each in found:
        by_query.setdefault(each.query, []).append(each.place)
    of_queries = [np.array(each) for each in by_query.values()]
    return SearchReport(
        float(np.mean([1 / each.min() for each in of_queries])),
        {count: float(np.mean([np.mean(each <= count) for each in of_queries])) for count in RECALLED},
        len(by_query),
        len({number for target in targets for number in target[1:] if number >= 0}),
        len(targets),
    )


def places(targets: Sequence[TextNumbers], vectors: np.ndarray) -> list[Found]:
    """Return the place of each right document of each query among all different documents.

    The documents are the second texts and the negatives of all rows. A query's right documents are the second
    texts of all rows that begin with it. A document that is the query's own text is left out, unless it is
    right.

    Args:
        targets: the numbers of the texts of each row.
        vectors: float `[B, K, D]`.

    Example:

        >>> vectors = np.array([[[1.0, 0.0], [1.0, 0.1]], [[0.0, 1.0], [1.0, 0.0]]])
        >>> [each.place for each in places([TextNumbers((0, 1)), TextNumbers((2, 3))], vectors)]
        [2, 2]
    """
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    where = {
        number: (row, place)
        for row, numbers in enumerate(targets)
        for place, number in enumerate(numbers)
        if number >= 0
    }
    right: dict[int, set[int]] = {}
    for query, document, *_ in targets:
        right.setdefault(query, set()).add(document)
    documents = sorted({number for numbers in targets for number in numbers[1:] if number >= 0})
    column = {number: place for place, number in enumerate(documents)}
    of_documents = np.stack([unit[where[number]] for number in documents])  # [N, D]
    queries, found = list(right), []
    for start in range(0, len(queries), _QUERIES):
        part = queries[start : start + _QUERIES]
        cosines = np.stack([unit[where[number]] for number in part]) @ of_documents.T  # [Q, N]
        for query, row in zip(part, cosines, strict=True):
            if query in column and query not in right[query]:
                row[column[query]] = -np.inf
            first = documents[int(np.argmax(row))]
            own = sorted(right[query], key=lambda number: -row[column[number]])
            others = np.delete(row, [column[number] for number in own])
            found += [
                Found(query, number, 1 + before + int(np.sum(others >= row[column[number]])), first)
                for before, number in enumerate(own)
            ]
    return found


@head_metrics.register(VectorHead)
class VectorMetrics(HeadMetrics[VectorHead]):
    """Of vectors of groups: cosines beside scores, or a search of the second texts by the first."""

    ranked_by = "error"

    def report(
        self, targets: Sequence[Any], outputs: Any, baselines: Mapping[str, np.ndarray]
    ) -> SimilarityReport | SearchReport:
        if SIMILARITY.is_score(targets[0]):
            return similarity_report(np.array(targets), cosines(outputs))
        return search_report(targets, places(targets, np.asarray(outputs)))

    def mistakes(self, rows: LabelledRows, outputs: Any) -> list[Line]:
        """Return all rows: scores with the cosine, by the difference of their ranks as a share of the rows.

        A search with the document that comes first, by the places before the right one.
        """
        if SIMILARITY.is_score(rows.targets[0]):
            scores, found = np.array(rows.targets), cosines(outputs)
            errors = np.abs(ranks(scores) - ranks(found)) / len(rows)
            each = enumerate(zip(scores.tolist(), found.tolist(), errors.tolist(), strict=True))
            return [(rows.place(row), row, short(score), short(c), error) for row, (score, c, error) in each]
        texts = {
            number: text
            for numbers, group in zip(rows.targets, rows.inputs, strict=True)
            for number, text in zip(numbers, group, strict=True)
        }
        by_pair = {(each.query, each.document): each for each in places(rows.targets, np.asarray(outputs))}
        placed = [by_pair[numbers[:2]] for numbers in rows.targets]
        return [
            (rows.place(row), row, texts[each.document], texts[each.first], float(each.place - 1))
            for row, each in enumerate(placed)
        ]

    def decisions(self, targets: Sequence[Any], outputs: Any) -> None:
        return None

    def chooses_epoch(self, targets: Sequence[Any]) -> str | None:
        # Their loss compares the rows of a batch alone, so its mean depends on which rows are together.
        if not SIMILARITY.is_score(targets[0]):
            return "mean_reciprocal_rank"
        if len(set(targets)) > 1:
            return "spearman"
        warn_user(
            f"All {len(targets)} validation scores are {targets[0]:g}: without an order among them, the loss "
            "chooses the epoch. Give validation rows whose scores differ."
        )
        return None


def cosines(vectors: Any) -> np.ndarray:
    """Return the cosine of the first two vectors of each row, float64 `[B]`, of `[B, K, D]`."""
    first, second = np.moveaxis(np.asarray(vectors, np.float64)[:, :2], 1, 0)
    lengths = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    return np.sum(first * second, axis=-1) / np.maximum(lengths, 1e-12)

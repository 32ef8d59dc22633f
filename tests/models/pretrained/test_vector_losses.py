"""Losses of vectors: beside those of sentence-transformers, whose values are recorded, and loops in NumPy."""

import keras
import numpy as np
import pytest
from pretrained_folders import belonging_in_loops

from keras_selfattn.models.pretrained.vector_losses import VectorLoss

# Five rows of three texts, seven features.
VECTORS = np.random.default_rng(0).standard_normal((5, 3, 7)).astype("float32")
SCORES, COSINES = [0.5, 4.0, 2.25, 0.5, 3.0], [0.5, -0.25, 1.0, 0.5, 0.0]
DIFFERENT = np.arange(15).reshape(5, 3)


def found(targets, vectors, **settings):
    return float(VectorLoss(**settings)(np.array(targets), vectors))


def column(scores):
    return np.array(scores, "float32")[:, None]


@pytest.mark.parametrize(
    ("targets", "vectors", "settings", "theirs"),
    [
        (column(SCORES), VECTORS[:, :2], {}, 18.5198612),  # CoSENTLoss of sentence-transformers 6.2
        (column(COSINES), VECTORS[:, :2], {"score_loss": "cosine"}, 0.4087822),  # CosineSimilarityLoss
        (DIFFERENT[:, :2], VECTORS[:, :2], {}, 10.4841223),  # MultipleNegativesRankingLoss
        (DIFFERENT, VECTORS, {}, 12.8376417),  # the same, of triplets
    ],
)
def test_losses_are_those_of_sentence_transformers(targets, vectors, settings, theirs):
    assert found(targets, vectors, **settings) == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize(
    "numbers",
    [
        [[10, 20, 30], [40, 20, 50], [11, 21, 31], [12, 22, 32], [13, 23, 33]],  # two have one document
        [[10, 20, 30], [10, 21, 31], [11, 22, 32], [12, 23, 33], [13, 24, 34]],  # one query has two
        [[10, 20, 30], [11, 21, 20], [12, 22, 11], [13, 23, 33], [14, 24, 34]],  # negatives that are no such
        [[10, 20, -1], [11, 21, 31], [12, 22, -1], [13, 23, 33], [14, 24, 34]],  # missing negatives
        [[10, 20, 30], [20, 10, 31], [12, 22, 32], [13, 13, 33], [14, 24, 34]],  # queries that are documents
    ],
)
def test_what_would_be_no_error_is_no_candidate(numbers):
    wanted = belonging_in_loops(numbers, VECTORS)
    assert found(numbers, VECTORS) == pytest.approx(wanted, rel=1e-5)
    assert wanted < belonging_in_loops(DIFFERENT.tolist(), VECTORS)


def test_the_order_of_scores_counts_and_not_their_range():
    ordered = found(column(SCORES), VECTORS[:, :2])
    assert found(column([10 * score - 7 for score in SCORES]), VECTORS[:, :2]) == pytest.approx(ordered)
    # Cosines 1, 0 in the order of the scores, and against it: log(1 + exp(-20)), log(1 + exp(20)).
    vectors = np.array([[[1, 0], [2, 0]], [[1, 0], [0, 3]]], "float32")
    assert found(column([5, 1]), vectors) == pytest.approx(0, abs=1e-6)
    assert found(column([1, 5]), vectors) == pytest.approx(20)
    assert found(column([3, 3]), vectors) == 0


def test_it_is_computed_in_float32_for_models_in_half_precision():
    half = VECTORS.astype("float16")
    assert found(DIFFERENT, half) == pytest.approx(found(DIFFERENT, half.astype("float32")), rel=1e-6)


def test_a_saved_loss_is_the_same():
    again = keras.losses.deserialize(keras.losses.serialize(VectorLoss("cosine")))
    assert isinstance(again, VectorLoss)
    assert again.score_loss == "cosine"

"""The labeller as an estimator: its score, and weights of rows and tokens."""

import pytest

from keras_selfattn import estimators
from keras_selfattn.errors import DataError

SMALL = {"width": 4, "num_layers": 1, "num_heads": 1, "epochs": 1, "batch_size": 256}


TOKENS, TAGS = [["a", "film"], ["the", "best", "film"]] * 6, [["D", "N"], ["D", "A", "N"]] * 6


pytestmark = pytest.mark.usefixtures("eager_steps")


def token_estimator(**parameters):
    return estimators.TokenClassifierEstimator(**{**SMALL, "settings": {"hash_buckets": 64}, **parameters})


@pytest.mark.usefixtures("idle_steps")
def test_the_score_of_tokens_is_a_share_of_tokens_weighted_by_row():
    estimator = token_estimator().fit(TOKENS, TAGS)
    estimator.model_.label = lambda rows: [["D"] * len(row) for row in rows]
    assert estimator.score(TOKENS, TAGS) == pytest.approx(2 / 5)
    assert estimator.score(TOKENS, TAGS, sample_weight=[1.0, 0.0] * 6) == pytest.approx(1 / 2)
    with pytest.raises(DataError, match="one label for each token"):
        estimator.score([["a"]], [["D", "N"]])

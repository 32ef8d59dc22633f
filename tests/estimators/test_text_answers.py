"""The estimator of texts from texts: answers as an array, and the share that is exactly right."""

import numpy as np
import pytest

from keras_selfattn.errors import DataError
from keras_selfattn.estimators import SequenceToSequenceEstimator

SETTINGS = {"tokens": "characters", "decoder_layers": 1, "max_new_tokens": 4}
SMALL = {"width": 8, "num_layers": 1, "num_heads": 2, "epochs": 1, "settings": SETTINGS}


@pytest.mark.slow
def test_answers_are_texts_and_the_score_counts_exact_ones():
    estimator = SequenceToSequenceEstimator(**SMALL)
    assert estimator.fit(["ab", "ba"] * 4, ["ba", "ab"] * 4) is estimator
    found = estimator.predict(["ab", "", "ba"])
    assert (found.shape, found.dtype, found[1]) == ((3,), object, "")
    right = [[found[0], "other"], "x", found[2]]
    assert estimator.score(["ab", "", "ba"], right) == pytest.approx(2 / 3)
    assert estimator.score(["ab", "", "ba"], right, [1, 2, 1]) == pytest.approx(1 / 2)
    again = SequenceToSequenceEstimator(**SMALL).fit(["ab", "ba"] * 4, ["ba", "ab"] * 4)
    assert again.history_ == estimator.history_
    assert np.isfinite(estimator.history_["loss"]).all()


def test_missing_answers_are_refused():
    with pytest.raises(ValueError, match="requires y"):
        SequenceToSequenceEstimator(**SMALL).fit(["ab"], None)
    with pytest.raises(DataError, match="Answer 1"):
        SequenceToSequenceEstimator(**SMALL).fit(["ab", "b"], ["a", None])

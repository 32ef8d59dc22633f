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


@pytest.mark.slow
def test_it_goes_on_from_a_model_that_was_trained(tmp_path):
    first = SequenceToSequenceEstimator(**SMALL).fit(["ab", "ba"] * 4, ["ba", "ab"] * 4)
    first.model_.save(tmp_path / "model.keras")
    settings = {"dropout": 0.0, "epochs": 1, "learning_rate": 1e-12, "settings": {"max_new_tokens": 4}}
    again = SequenceToSequenceEstimator(start=tmp_path / "model.keras", **settings)
    again.fit(["ab", "ba"] * 4, ["ba", "ab"] * 4)
    assert (again.model_.config.width, again.model_.config.tokens) == (8, "characters")
    for one, two in zip(first.model_.get_weights(), again.model_.get_weights(), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)

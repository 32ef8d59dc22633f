"""Ridge regressions in closed form, against scikit-learn's, fitted anew without each row."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from keras_selfattn.models.series import ridge
from keras_selfattn.models.series.ridge import fit_ridge

SHARES = (1.5, 0.5, 1.0)


def made_up(rows, features):
    random = np.random.default_rng(rows)
    found = random.normal(size=(rows, features)) * random.uniform(1, 9, features) + 3
    found[:, 2] = 4.0
    return found, random.normal(size=(rows, 2)) + 0.2 * found[:, :2]


def scaled(features, sizes, weights=None):
    """Returns features each of whose kinds has a variance of its share, a constant one left out."""
    mean = np.average(features, axis=0, weights=weights)
    deviation = np.sqrt(np.average((features - mean) ** 2, axis=0, weights=weights))
    return (features - mean) / np.where(deviation > 0, deviation, 1) * scaled_shares(sizes)


def scaled_shares(sizes):
    counted = [sizes[0] - 1, *sizes[1:]]
    return np.repeat([(share / count) ** 0.5 for share, count in zip(SHARES, counted, strict=True)], sizes)


@pytest.mark.parametrize(
    ("rows", "sizes"), [(12, (3, 2, 2)), (9, (6, 5, 4)), (7, (3, 2, 2)), (40, (3, 2, 2))]
)
def test_it_is_the_one_that_errs_least_on_rows_left_out(rows, sizes):
    features, targets = made_up(rows, sum(sizes))
    found = fit_ridge(features, targets, sizes, SHARES)
    ready, best = scaled(features, sizes), None
    for penalty in 10.0 ** np.arange(-4, 4.01, 0.5):
        without = np.stack(
            [
                Ridge(penalty).fit(ready[rest], targets[rest]).predict(ready[~rest])[0]
                for rest in ~np.eye(rows, dtype=bool)
            ]
        )
        error = ((without - targets) ** 2).mean()
        if best is None or error < best[0]:
            best = (error, without, Ridge(penalty).fit(ready, targets))
    np.testing.assert_allclose(found.left_out, best[1], atol=1e-6)
    np.testing.assert_allclose(
        features @ found.coefficients + found.intercept, best[2].predict(ready), atol=1e-6
    )


def test_neighbours_are_left_out_together_where_they_are_alike():
    features, targets = (np.repeat(each, 3, axis=0) for each in made_up(10, 15))
    # Alone, a row is answered by its two doubles.
    assert np.abs(fit_ridge(features, targets).left_out - targets).max() < 0.1
    found = fit_ridge(features, targets, (6, 5, 4), SHARES, blocks=10)
    scale = np.where(features.std(axis=0) > 0, features.std(axis=0), 1) / scaled_shares((6, 5, 4))
    best = None
    for penalty in 10.0 ** np.arange(-4, 4.01, 0.5):
        without = np.zeros_like(targets)
        for held in np.arange(30).reshape(10, 3):
            rest = np.setdiff1d(np.arange(30), held)
            without[held] = (
                Ridge(penalty).fit((features / scale)[rest], targets[rest]).predict((features / scale)[held])
            )
        error = ((without - targets) ** 2).mean()
        if best is None or error < best[0]:
            best = (error, without, Ridge(penalty).fit(features / scale, targets))
    np.testing.assert_allclose(found.left_out, best[1], atol=1e-6)
    answers = features @ found.coefficients + found.intercept
    np.testing.assert_allclose(answers, best[2].predict(features / scale), atol=1e-6)


def test_weights_count_as_rows_given_so_often(monkeypatch):
    monkeypatch.setattr(ridge, "PENALTIES", (0.3,))
    features, targets = made_up(9, 7)
    weights = np.array([1, 2, 3, 1, 1, 2, 1, 1, 3])
    found = fit_ridge(features, targets, (3, 2, 2), SHARES, weights)
    ready = scaled(features, (3, 2, 2), weights)
    relative = weights / weights.mean()
    wanted = Ridge(0.3).fit(ready, targets, sample_weight=relative)
    answers = features @ found.coefficients + found.intercept
    np.testing.assert_allclose(answers, wanted.predict(ready), atol=1e-6)
    rest = np.arange(9) != 2
    without = Ridge(0.3).fit(ready[rest], targets[rest], sample_weight=relative[rest]).predict(ready[2:3])
    np.testing.assert_allclose(found.left_out[2:3], without, atol=1e-6)


def test_constant_features_and_one_row_answer_the_mean():
    found = fit_ridge(np.ones((4, 3)), np.arange(4.0)[:, None])
    assert found.coefficients.tolist() == [[0.0]] * 3
    assert found.intercept.tolist() == [1.5]
    np.testing.assert_allclose(found.left_out[:, 0], [2, 5 / 3, 4 / 3, 1])
    alone = fit_ridge(np.ones((1, 2)), np.array([[7.0]]))
    assert (alone.coefficients == 0).all()
    assert alone.intercept.tolist() == [7.0]


def test_products_of_the_kinds_tell_the_same_left_out_rows_as_their_features():
    features, targets = made_up(9, 15)
    weights = np.array([1, 2, 3, 1, 1, 2, 1, 1, 3.0])
    products = ridge.kind_products(features, (6, 5, 4), weights)
    for shares in (SHARES, (0.0, 1.0, 0.2)):
        wanted = fit_ridge(features, targets, (6, 5, 4), shares, weights).left_out
        np.testing.assert_allclose(ridge.left_out(products, shares, targets, weights), wanted, atol=1e-6)

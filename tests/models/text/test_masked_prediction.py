"""Hidden tokens: which are hidden and how, their loss, and their places in a batch."""

import math

import numpy as np
import pytest

from keras_selfattn.models.text.masked_prediction import MaskedBatches, Masking, hide

MASK_ID = 99


MASKING = Masking(MASK_ID)


def rows_of(random, lengths):
    return [random.integers(1, 50, size=length).astype(np.int32) for length in lengths]


def test_a_share_of_each_rows_known_tokens_is_hidden_and_no_other_is_touched():
    random = np.random.default_rng(0)
    rows = rows_of(random, [1, 2, 7, 20, 53, 211, 0, 400])
    found = hide(rows, MASKING, random)
    for row, seen, places, ids in zip(rows, *found, strict=True):
        known = int((row > 1).sum())
        assert len(places) == (max(1, round(0.15 * known)) if known else 0)
        assert (np.diff(places) > 0).all()
        assert (row[places] > 1).all()
        np.testing.assert_array_equal(ids, row[places])
        others = np.delete(np.arange(len(row)), places)
        np.testing.assert_array_equal(seen[others], row[others])
        assert set(seen[places].tolist()) <= {MASK_ID, *np.concatenate(rows).tolist()}


def test_of_a_thousand_hidden_tokens_800_are_masked_100_swapped_and_100_left():
    """Every token differs from every other, so that a swapped one shows."""
    rows = np.split(np.arange(2, 2 + 6680, dtype=np.int32), 167)
    seen, places, ids = hide(rows, Masking(9999), np.random.default_rng(3))
    at = np.concatenate([row[chosen] for row, chosen in zip(seen, places, strict=True)])
    ids = np.concatenate(ids)
    assert len(ids) == 6 * 167  # 15 % of 40 tokens are 6
    assert int((at == 9999).sum()) == math.ceil(0.8 * len(ids))
    assert int((at == ids).sum()) == pytest.approx(0.1 * len(ids), abs=1)
    swapped = at[(at != ids) & (at != 9999)]
    assert len(swapped) == pytest.approx(0.1 * len(ids), abs=1)
    assert ((swapped >= 2) & (swapped < 6682)).all()


def test_the_draws_are_the_seeds():
    rows = rows_of(np.random.default_rng(1), [30, 40])
    one, same, other = (hide(rows, MASKING, np.random.default_rng(seed)) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one.places[0], same.places[0])
    np.testing.assert_array_equal(one.rows[1], same.rows[1])
    assert one.places[0].tolist() != other.places[0].tolist()


def test_rows_without_a_known_token_hide_nothing():
    found = hide([np.ones(5, np.int32), np.zeros(0, np.int32)], MASKING, np.random.default_rng(0))
    assert [len(each) for each in found.places] == [0, 0]
    assert [row.tolist() for row in found.rows] == [[1] * 5, []]


def test_a_mask_hides_all_features_of_a_token_and_a_swap_moves_them_together():
    ids = np.arange(2, 402, dtype=np.int32)
    rows = [np.stack([ids, ids + 1000, ids + 2000], axis=1)]
    seen, places, targets = hide(rows, Masking(MASK_ID + 1000), np.random.default_rng(0))
    at = seen[0][places[0]]
    masked = at[:, 0] == MASK_ID + 1000
    assert masked.sum() == 48
    assert (at[masked, 1:] == 0).all()
    np.testing.assert_array_equal(at[~masked] - at[~masked, :1], [[0, 1000, 2000]] * 12)
    np.testing.assert_array_equal(targets[0], ids[places[0]])


def test_places_of_a_batch_point_at_the_hidden_tokens_of_its_padded_rows():
    rows = rows_of(np.random.default_rng(2), [3, 11, 5, 17, 8])
    batches = MaskedBatches(rows, MASKING, batch_size=2, shuffle=True, seed=4)
    drawn = []
    for _ in range(2):
        for (places, seen), ids in batches:
            at = seen.reshape(-1)[places]
            assert ((at == MASK_ID) | (at > 1)).all()  # never padding, which is 0
            assert len(places) == len(ids)
            drawn.append(ids.tolist())
    assert drawn[:3] != drawn[3:]


def test_what_is_hidden_stays_hidden_where_it_is_given():
    rows = rows_of(np.random.default_rng(2), [3, 11, 5])
    hidden = hide(rows, MASKING, np.random.default_rng(0))
    batches = MaskedBatches(rows, MASKING, hidden, batch_size=2)
    first, second = ([(places.tolist(), seen.tolist()) for (places, seen), _ in batches] for _ in range(2))
    assert first == second
    (places, seen), ids = next(iter(batches))
    assert seen.shape == (2, 5)
    wanted = [*hidden.places[0], *(5 + hidden.places[2])]
    assert places.tolist() == wanted
    assert ids.tolist() == [*hidden.ids[0], *hidden.ids[2]]


# Of what stands around the steps: these are tested elsewhere, traced.
pytestmark = pytest.mark.usefixtures("eager_steps")


def test_other_ids_than_those_of_the_rows_stand_in_only_where_they_are_given():
    rows = [np.arange(2, 402, dtype=np.int32)]
    seen, places, ids = hide(rows, Masking(999, (0, 1), np.array([777], np.int32)), np.random.default_rng(0))
    at = seen[0][places[0]]
    assert (at == 999).sum() == 48
    assert (at == 777).sum() == 6
    assert (at == ids[0]).sum() == 6

"""The check of an export: which answers are wrong, and which may differ at a tie."""

import numpy as np
import pytest

from keras_selfattn.export import (
    check,
)


def checked_case(run, outputs):
    """Return why `check.py` refuses the answers of `run`, a function of the number of answers before."""
    asked = []

    def counted(*_):
        asked.append(None)
        return run(len(asked) - 1)

    case = {"signature": "s", "inputs": {}, "outputs": outputs, "tolerance": 1e-5}
    return check.wrong(case, counted, counted)


_RIGHT = {"score": np.float32([0.5, 0.7]), "label": np.array([b"a", b"b"])}


def changed(**outputs):
    return {**_RIGHT, **{name: np.array(value) for name, value in outputs.items()}}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (changed(score=[0.5, 0.7 + 6e-8]), None),
        (changed(score=[0.5, 0.701]), "score differs from the model's by 0.001 (allowed: 1e-05)"),
        (changed(score=[0.5, np.nan]), "score differs from the model's by nan (allowed: 1e-05)"),
        (changed(score=[0.5, np.inf]), "score differs from the model's by inf (allowed: 1e-05)"),
        (changed(label=[b"a", b"c"]), "label differs from the model's"),
        (changed(score=[0.5]), "score has shape (1,) instead of (2,)"),
        (changed(more=[1]), "the outputs are ['label', 'more', 'score'] instead of ['label', 'score']"),
    ],
)
def test_a_wrong_answer_is_named(answer, reason):
    assert checked_case(lambda _: answer, _RIGHT) == reason


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (changed(score=[0.5, 0.701]), "score changed by 0.001 (allowed: 1e-05) between two runs"),
        (changed(label=[b"a", b"c"]), "label changed between two runs"),
    ],
)
def test_an_answer_that_is_other_in_each_second_run_is_refused(odd, reason):
    assert checked_case(lambda n: odd if n % 2 else _RIGHT, _RIGHT) == reason


def test_a_few_numbers_of_each_run_may_be_odd_and_no_more():
    """On a busy machine some rows were off in each run, others in the next; dropout changes all of them."""
    random, outputs = np.random.default_rng(0), {"score": np.full((24, 6), 0.5, "float32")}

    def off(share):
        rows = random.uniform(size=(24, 1)) < share
        return {"score": np.where(rows, 0.5 + random.uniform(1e-5, 1e-3, (24, 6)), 0.5).astype("float32")}

    assert checked_case(lambda _: off(0.05), outputs) is None
    assert "between two runs" in checked_case(lambda _: off(1), outputs)


@pytest.mark.parametrize(("second", "reason"), [(0.5, None), (0.4, "label differs from the model's")])
def test_a_label_may_differ_where_two_are_equally_probable(second, reason):
    outputs = {"label": np.array([b"a"]), "probabilities": np.float32([[0.5, second]])}
    assert checked_case(lambda _: {**outputs, "label": np.array([b"b"])}, outputs) == reason


def test_a_label_drawn_at_random_is_refused():
    random, outputs = np.random.default_rng(0), {"label": np.array([b"a"] * 24)}
    drawn = lambda _: {"label": random.choice(np.array([b"a", b"b"]), 24)}  # noqa: E731
    assert checked_case(drawn, outputs) == "label changed between two runs"

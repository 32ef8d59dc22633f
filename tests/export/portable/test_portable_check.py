"""NaN and infinity are right where the model has them, and only there."""

import numpy as np
import pytest

from keras_selfattn.export import (
    check,
)
from keras_selfattn.export.portable import portable_check


def checked_case(run, outputs):
    """Return why `check.py` refuses the answers of `run`, a function of the number of answers before."""
    asked = []

    def counted(*_):
        asked.append(None)
        return run(len(asked) - 1)

    case = {"signature": "s", "inputs": {}, "outputs": outputs, "tolerance": 1e-5}
    return check.wrong(case, counted, counted)


_NO_NUMBERS = np.float32([np.nan, np.inf, -np.inf, 1.0])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([np.nan, np.inf, -np.inf, 1.0], None),
        ([0.0, np.inf, -np.inf, 1.0], "nan"),
        ([np.nan, -np.inf, -np.inf, 1.0], "nan"),
        ([np.nan, np.inf, 3e38, 1.0], "nan"),
        ([np.nan, np.nan, -np.inf, 1.0], "nan"),
        ([np.nan, np.inf, -np.inf, np.nan], "nan"),
        ([np.nan, np.inf, -np.inf, np.inf], "inf"),
        ([np.nan, np.inf, -np.inf, 1.5], "0.5"),
    ],
)
def test_nan_and_infinity_are_right_where_the_model_has_them_and_only_there(answer, said):
    """In a SavedModel and in a portable file. A distance of NaN is no match."""
    found, wanted = np.float32(answer), {"score": _NO_NUMBERS}
    for allowed, reason in (
        ("1e-05", checked_case(lambda _: {"score": found}, wanted)),
        ("1e-05", portable_check._difference(wanted, {"score": found}, 1e-5)),
    ):
        assert reason == (said and f"score differs from the model's by {said} (allowed: {allowed})")

"""The readout of long rows, a few at a time."""

import numpy as np
import pytest

from keras_selfattn import models
from keras_selfattn.models.series import wide_readout

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2, "max_positions": 4, "kernels": 40}


def bumps(rows, seed=0):
    random = np.random.default_rng(seed)
    names = ["early", "late"] * (rows // 2)
    series = []
    for name in names:
        time = np.linspace(0, 1, int(random.integers(15, 30)))
        middle = 0.3 if name == "early" else 0.7
        line = np.exp(-((time - middle) ** 2) / 0.01) + 0.1 * random.normal(size=len(time))
        series.append(line[:, None].astype("float32"))
    return series, names


@pytest.mark.slow
def test_long_rows_are_read_a_few_at_a_time():
    series, names = bumps(8)
    rows = [np.tile(row, (600, 1)) for row in series]
    targets = np.array([[name == "early", name == "late"] for name in names], dtype=float)
    model = models.SeriesClassifier(SMALL)
    model.adapt(rows, names)
    sizes = []
    wide = model.core.get_layer("wide")
    asked = wide.call
    wide.call = lambda inputs, **given: sizes.append(inputs.shape) or asked(inputs, **given)
    wide_readout.fit_wide(model.core, rows, targets, exclusive=True)
    assert sum(size[0] for size in sizes) == 8
    assert all(rows * frames < 100_000 for rows, frames, _ in sizes)
    assert max(rows for rows, _, _ in sizes) > 1

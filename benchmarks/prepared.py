"""A prepared contestant, as its worker measures it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.case import Array


@dataclass(frozen=True)
class Prepared:
    """A contestant, built, with weights and inputs in place.

    Args:
        run: one measured call; returns when its work is done.
        warm: a call of the same graph on a tiny input, so that a first `run` allocates only what it needs.
        outputs: outputs of the case at the real tokens, `[tokens, features]`; None = not to be compared.
        slope: for training, the derivative of the small case's loss along its direction, without dropout.
        figures: numbers beside the times, such as the share that a dropout drops.
        form: the name of this form, if the contestant has several.
    """

    run: Callable[[], Any]
    warm: Callable[[], Any]
    outputs: Callable[[], Array] | None = None
    slope: Callable[[], float] | None = None
    figures: Callable[[], dict[str, float]] = dict
    form: str = ""


def differences(prepared: Prepared, fields: dict[str, Any]) -> dict[str, float]:
    """Return the differences of outputs (largest) and gradient (relative) from the reference's.

    Args:
        prepared: the contestant.
        fields: the fields of its case; without a `reference` there is nothing to compare with.
    """
    found: dict[str, float] = {}
    if not fields.get("reference") or prepared.outputs is None:
        return found
    with np.load(fields["reference"]) as wanted:
        found["difference"] = float(np.abs(prepared.outputs() - wanted["outputs"]).max())
        if prepared.slope is not None:
            found["gradient"] = float(abs(prepared.slope() / wanted["slope"] - 1))
    return found


def along(gradients: list[Array], direction: list[Array]) -> float:
    """Return the derivative along a direction, which has an array of the same shape for each gradient."""
    pairs = zip(gradients, direction, strict=True)
    return float(sum(np.sum(np.asarray(g, "float64") * d.reshape(np.shape(g))) for g, d in pairs))

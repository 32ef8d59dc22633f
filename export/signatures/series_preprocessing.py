"""The preprocessing for models of series: padded frames of numbers.

Axes: B (batch), T (frames), F (features of a frame), P (positions, each a window of frames).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_selfattn.models.batches.length_sorted import padded
from keras_selfattn.models.series.classifier import SeriesModel

from .model_signatures import Graphs, Signature
from .raw_front import RawFront, front_of
from .trial_requests import Request, in_batches

Tensor = Any

# Frames of the longest invented row.
_LONGEST = 64


@front_of(SeriesModel)
class SeriesFront(RawFront):
    """Series, float32 `[B, T, F]`: frames of NaN at the end are padding, other NaN are missing values."""

    padding = float("nan")

    def __init__(self, model: SeriesModel) -> None:
        super().__init__(model)
        frames = model.core.get_layer("frames")
        self._mean, self._deviation = np.asarray(frames.mean), np.asarray(frames.deviation)
        self._longest = min(model.longest or 1, _LONGEST)
        self._stride = model.stride
        self.specs = {"values": tf.TensorSpec([None, None, model.num_features], tf.float32, name="values")}
        self.tracked: list = []

    def __call__(self, *raw: Tensor) -> Tensor:
        return raw[0]

    def places(self, *raw: Tensor) -> dict[str, Tensor]:
        """Return the first frame of each position and the one after its last, int32 `[B, P, 2]`."""
        known = tf.reduce_any(tf.math.is_finite(raw[0]), axis=-1)  # [B, T]
        after = tf.range(1, tf.shape(known)[1] + 1)
        lengths = tf.reduce_max(tf.pad(tf.where(known, after, 0), [[0, 0], [1, 0]]), axis=1)  # [B]
        count = (tf.shape(known)[1] + self._stride - 1) // self._stride
        edges = tf.range(count)[:, None] * self._stride + [0, self._stride]  # [P, 2]
        return {"frames": tf.minimum(edges[None], lengths[:, None, None])}

    def more_signatures(
        self, graphs: Graphs, requests: Sequence[Request], *, real: bool
    ) -> dict[str, Signature]:
        """Return `explain`, with the frames of each position."""
        return {"explain": Signature(graphs.explain(together=True, places=self.places), requests)}

    def asked(self, row: Any) -> Request:
        """Return the request for a series `[T, F]`; null, as in JSON, is a missing value."""
        return {"values": np.asarray(row, np.float32).reshape(1, -1, len(self._mean))}

    def requests(self) -> list[Request]:
        random = np.random.default_rng(0)
        longest, features = self._longest, len(self._mean)
        lengths = [longest, 1, 0, longest // 2, *random.integers(1, longest + 1, 12), longest]
        rows = [
            (self._mean + self._deviation * random.normal(size=(length, features))).astype(np.float32)
            for length in lengths
        ]
        rows[3][::3] = np.nan
        requests = in_batches({"values": padded(rows)})
        short = {"values": rows[0][None, :1]}
        return [*requests, short, {"values": np.zeros((2, 0, features), np.float32)}]

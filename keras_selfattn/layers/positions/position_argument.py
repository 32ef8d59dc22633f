"""The argument `position` of the layers: a strategy, its name, or its serialized form."""

import inspect
from typing import Any

import keras

from keras_selfattn.layers.positions.disentangled import DisentangledPositions
from keras_selfattn.layers.positions.relative import BucketedBias, LinearBias, RelativePositions
from keras_selfattn.layers.positions.rotary import RotaryPositions
from keras_selfattn.layers.positions.strategy import PositionStrategy

# As in the papers and the libraries that have them.
_NAMED: dict[str, type[PositionStrategy]] = {
    "rotary": RotaryPositions,
    "alibi": LinearBias,
    "t5": BucketedBias,
    "shaw": RelativePositions,
    "disentangled": DisentangledPositions,
}


def checked_strategy(position: Any) -> PositionStrategy | None:
    """Return the strategy that `position` is, names or was serialized from, or raise ValueError."""
    if isinstance(position, str) and position in _NAMED:
        return _NAMED[position]()
    if isinstance(position, dict):
        position = keras.saving.deserialize_keras_object(position)
    if position is None:
        return None
    if isinstance(position, PositionStrategy):
        kind = type(position)
        if inspect.signature(kind).parameters and kind.get_config is PositionStrategy.get_config:
            raise ValueError(
                f"{kind.__name__} takes arguments and must override `get_config` to return them, or a saved "
                f"model would load without them. Received {position!r}."
            )
        return position
    *strategies, last = (f"{kind.__name__}()" for kind in _NAMED.values())
    raise ValueError(
        f"`position` must be a PositionStrategy such as {', '.join(strategies)} or {last}, or one of "
        f"{', '.join(map(repr, _NAMED))}, or None. Received {position!r}."
    )

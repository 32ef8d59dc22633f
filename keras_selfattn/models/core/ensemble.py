"""Several encoders whose outputs are averaged.

Axes: B (batch), T (positions), D (features), C (classes).
"""

from collections.abc import Callable
from typing import Any

import keras

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_selfattn")
class Averaged(keras.layers.Layer):
    """The mean of the logits of several encoders, or of their log-probabilities.

    Args:
        exclusive: True if the classes exclude each other: each encoder's logits are then normalised first.

    Call arguments:
        inputs: list with the logits of each encoder, float `[..., classes]`.

    Returns:
        float32 `[..., classes]`.

    Example:

        >>> import numpy as np
        >>> np.asarray(Averaged(exclusive=False)([np.array([[1.0]]), np.array([[3.0]])])).tolist()
        [[2.0]]

    Reference: Lakshminarayanan et al. 2017, "Simple and Scalable Predictive Uncertainty Estimation using Deep
    Ensembles", section 2.4; Hansen & Salamon 1990, "Neural Network Ensembles".
    """

    def __init__(self, exclusive: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.exclusive = exclusive
        self.supports_masking = True

    def call(self, inputs: list[Tensor]) -> Tensor:
        each = [keras.ops.cast(logits, "float32") for logits in inputs]
        if self.exclusive:
            each = [keras.ops.log_softmax(logits) for logits in each]
        return sum(each[1:], each[0]) / len(each)

    def compute_mask(self, inputs: list[Tensor], mask: list[Tensor] | None = None) -> Tensor | None:
        return None if mask is None else mask[0]

    def compute_output_shape(self, input_shape: list[tuple]) -> tuple:
        return input_shape[0]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "exclusive": self.exclusive}


def member_outputs(build: Callable[[], keras.Model], members: int) -> tuple[Tensor, Tensor | list[Tensor]]:
    """Return the encoders' common input, and the output of a single encoder or the list of all outputs.

    The first encoder's layers are the core's own. Each other encoder is a submodel: "member_2", "member_3", …

    Args:
        build: returns a new encoder.
        members: the number of encoders.
    """
    first = build()
    others = [build() for _ in range(1, members)]
    named = [keras.Model(each.input, each.output, name=_name(n)) for n, each in enumerate(others, start=1)]
    found = [first.output, *(each(first.input) for each in named)]
    return first.input, found if members > 1 else found[0]


def logits_of(
    x: Tensor | list[Tensor], classes: int, *, exclusive: bool, kernel: str = "glorot_uniform"
) -> Tensor:
    """Return the logits of features, `[..., D]` to `[..., C]`; for several encoders their average.

    Args:
        x: the features; for several encoders a list.
        classes: C.
        exclusive: True if the classes exclude each other.
        kernel: the initializer of the kernel.
    """
    several = x if isinstance(x, list) else [x]
    found = [
        keras.layers.Dense(classes, kernel_initializer=kernel, dtype="float32", name=_logits(place))(each)
        for place, each in enumerate(several)
    ]
    return Averaged(exclusive, dtype="float32", name="averaged")(found) if len(found) > 1 else found[0]


def copy_member(source: keras.Model, target: keras.Model, place: int) -> None:
    """Copy the weights of a core's only encoder, and of its logits, to one of the encoders of another core.

    Args:
        source: with one encoder.
        target: with several of the same kind.
        place: of the encoder in `target`, from 0 on.
    """
    member = target if place == 0 else target.get_layer(_name(place))
    known = {layer.name for layer in member.layers}
    for layer in source.layers:
        if layer.name == _logits(0):
            target.get_layer(_logits(place)).set_weights(layer.get_weights())
        elif layer.name in known:
            member.get_layer(layer.name).set_weights(layer.get_weights())


def _name(place: int) -> str:
    return f"member_{place + 1}"


def _logits(place: int) -> str:
    return f"logits_{place + 1}" if place else "logits"

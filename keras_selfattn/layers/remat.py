"""Computing a block again for its gradient, with the same dropout and the same penalties.

Reference: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost".

Axes: N (tokens), D (features).
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from keras_selfattn.layers.attention_paths import Tokens
from keras_selfattn.layers.seeds import SeedDraws
from keras_selfattn.layers.tensorflow.custom_gradients import rematerialised

Tensor = Any


def rematerialise(
    function: Callable[[Tensor], list[Tensor]], inputs: Tensor, seeds: list[SeedDraws]
) -> list[Tensor]:
    """Return `function(inputs)`; its intermediate results are not kept, but computed again for the gradient.

    `keras.remat` alone would draw new dropout in the second run, and the gradient would be that of another
    function.

    Args:
        function: from one tensor to several.
        inputs: its argument; gradients flow to it and to the variables that `function` uses.
        seeds: the generators from which `function` draws random numbers, each once.
    """
    draws = [generator.next() for generator in seeds]

    def repeatable(x: Tensor) -> list[Tensor]:
        with ExitStack() as held:
            for generator, draw in zip(seeds, draws, strict=True):
                held.enter_context(generator.holding(draw))
            return function(x)

    return rematerialised(repeatable)(inputs)


def outputs_and_losses(
    forward: Callable[[Tensor], tuple[Tensor, Any]], x: Tensor, tokens: Tokens
) -> list[Tensor]:
    """Return the outputs `forward(x)[0]` and the losses that it gives `tokens`, which keep those they had."""
    before, tokens.losses = tokens.losses, []
    try:
        return [forward(x)[0], *tokens.losses]
    finally:
        tokens.losses = before

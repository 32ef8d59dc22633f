"""Rematerialisation: a training step keeps a function's input and runs the function again for its gradient.

Reference: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", section 4.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import keras

from keras_selfattn.layers.seeds import SeedDraws

Tensor = Any


def rematerialise(function: Callable[[Tensor], Tensor], inputs: Tensor, seeds: list[SeedDraws]) -> Tensor:
    """Return `function(inputs)`, whose intermediate results are not kept but made again for the gradient.

    `keras.remat` alone would draw new dropout in the second run, and its gradient would be another
    function's.

    Args:
        function: of one tensor.
        inputs: its argument; gradients flow to it and to the variables that `function` uses.
        seeds: what `function` draws random numbers from, each once.
    """
    draws = [generator.next() for generator in seeds]

    def repeatable(x: Tensor) -> Tensor:
        with ExitStack() as held:
            for generator, draw in zip(seeds, draws, strict=True):
                held.enter_context(generator.holding(draw))
            return function(x)

    return keras.remat(repeatable)(inputs)

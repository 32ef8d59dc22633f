"""Computing a block or a layer again for its gradient, with the same dropout and the same penalties.

A block does so if its `remat` says so, and what is made within `keras.RematScope` as the scope says.

Reference: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost".

Axes: N (tokens), D (features).
"""

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from typing import Any

import keras

from keras_selfattn.layers.seeds import SeedDraws
from keras_selfattn.layers.tensorflow.custom_gradients import rematerialised

Tensor = Any

_collected: ContextVar[list[Tensor] | None] = ContextVar("losses of a call that is repeated", default=None)


def rematerialise(
    function: Callable[..., list[Tensor]], inputs: Sequence[Tensor], seeds: list[SeedDraws]
) -> list[Tensor]:
    """Return `function(*inputs)`; its intermediate results are not kept, but computed again for the gradient.

    `keras.remat` alone would draw new dropout in the second run, and the gradient would be that of another
    function.

    Args:
        function: from float tensors to several.
        inputs: its arguments; gradients flow to them and to the variables that `function` uses.
        seeds: the generators from which `function` draws random numbers, each once.
    """
    draws = [generator.next() for generator in seeds]

    def repeatable(*x: Tensor) -> list[Tensor]:
        with ExitStack() as held:
            for generator, draw in zip(seeds, draws, strict=True):
                held.enter_context(generator.holding(draw))
            return function(*x)

    return rematerialised(repeatable)(*inputs)


def outputs_and_losses(
    forward: Callable[..., tuple[Tensor, Any]], x: Sequence[Tensor], tokens: Any
) -> list[Tensor]:
    """Return the outputs `forward(*x)[0]`, and the losses it gives `tokens`; these keep those they had."""
    before, tokens.losses = tokens.losses, []
    try:
        return [forward(*x)[0], *tokens.losses]
    finally:
        tokens.losses = before


def call_in_scope(
    layer: Any, of_keras: Callable[..., Callable], layer_call: Callable, *args: Any, **kwargs: Any
) -> Callable:
    """Return `layer_call`, or what computes it again for the gradient, as the scope of the layer says.

    Keras' own way makes tensors of all arguments on JAX, `training` too, and draws new dropout. Here the
    arguments of the repeated function are tensors of floats alone, and its draws are held.

    Args:
        layer: it calls this in its `rematerialized_call`, and gives losses to `add_losses`.
        of_keras: Keras' own `rematerialized_call`, for scopes that choose activations alone.
        layer_call: the layer's `call`.
        args: of the call.
        kwargs: of the call.
    """
    if not is_chosen(layer, lambda: layer.compute_output_spec(*args, **kwargs)):
        return of_keras(layer_call, *args, **kwargs) if _of_activations(layer) else layer_call

    def repeated(*args: Any, **options: Any) -> Any:
        template: Any = None
        given = keras.tree.flatten((args, options))
        moving = [place for place, value in enumerate(given) if _is_float_tensor(value)]

        def outputs(*moved: Tensor) -> list[Tensor]:
            nonlocal template
            again = dict(enumerate(given)) | dict(zip(moving, moved, strict=True))
            args_again, options_again = keras.tree.pack_sequence_as((args, options), list(again.values()))
            token = _collected.set([])
            try:
                template = layer_call(*args_again, **options_again)
                return [*keras.tree.flatten(template), *(_collected.get() or [])]
            finally:
                _collected.reset(token)

        # In inference nothing is drawn.
        draws = _draws(layer) if options.get("training") else []
        found = rematerialise(outputs, [given[place] for place in moving], draws)
        count = len(keras.tree.flatten(template))
        add_losses(layer, found[count:])
        return keras.tree.pack_sequence_as(template, found[:count])

    return repeated


def add_losses(layer: keras.layers.Layer, losses: list[Tensor]) -> None:
    """Add losses of a call; within one that is repeated they become outputs, and are added outside."""
    collected = _collected.get()
    if collected is None:
        layer.add_loss(losses)
    else:
        collected.extend(losses)


class NoRemat(keras.layers.Layer):
    """Base of parts that compute nothing again by themselves, but their activation: the whole layer does."""

    def rematerialized_call(self, layer_call: Callable, *args: Any, **kwargs: Any) -> Callable:
        """Return `layer_call`; Keras calls it."""
        return call_of_part(self, super().rematerialized_call, layer_call, *args, **kwargs)


def call_of_part(
    layer: Any, of_keras: Callable[..., Callable], layer_call: Callable, *args: Any, **kwargs: Any
) -> Callable:
    """Return the `layer_call` of a part that computes nothing again by itself, but its activation."""
    return of_keras(layer_call, *args, **kwargs) if _of_activations(layer) else layer_call


def is_chosen(layer: Any, spec: Callable[[], Any], also: tuple[str, ...] = ()) -> bool:
    """Return True if the scope that a layer was made in says to compute all of it again.

    Args:
        layer: any layer.
        spec: returns the outputs, or tensors of their shapes.
        also: names of the layers around it, whose choice is this one's, too.
    """
    scope = layer._remat_mode
    if scope is None or scope.mode not in ("full", "larger_than", "list_of_layers"):
        return False
    if scope.mode == "list_of_layers":
        return not {layer.name, *also}.isdisjoint(scope.layer_names)
    if scope.mode == "full":
        return True
    sizes = [math.prod(size or 1 for size in each.shape) for each in keras.tree.flatten(spec())]
    return sum(sizes) > scope.output_size_threshold


def _is_float_tensor(value: Any) -> bool:
    return keras.ops.is_tensor(value) and keras.backend.is_float_dtype(
        keras.backend.standardize_dtype(value.dtype)
    )


def _draws(layer: keras.layers.Layer) -> list[SeedDraws]:
    found = [seeds for each in layer._flatten_layers() for seeds in each._seed_generators]
    return [seeds for seeds in found if isinstance(seeds, SeedDraws)]


def _of_activations(layer: Any) -> bool:
    return layer._remat_mode is not None and layer._remat_mode.mode == "activations"

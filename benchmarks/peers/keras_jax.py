"""KerasHub's blocks, Keras' own and ours on Keras' JAX backend, under `jax.jit`.

KERAS_BACKEND=jax must be set. They run on JAX's default device.
"""

from typing import Any

from benchmarks.case import Case
from benchmarks.peers import keras_blocks
from benchmarks.prepared import Prepared, along


def ours(fields: dict[str, Any]) -> Prepared:
    """Build our blocks."""
    case = Case.from_json(fields)
    return _prepared(case, keras_blocks.ours(case))


def kerashub(fields: dict[str, Any]) -> Prepared:
    """Build KerasHub's."""
    case = Case.from_json(fields)
    return _prepared(case, keras_blocks.kerashub(case))


def own(fields: dict[str, Any]) -> Prepared:
    """Build blocks of Keras' own layers."""
    from benchmarks.peers import keras_own

    case = Case.from_json(fields)
    return _prepared(case, keras_own.own(case))


def _prepared(case: Case, stack: keras_blocks.Stack) -> Prepared:
    import jax  # pyright: ignore[reportMissingImports]
    import jax.numpy as jnp  # pyright: ignore[reportMissingImports]

    if case.precision:
        precise = case.precision if case.dtype == "float32" else None
        jax.config.update("jax_default_matmul_precision", precise)
    device = f"on {jax.devices()[0].device_kind}"
    weights = [variable.value for variable in stack.weights]
    infer = jax.jit(lambda values, x, mask: _forward(stack, values, x, mask, training=False)[0])
    x, mask = map(jnp.asarray, case.inputs())
    x = x.astype(case.dtype)

    def outputs() -> Any:
        found = infer(weights, x, mask).astype("float32")
        return jax.device_get(found)[jax.device_get(mask)]

    if not case.training:
        return Prepared(*_calls(infer, weights, x, mask), outputs=outputs, form=device)
    step = _step(stack, training=True)
    states = [variable.value for layer in stack.layers for variable in layer.non_trainable_variables]
    return Prepared(
        *_calls(step, weights, states, x, mask, jnp.asarray(case.cotangent())),
        outputs=outputs,
        slope=lambda: _slope(case.small(), stack, weights, states),
        form=device,
    )


def _calls(function: Any, *arguments: Any) -> tuple[Any, Any]:
    """Return the measured call and its warm-up, which compiles: JAX has a program for each shape."""
    import jax  # pyright: ignore[reportMissingImports]

    compiled: list[Any] = []

    def warm() -> None:
        if not compiled:
            compiled.append(function.lower(*arguments).compile())

    def run() -> None:
        warm()
        jax.block_until_ready(compiled[0](*arguments))

    return run, warm


def _forward(
    stack: keras_blocks.Stack, values: Any, x: Any, mask: Any, training: bool, states: Any = None
) -> tuple[Any, list[Any]]:
    """Return outputs and the new states of the dropouts' random numbers."""
    values, after = iter(values), []
    given = iter(states if states is not None else ())
    for layer in stack.layers:
        own = [next(values) for _ in layer.trainable_variables]
        kept = layer.non_trainable_variables
        state = [variable.value for variable in kept] if states is None else [next(given) for _ in kept]
        x, state = layer.stateless_call(own, state, x, training=training, **{stack.mask_name: mask})
        after += state
    return x, after


def _step(stack: keras_blocks.Stack, training: bool) -> Any:
    import jax  # pyright: ignore[reportMissingImports]

    def loss(values: Any, states: Any, x: Any, mask: Any, cotangent: Any) -> Any:
        outputs, after = _forward(stack, values, x, mask, training, states)
        return (outputs.astype("float32") * cotangent).sum(), after

    return jax.jit(jax.grad(loss, has_aux=True))


def _slope(case: Case, stack: keras_blocks.Stack, weights: list[Any], states: list[Any]) -> float:
    gradients, _ = _step(stack, training=False)(weights, states, *case.inputs(), case.cotangent())
    return along(gradients, stack.direction(case))

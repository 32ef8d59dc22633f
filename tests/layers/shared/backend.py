"""The functions that the layer tests need from every backend of Keras."""

import keras
import numpy as np
import pytest

BACKEND = keras.backend.backend()
tensorflow_only = pytest.mark.skipif(BACKEND != "tensorflow", reason="tests what only TensorFlow has")


def examples(number):
    """The number of examples of a property test: JAX compiles every operation for each new shape."""
    return 3 if BACKEND == "jax" else number


def array(tensor):
    """The tensor's numbers, half precision as float32."""
    if keras.backend.standardize_dtype(tensor.dtype) in ("float16", "bfloat16"):
        tensor = keras.ops.cast(tensor, "float32")
    return keras.ops.convert_to_numpy(tensor)


def gradients(layer, x, loss=lambda outputs: keras.ops.sum(outputs**2), penalised=False, **call):
    """Gradients of `loss(layer(x, **call))` by the layer's trainable variables, and by x; zero where none.

    Of `layer.losses`, too, if it is `penalised`.
    """
    call = {
        name: keras.ops.convert_to_tensor(v) if isinstance(v, np.ndarray) else v for name, v in call.items()
    }
    found = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}[BACKEND](
        layer, x, loss, penalised, call
    )
    shapes = [*(tuple(variable.shape) for variable in layer.trainable_variables), x.shape]
    return [
        np.zeros(shape) if gradient is None else np.array(gradient)
        for gradient, shape in zip(found, shapes, strict=True)
    ]


def compiled(layer, x, **call):
    """`layer(x)` compiled as a whole, by XLA where the backend has it."""
    call = {name: keras.ops.convert_to_tensor(value) for name, value in call.items()}
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return array(tf.function(lambda x: layer(x, **call), jit_compile=True)(tf.constant(x)))
    if BACKEND == "jax":
        import jax

        variables = [v.value for v in (*layer.trainable_variables, *layer.non_trainable_variables)]
        return np.asarray(jax.jit(lambda v, x: _stateless(layer, v, x, call))(variables, x))
    return array(layer(x, **call))


def _tensorflow(layer, x, loss, penalised, call):
    import tensorflow as tf

    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = loss(layer(x, **call))
        total = sum(layer.losses, total) if penalised else total
    found = tape.gradient(total, [*(v.value for v in layer.trainable_variables), x])
    return [None if gradient is None else tf.convert_to_tensor(gradient).numpy() for gradient in found]


def _torch(layer, x, loss, penalised, call):
    import torch

    x = torch.tensor(x, requires_grad=True)
    for variable in layer.trainable_variables:
        variable.value.grad = None
    total = loss(layer(x, **call))
    (sum(layer.losses, total) if penalised else total).backward()
    of_variables = [variable.value.grad for variable in layer.trainable_variables]
    return [None if gradient is None else gradient.numpy() for gradient in [*of_variables, x.grad]]


def _jax(layer, x, loss, penalised, call):
    import jax

    trainable = [v.value for v in layer.trainable_variables]
    others = [v.value for v in layer.non_trainable_variables]

    def total(trainable, x):
        outputs, _, losses = layer.stateless_call(trainable, others, x, return_losses=True, **call)
        return sum(losses, loss(outputs)) if penalised else loss(outputs)

    by_variables, by_x = jax.grad(total, argnums=(0, 1))(trainable, jax.numpy.asarray(x))
    return [*by_variables, by_x]


def _stateless(layer, variables, x, call):
    count = len(layer.trainable_variables)
    return layer.stateless_call(variables[:count], variables[count:], x, **call)[0]

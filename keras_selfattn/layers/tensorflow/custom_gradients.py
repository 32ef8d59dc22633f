"""Custom gradients and rematerialisation whose memory TensorFlow gives back with the graph that uses them.

`tf.custom_gradient` enters a closure into a registry of the process for each call in a graph, for ever. The
closure holds the graph's tensors, and these hold the graph, its functions, the layers and their variables.
Here the graph holds the closure instead. The registry's entry only points to it, and goes when the graph
goes: a gradient that is asked for later, or written into a SavedModel, needs the graph as well.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_selfattn.layers.tensorflow import gradient_registry, tf

Tensor = Any

# TensorFlow has no public way to take an entry out. Without this table, entries stay as they are.
_entries: Any = getattr(gradient_registry, "_registry", None)
_HELD = "_keras_selfattn_gradients"  # the attribute of a graph
# The names that `tf.custom_gradient` gives; others are a user's, for any number of graphs.
_OF_ONE_CALL = "CustomGradient-"


def custom_gradient(function: Callable[..., tuple[Any, Callable]]) -> Callable[..., Any]:
    """Return `function` with its own gradient, as `keras.ops.custom_gradient` does.

    Args:
        function: from tensors to outputs and to the function of their gradients.
    """
    with_gradient = ops.custom_gradient(function)
    if tf is None:
        return with_gradient

    def call(*args: Tensor) -> Any:
        outputs = with_gradient(*args)
        if not tf.executing_eagerly():
            _hand_to_graph(tf.nest.flatten(outputs)[0].op)
        return outputs

    return call


def rematerialised(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` with a gradient that computes it again, as `keras.remat` does.

    In a graph of TensorFlow, `keras.remat` would make a custom gradient within its gradient, too.

    Args:
        function: from float tensors to one tensor or a list of them; it may read variables.
    """
    in_eager_mode = keras.remat(function)
    if tf is None:
        return in_eager_mode

    @custom_gradient
    def in_graph(*args: Tensor) -> tuple[Any, Callable]:
        def gradient(*upstream: Tensor, variables: Sequence[Any] = ()) -> Any:
            found = _gradients_of_second_run(function, args, list(variables), upstream)
            of_args, of_variables = found[: len(args)], found[len(args) :]
            return (of_args, of_variables) if variables else of_args

        return function(*args), gradient

    def call(*args: Tensor) -> Any:
        return in_eager_mode(*args) if tf.executing_eagerly() else in_graph(*args)

    return call


def _gradients_of_second_run(
    function: Callable[..., Any], args: Sequence[Tensor], variables: list[Any], upstream: Sequence[Tensor]
) -> list[Tensor]:
    # The second run must wait for the gradient's turn: else both would run at once, or be merged into one.
    # XLA heeds dependencies of data alone: a zero that is made of the upstream gradient.
    first = tf.cast(tf.reduce_max(tf.reshape(upstream[0], [-1])[:1]), tf.bool)
    zero = tf.where(tf.equal(first, first), 0.0, float("nan"))
    with tf.GradientTape() as tape:
        args = [x + tf.cast(zero, x.dtype) for x in args]
        tape.watch([*args, *variables])
        outputs = function(*args)
    sources, none = [*args, *variables], tf.UnconnectedGradients.ZERO
    return tape.gradient(tf.nest.flatten(outputs), sources, list(upstream), unconnected_gradients=none)


def keep_in_graph() -> None:
    """Give the graph that is being built, if any, the custom gradients of all its operations.

    TensorFlow and Keras register some in every training: of the sum of gradients over replicas, of quantized
    layers.
    """
    if tf is None or tf.executing_eagerly():
        return
    for operation in tf.compat.v1.get_default_graph().get_operations():
        if operation.type == "IdentityN":
            _hand_to_graph(operation)


def _hand_to_graph(operation: Any) -> None:
    """Move the custom gradient of an operation, if it has one, from TensorFlow's registry to its graph."""
    try:
        name = operation.get_attr("_gradient_op_type").decode()
    except ValueError:
        return
    if not name.startswith(_OF_ONE_CALL):
        return
    graph = operation.graph
    # An attribute: a weak dictionary would keep the graph alive, because the closure holds it.
    held = getattr(graph, _HELD, None)
    if held is None:
        held = {}
        setattr(graph, _HELD, held)
    if _entries is None or name not in _entries or name in held:
        return
    held[name] = _entries.pop(name)["type"]
    tf.RegisterGradient(name)(_pointer(weakref.ref(graph), name))
    weakref.finalize(graph, _entries.pop, name, None).atexit = False


def _pointer(graph: weakref.ref, name: str) -> Callable[..., Any]:
    def gradient(operation: Any, *upstream: Tensor) -> Any:
        return getattr(graph(), _HELD)[name](operation, *upstream)

    return gradient

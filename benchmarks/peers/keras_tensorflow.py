"""Ours and KerasHub's on TensorFlow: a `tf.function` of any batch and length, or an exported one."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.case import Case
from benchmarks.peers import keras_blocks
from benchmarks.prepared import Prepared, along


def ours(fields: dict[str, Any]) -> Prepared:
    """Build our blocks."""
    return _prepared(Case.from_json(fields), keras_blocks.ours)


def kerashub(fields: dict[str, Any]) -> Prepared:
    """Build KerasHub's."""
    return _prepared(Case.from_json(fields), keras_blocks.kerashub)


def save_kerashub(fields: dict[str, Any], folder: str) -> None:
    """Write KerasHub's blocks as a SavedModel, for engines that read one."""
    case = Case.from_json(fields)
    _save(_inference(case, keras_blocks.kerashub(case)), folder)


def _prepared(case: Case, make: Callable[[Case], keras_blocks.Stack]) -> Prepared:
    import tensorflow as tf

    stack = make(case)
    infer = _inference(case, stack)
    x, mask = map(tf.constant, case.inputs())
    x = tf.cast(x, case.dtype)
    if case.exported:
        return _served(case, infer)
    if not case.training:
        return Prepared(
            run=lambda: infer(x, mask),
            warm=lambda: infer(x[:1, :8], mask[:1, :8]),
            outputs=lambda: tf.cast(infer(x, mask), "float32").numpy()[mask.numpy()],
        )
    step, cotangent = _step(case, stack, training=True), tf.constant(case.cotangent())
    return Prepared(
        run=lambda: step(x, mask, cotangent),
        warm=lambda: step(x[:1, :8], mask[:1, :8], cotangent[:1, :8]),
        outputs=lambda: tf.cast(infer(x, mask), "float32").numpy()[mask.numpy()],
        slope=lambda: _slope(case.small(), stack),
    )


def _inference(case: Case, stack: keras_blocks.Stack) -> Any:
    import tensorflow as tf

    signature = [tf.TensorSpec([None, None, case.width], case.dtype), tf.TensorSpec([None, None], tf.bool)]
    return tf.function(lambda x, mask: stack(x, mask, training=False), input_signature=signature)


def _step(case: Case, stack: keras_blocks.Stack, training: bool) -> Any:
    import tensorflow as tf

    tokens = tf.TensorSpec([None, None, case.width])
    weights = [variable.value for variable in stack.weights]

    @tf.function(input_signature=[tokens, tf.TensorSpec([None, None], tf.bool), tokens])
    def step(x: Any, mask: Any, cotangent: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.cast(stack(x, mask, training=training), "float32") * cotangent)
        return tape.gradient(loss, weights)

    return step


def _slope(case: Case, stack: keras_blocks.Stack) -> float:
    gradients = _step(case, stack, training=False)(*case.inputs(), case.cotangent())
    return along([gradient.numpy() for gradient in gradients], stack.direction(case))


def _served(case: Case, infer: Any) -> Prepared:
    """Export the function, and call it as our server does, without the request."""
    from keras_selfattn.serving.server import ServerConfig
    from keras_selfattn.serving.server.models.saved_model_servable import SavedModelServable, session_config

    with tempfile.TemporaryDirectory() as folder:
        _save(infer, folder)
        config = session_config(ServerConfig("blocks", folder))
        servable = SavedModelServable("blocks", 1, Path(folder), ["serve"], config, is_ours=True)
    signature = servable.signatures["serving_default"]
    names = {len(info.tensor_shape.dim): info.name for info in signature.inputs.values()}  # x 3, mask 2
    fetches = [info.name for info in signature.outputs.values()]
    x, mask = case.inputs()

    def call(samples: int, tokens: int) -> Any:
        given = {names[3]: x[:samples, :tokens], names[2]: mask[:samples, :tokens]}
        return servable.run(given, fetches, None)[0]

    return Prepared(
        run=lambda: call(*mask.shape), warm=lambda: call(1, 8), outputs=lambda: call(*mask.shape)[mask]
    )


def _save(infer: Any, folder: str | Path) -> None:
    import tensorflow as tf

    module: Any = tf.Module()
    module.call = infer
    module.variables_of_layers = infer.get_concrete_function().variables
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(module, str(folder), signatures=infer.get_concrete_function(), options=options)

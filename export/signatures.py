"""The graphs a SavedModel offers: raw text in, probabilities, label and score out.

Axes: B (texts), T (tokens), C (classes).
"""

from typing import Any

import tensorflow as tf

from keras_selfattn.models import TextClassifier

Tensor = Any


class TextModule(tf.Module):
    """What is saved of a text classifier: its weights, its vocabulary table and one signature.

    Args:
        model: a trained classifier.
    """

    def __init__(self, model: TextClassifier) -> None:
        super().__init__()
        self._table = model.tokenizer.table
        self._weights = [weight.value for weight in model.core.weights]
        labels = tf.constant(model.labels)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
        def serving_default(text: Tensor) -> dict[str, Tensor]:
            probabilities = model.core(model.tokenizer.padded(text), training=False)  # [B, C]
            best = tf.argmax(probabilities, axis=-1)  # [B]
            return {
                "probabilities": probabilities,
                "label": tf.gather(labels, best),
                "score": tf.reduce_max(probabilities, axis=-1),
            }

        self._serving_default = serving_default

    @property
    def signatures(self) -> dict[str, Any]:
        """Signature functions by name, as `tf.saved_model.save` takes them."""
        return {"serving_default": self._serving_default}

"""Step 3: the model. It names its kind of rows, and turns rows into the core's inputs."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from pair_rows import PAIRS, Pair

from keras_selfattn.models import TextClassifier
from keras_selfattn.models.text.explanation import TextExplanation, explained

BETWEEN = " | "


@keras.saving.register_keras_serializable(package="toy_pairs")
class PairClassifier(TextClassifier):
    """A text classifier that reads both texts of a pair as one, with a token between them."""

    row_kind = PAIRS

    def _learn_front_end(self, rows: Any) -> None:
        super()._learn_front_end(rows._replace(inputs=self._joined(rows.inputs)))

    def _features(self, inputs: Sequence[Pair]) -> list[np.ndarray]:
        return super()._features(self._joined(inputs))

    def explain(self, texts: Sequence[Pair]) -> list[TextExplanation]:
        return explained(self, self._joined(self.read_inputs(texts)))

    def _joined(self, pairs: Sequence[Pair]) -> list[str]:
        return [BETWEEN.join(pair) for pair in pairs]

"""Step 4: the front of the exported graph, with requests to try it."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from pair_classifier import BETWEEN, PairClassifier
from pair_rows import PAIRS, Pair

from keras_selfattn.export.signatures.model_signatures import Graphs, Signature
from keras_selfattn.export.signatures.raw_front import RawFront, front_of
from keras_selfattn.export.signatures.trial_requests import TEXTS, Request, in_batches, strings


@front_of(PairClassifier)
class PairFront(RawFront):
    """Two texts a row, string `[batch]` each."""

    def __init__(self, model: PairClassifier) -> None:
        super().__init__(model)
        self._model, self._tokenizer = model, model.tokenizer
        names = ("text", "text_pair")
        self.specs = {name: tf.TensorSpec([None], tf.string, name=name) for name in names}
        self.tracked = [self._tokenizer.table]

    def __call__(self, *raw: Any) -> Any:
        return self._model.beside_wide(self._tokenizer(tf.strings.join(raw, BETWEEN)))

    def requests(self) -> list[Request]:
        return in_batches(dict(self.named([(text, TEXTS[0]) for text in TEXTS * 8])))

    def asked(self, row: Pair) -> Request:
        return dict(self.named([row]))

    def named(self, rows: Any) -> Mapping[str, Any]:
        columns = zip(*PAIRS.read(rows), strict=True)
        return dict(zip(self.specs, map(strings, columns), strict=True))

    def more_signatures(
        self, graphs: Graphs, requests: Sequence[Request], *, real: bool
    ) -> dict[str, Signature]:
        padded = lambda *raw: self(*raw).to_tensor()  # noqa: E731
        return {"explain": Signature(graphs.explain(together=True, read=padded), requests)}

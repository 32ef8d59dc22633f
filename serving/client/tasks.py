"""What models are asked for by task: a label for a row, a label for a position, attention weights.

The signatures and names are those of this project's exports; see docs/savedmodel.md.
"""

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from ..errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    InvalidInputError,
    NotFoundError,
)
from .answers import Classification, Explanation, Labelling, Prediction
from .core import DEFAULT_SIGNATURE, Core, Which
from .examples import serialized_example
from .inputs import Inputs
from .signatures import ModelMetadata, TensorSpec
from .steps import Steps

_CLASSIFY = "classify"
_EXPLAIN = "explain"


class Tasks:
    """The tasks of one model, and the class names of its versions.

    Args:
        core: the model's calls.
    """

    def __init__(self, core: Core):
        self._core = core
        # In the order of the probabilities; None for a version that does not tell.
        self._classes: dict[int, Sequence[str] | None] = {}

    def classify(self, values: Inputs, which: Which) -> Steps[list[Classification]]:
        """The label of each row, and the scores of all labels."""
        try:
            return (yield from self._classify(_rows_of(values), which))
        except NotFoundError:
            if which.version is not None:
                raise
            # The version that answered left before it was asked for its labels.
            return (yield from self._classify(_rows_of(values), which))

    def label(self, values: Inputs, which: Which) -> Steps[list[Labelling]]:
        """The label of each position of each row."""
        parts, _ = yield from self._core.predict_parts(_rows_of(values), DEFAULT_SIGNATURE, None, which)
        return list(chain.from_iterable(map(self._labelled, parts)))

    def explain(self, texts: Sequence[str], which: Which) -> Steps[list[Explanation]]:
        """The tokens of each text and the weights between them."""
        parts, _ = yield from self._core.predict_parts(_rows_of(texts), _EXPLAIN, None, which)
        return list(chain.from_iterable(map(self._explained, parts)))

    def _classify(self, values: Inputs, which: Which) -> Steps[list[Classification]]:
        parts, _ = yield from self._core.predict_parts(values, DEFAULT_SIGNATURE, None, which)
        for part in parts:
            self._require(part, ("label", "score"), "no classifier", ranks=(1, 2))
        version = parts[0].version
        if version not in self._classes and any(len(part["label"]) for part in parts):
            self._classes[version] = yield from self._class_names(version, which)
        classes = self._classes.get(version)
        return list(chain.from_iterable(_classified(part, classes) for part in parts))

    def _class_names(self, version: int, which: Which) -> Steps[Sequence[str] | None]:
        """The labels in the order of the probabilities, as the signature `classify` has them for any row."""
        known = yield from self._core.known(which)
        if known is None or _CLASSIFY not in known.signatures:
            return None
        row = _made_up_row(known)
        answering = Which(version) if version else which
        try:
            answer = yield from self._core.predict([row], _CLASSIFY, ["classes"], answering)
        except (InvalidArgumentError, FailedPreconditionError, InvalidInputError):
            return None  # a signature of that name which is something else
        return [str(name) for name in answer["classes"].reshape(-1)]

    def _labelled(self, part: Prediction) -> list[Labelling]:
        self._require(part, ("label", "score"), "no labeller", ranks=(2,))
        tokens = part.get("tokens")
        found = []
        for row, labels in enumerate(part["label"]):
            real = labels != ""  # what is padding has no label
            words = None if tokens is None else [str(token) for token in tokens[row][real]]
            found.append(Labelling([str(label) for label in labels[real]], part["score"][row][real], words))
        return found

    def _explained(self, part: Prediction) -> list[Explanation]:
        self._require(part, ("tokens", "weights"), "without an explanation of texts", ranks=(2, 5))
        found = []
        for tokens, weights in zip(part["tokens"], part["weights"], strict=True):
            length = int(np.count_nonzero(tokens != ""))  # padding, at the end
            found.append(
                Explanation([str(token) for token in tokens[:length]], weights[..., :length, :length])
            )
        return found

    def _require(self, part: Prediction, names: Sequence[str], lack: str, ranks: Sequence[int]) -> None:
        if all(name in part and part[name].ndim in ranks for name in names):
            return
        asked = self._core.asked
        listed = ", ".join(f"{name} {list(array.shape)}" for name, array in part.items())
        raise FailedPreconditionError(
            f"model {asked.model!r} at {asked.target} is {lack}: signature {part.signature!r} has the "
            f"outputs {listed or 'none'}, not {' and '.join(names)} of rank {' or '.join(map(str, ranks))}. "
            f"Use `client.predict(...)`.",
            target=asked.target,
            model=asked.model,
        )


def _rows_of(values: Inputs) -> Inputs:
    """`values`, unless it is one text: its letters would be taken for texts."""
    if isinstance(values, str | bytes):
        raise InvalidInputError(f"texts must be a list of str. Received {values!r:.60}; pass a list: [text]")
    if isinstance(values, Mapping | np.ndarray) or hasattr(values, "__array__") or hasattr(values, "dtype"):
        return values
    return list(values)  # pyright: ignore[reportArgumentType]  # any iterable of texts


def _classified(part: Prediction, classes: Sequence[str] | None) -> list[Classification]:
    labels = [str(label) for label in part["label"].reshape(-1)]
    scores: list[float] = part["score"].reshape(-1).tolist()
    probabilities = part.get("probabilities")
    if classes is None or probabilities is None or probabilities.shape != (len(labels), len(classes)):
        every = [{label: score} for label, score in zip(labels, scores, strict=True)]
    else:
        every = [dict(zip(classes, row, strict=True)) for row in probabilities.tolist()]
    return [Classification(*answer) for answer in zip(labels, scores, every, strict=True)]


def _made_up_row(known: ModelMetadata) -> bytes:
    """A serialized Example with something for every input: the labels are the same for any row."""
    inputs = known.signatures[DEFAULT_SIGNATURE].inputs
    return serialized_example({name: _made_up(spec) for name, spec in inputs.items()})


def _made_up(spec: TensorSpec) -> np.ndarray:
    shape = [1 if size is None else size for size in (spec.shape or (1,))[1:]]
    if spec.dtype == "string":
        return np.full(shape, b"", dtype=object)
    return np.zeros(shape, np.int64 if "int" in spec.dtype or spec.dtype == "bool" else np.float32)

"""Calls by task: a label for a row, a label for each position, scores, attention weights.

The signatures and names are those of this project's exports; see docs/savedmodel.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np

from ..errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    InvalidInputError,
    NotFoundError,
)
from ..wire.signature_names import (
    CLASSES,
    DEFAULT_SIGNATURE,
    EMBEDDING,
    LABEL,
    PREDICTIONS,
    PROBABILITIES,
    SCORE,
)
from .answers import Classification, Contributions, Explanation, Labelling, Prediction, with_text
from .inputs import Inputs, serialized_example
from .model_metadata import ModelMetadata, TensorSpec
from .operations import Operations
from .server_ref import Label, Version
from .steps import Steps

_CLASSIFY = "classify"
_EXPLAIN = "explain"
_CONTRIBUTIONS = "contributions"
_EMBED = "embed"


class TaskCalls:
    """The tasks of one model, and the class names of its versions.

    Args:
        operations: the model's calls.
    """

    def __init__(self, operations: Operations):
        self._operations = operations
        # In the order of the probabilities; None for a version that does not list its labels.
        self._classes: dict[int, Sequence[str] | None] = {}

    def classify(self, values: Inputs, which: Version) -> Steps[list[Classification]]:
        """The label of each row, and the scores of all labels."""
        values = _rows_of(values)
        try:
            return (yield from self._classify(values, which))
        except NotFoundError:
            if which is not None and not isinstance(which, Label):
                raise
            # The version that answered was unloaded before its labels were requested.
            return (yield from self._classify(values, which))

    def label(self, values: Inputs, which: Version) -> Steps[list[Labelling]]:
        """The label of each position of each row."""
        ranks = {LABEL: 2, SCORE: 2}
        rows = _rows_of(values)
        _check_no_padding(rows)
        parts = yield from self._parts(rows, DEFAULT_SIGNATURE, which, ranks, "no labeller")
        for part in parts:
            self._check(part, part[LABEL].shape == part[SCORE].shape)
        return list(chain.from_iterable(map(_labelled, parts)))

    def score(self, values: Inputs, which: Version) -> Steps[np.ndarray]:
        """The number of each row, or its numbers."""
        lack = "without scores"
        parts = yield from self._parts(_rows_of(values), DEFAULT_SIGNATURE, which, {PREDICTIONS: 2}, lack)
        found = np.concatenate([part[PREDICTIONS] for part in parts])
        return found[:, 0] if found.shape[1] == 1 else found

    def explain(self, texts: Sequence[str], which: Version) -> Steps[list[Explanation]]:
        """The tokens of each text and the weights between them."""
        lack = "without an explanation of texts"
        parts = yield from self._parts(_rows_of(texts), _EXPLAIN, which, {"tokens": 2, "weights": 5}, lack)
        for part in parts:
            self._check(part, part["weights"].shape[3:] == part["tokens"].shape[1:] * 2)
            pooling = part.get("pooling")
            fits = pooling is None or (pooling.ndim == 3 and pooling.shape[::2] == part["tokens"].shape)
            self._check(part, fits)
        return list(chain.from_iterable(map(_explained, parts)))

    def contributions(self, texts: Sequence[str], which: Version) -> Steps[list[Contributions]]:
        """The n-grams of each text that count most, and what they add to the logits."""
        ranks = {"ngrams": 2, "kinds": 2, "logits": 3, "rest": 2}
        lack = "without a wide path of n-grams"
        parts = yield from self._parts(_rows_of(texts), _CONTRIBUTIONS, which, ranks, lack)
        for part in parts:
            shape = part["logits"].shape
            self._check(part, part["ngrams"].shape == part["kinds"].shape == shape[:2])
            self._check(part, part["rest"].shape == shape[::2])
        return list(chain.from_iterable(map(_contributed, parts)))

    def embed(self, texts: Sequence[str], which: Version) -> Steps[np.ndarray]:
        """The vector of each text."""
        lack = "without vectors of texts"
        parts = yield from self._parts(_rows_of(texts), _EMBED, which, {EMBEDDING: 2}, lack)
        return np.concatenate([part[EMBEDDING] for part in parts])

    def _parts(
        self, values: Inputs, signature: str, which: Version, ranks: Mapping[str, int], lack: str
    ) -> Steps[list[Prediction]]:
        """Return the answers, checked to have outputs of these names and ranks with an entry for each row."""
        parts, rows = yield from self._operations.predict_parts(values, signature, None, which)
        for part, asked in zip(parts, rows, strict=True):
            self._require(part, ranks, lack)
            counts = {len(part[name]) for name in ranks}
            counts.update([len(asked)] if asked else [])
            self._check(part, len(counts) == 1)
        return [with_text(part) for part in parts]

    def _classify(self, values: Inputs, which: Version) -> Steps[list[Classification]]:
        ranks = {LABEL: 1, SCORE: 1}
        parts = yield from self._parts(values, DEFAULT_SIGNATURE, which, ranks, "no classifier")
        version = parts[0].version
        if not any(len(part[LABEL]) for part in parts):
            return []
        # Ask again if the server names no version, or has another model under the same number.
        if version not in self._classes or not version or not _fits(parts, self._classes[version]):
            self._classes[version] = yield from self._class_names(version, which)
        classes = self._classes[version]
        return list(chain.from_iterable(_classified(part, classes) for part in parts))

    def _class_names(self, version: int, which: Version) -> Steps[Sequence[str] | None]:
        """The labels in the order of the probabilities; the signature `classify` returns them for any row."""
        known = yield from self._operations.metadata_cache.known(which)
        if known is None or _CLASSIFY not in known.signatures or DEFAULT_SIGNATURE not in known.signatures:
            return None
        row = _made_up_row(known)
        answering = version if version else which
        try:
            # All outputs: the warmup of a server does not prepare the graph for one output alone.
            answer = yield from self._operations.predict([row], _CLASSIFY, None, answering)
        except (InvalidArgumentError, FailedPreconditionError, InvalidInputError):
            return None  # another kind of signature with that name
        return [_text(name) for name in answer[CLASSES].reshape(-1)]

    def _require(self, part: Prediction, ranks: Mapping[str, int], lack: str) -> None:
        if all(name in part and part[name].ndim == rank for name, rank in ranks.items()):
            return
        asked = self._operations.server
        wanted = " and ".join(f"{name} of rank {rank}" for name, rank in ranks.items())
        raise FailedPreconditionError(
            f"model {asked.model!r} at {asked.target} is {lack}: signature {part.signature!r} has the "
            f"outputs {_listed(part)}, not {wanted}. Use `client.predict(...)`.",
            target=asked.target,
            model=asked.model,
        )

    def _check(self, part: Prediction, fits: bool) -> None:
        if not fits:
            details = f"the outputs {_listed(part)} do not fit the rows, or each other"
            raise self._operations.server.malformed(details, part.signature)


def _listed(part: Prediction) -> str:
    return ", ".join(f"{name} {list(array.shape)}" for name, array in part.items()) or "none"


def _rows_of(values: Inputs) -> Inputs:
    """Return `values`, unless it is one text, whose letters would be read as texts."""
    if isinstance(values, str | bytes):
        raise InvalidInputError(f"texts must be a list of str. Received {values!r:.60}; pass a list: [text]")
    if isinstance(values, Mapping) or hasattr(values, "__array__") or hasattr(values, "dtype"):
        return values
    try:
        iterable: Any = values  # of texts
        return list(iterable)
    except TypeError:
        raise InvalidInputError(f"texts must be a list of str. Received {values!r:.60}") from None


def _check_no_padding(values: Inputs) -> None:
    """Refuse empty tokens: they are padding, without a label, and would shift the labels of other tokens."""
    rows: Any = next(iter(values.values()), None) if isinstance(values, Mapping) else values
    if getattr(rows, "ndim", 1) != 1:  # an array, which the caller has padded
        return
    for number, row in enumerate(cast("Iterable[Any]", rows) if hasattr(rows, "__iter__") else ()):
        if isinstance(row, list | tuple) and any(
            isinstance(token, str | bytes) and not token for token in cast("list[Any]", row)
        ):
            raise InvalidInputError(f"row {number} has an empty token, which is padding: leave it out")


def _fits(parts: Sequence[Prediction], classes: Sequence[str] | None) -> bool:
    """Return True if each answered label is the one with the largest probability."""
    if classes is None:
        return True
    for part in parts:
        probabilities = part.get(PROBABILITIES)
        if probabilities is None or probabilities.shape != (len(part[LABEL]), len(classes)):
            return False
        found = [classes[place] for place in probabilities.argmax(-1)]
        if found != [_text(label) for label in part[LABEL]]:
            return False
    return True


def _classified(part: Prediction, classes: Sequence[str] | None) -> list[Classification]:
    labels = [_text(label) for label in part[LABEL]]
    scores: list[float] = part[SCORE].tolist()
    if classes is None or not _fits([part], classes):
        every = [{label: score} for label, score in zip(labels, scores, strict=True)]
    else:
        every = [dict(zip(classes, row, strict=True)) for row in part[PROBABILITIES].tolist()]
    return [Classification(*answer) for answer in zip(labels, scores, every, strict=True)]


def _labelled(part: Prediction) -> list[Labelling]:
    tokens = part.get("tokens")
    if tokens is not None and tokens.shape != part[LABEL].shape:
        tokens = None  # not one token for each position
    found: list[Labelling] = []
    for row, labels in enumerate(part[LABEL]):
        real = labels.astype(bool)  # padding has no label
        words = None if tokens is None else [_text(token) for token in tokens[row][real]]
        found.append(Labelling([_text(label) for label in labels[real]], part[SCORE][row][real], words))
    return found


def _explained(part: Prediction) -> list[Explanation]:
    found: list[Explanation] = []
    poolings = part.get("pooling", [None] * len(part["tokens"]))
    for tokens, weights, pooling in zip(part["tokens"], part["weights"], poolings, strict=True):
        length = int(np.count_nonzero(tokens.astype(bool)))  # padding, at the end
        texts = [_text(token) for token in tokens[:length]]
        pooled = None if pooling is None else pooling[:, :length]
        found.append(Explanation(texts, weights[..., :length, :length], pooled))
    return found


def _contributed(part: Prediction) -> list[Contributions]:
    found: list[Contributions] = []
    for row, ngrams in enumerate(part["ngrams"]):
        count = int(np.count_nonzero(ngrams.astype(bool)))  # padding, at the end
        names, kinds = ([_text(each) for each in part[name][row][:count]] for name in ("ngrams", "kinds"))
        found.append(Contributions(names, kinds, part["logits"][row, :count], part["rest"][row]))
    return found


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _made_up_row(known: ModelMetadata) -> bytes:
    """A serialized Example with a value for every input: the labels are the same for any row."""
    inputs = known.signatures[DEFAULT_SIGNATURE].inputs
    return serialized_example({name: _made_up(spec) for name, spec in inputs.items()})


def _made_up(spec: TensorSpec) -> np.ndarray:
    shape = [1 if size is None else size for size in (spec.shape or (1,))[1:]]
    if spec.dtype == "string":
        return np.full(shape, b"", dtype=object)
    return np.zeros(shape, np.int64 if "int" in spec.dtype or spec.dtype == "bool" else np.float32)

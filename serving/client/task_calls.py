"""Calls by task: a label for a row, a text for a row, a label for each position, scores, attention weights.

The signatures and names are those of this project's exports; see docs/savedmodel.md.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar, cast

import numpy as np

from keras_selfattn.rows.text_spans import Span
from keras_selfattn.rows.wav_files import wav_bytes

from ..errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    InvalidInputError,
    NotFoundError,
)
from ..wire.signature_names import (
    AUDIO,
    CANDIDATE_SCORES,
    CANDIDATES,
    CLASSES,
    COUNT,
    DEFAULT_SIGNATURE,
    EMBEDDING,
    END,
    ENDED,
    GENERATE,
    LABEL,
    LABELS,
    NAMED_SCORES,
    PREDICTIONS,
    PREFIX,
    PROBABILITIES,
    SCORE,
    SPANS,
    START,
    TEXT,
    TEXT_PAIR,
)
from .answers import (
    Candidate,
    Classification,
    Contributions,
    Explanation,
    Generated,
    Labelling,
    Prediction,
    Ranked,
    with_text,
)
from .inputs import Inputs, serialized_example, takes_pairs
from .model_metadata import ModelMetadata, Signature, TensorSpec
from .operations import Operations, rows_in_a_call
from .search_settings import SearchSettings
from .server_ref import Label, Version
from .steps import Steps, at_least_one

T = TypeVar("T")
Texts = Sequence[str] | Sequence[tuple[str, str]]

_CLASSIFY = "classify"
_EXPLAIN = "explain"
_CONTRIBUTIONS = "contributions"
_EMBED = "embed"
_CLASSIFIES = (LABEL, PROBABILITIES)
_WRITTEN = {TEXT: 1, SCORE: 1, ENDED: 1, CANDIDATES: 2, CANDIDATE_SCORES: 2}
# Of one call of `rank` or `generate`: servers and proxies on the way may refuse over 4 MiB, gRPC's default.
_MOST_BYTES = 2**20


class TaskCalls:
    """The tasks of one model, and the class names of its versions.

    Args:
        operations: the model's calls.
    """

    def __init__(self, operations: Operations):
        self._operations = operations
        # In the order of the probabilities; None for a version that does not list its labels.
        self._classes: dict[int, Sequence[str] | None] = {}
        # In the order of the numbers; None for a version whose numbers have no names.
        self._scores: dict[int, Sequence[str] | None] = {}

    def classify(self, values: Inputs, which: Version) -> Steps[list[Classification]]:
        """The label of each row, and the scores of all labels."""
        rows = _rows_of(values)
        return (yield from _or_again(which, lambda: self._classify(rows, which)))

    def generate(
        self, texts: Iterable[str], settings: SearchSettings, which: Version
    ) -> Steps[list[Generated]]:
        """The text that the model writes for each text."""
        raw = _texts_of(texts)
        asked = settings.inputs(len(raw))
        if not raw:
            return []
        sizes = (_size(text) + _size(begun) for text, begun in zip(raw, asked[PREFIX], strict=True))
        calls = _bounded(sizes, rows_in_a_call(self._operations, None))
        lack = "no writer of texts"
        if settings.are_own:
            parts = yield from self._parts(raw, DEFAULT_SIGNATURE, which, _WRITTEN, lack, calls)
        else:
            try:
                parts = yield from self._parts({TEXT: raw, **asked}, GENERATE, which, _WRITTEN, lack, calls)
            except FailedPreconditionError as error:
                raise self._without(
                    GENERATE,
                    error,
                    "takes no settings of its search",
                    "If it writes texts, export it again with this version; until then leave out beams, "
                    "max_new_tokens, length_penalty and prefix.",
                ) from error
        for part in parts:
            self._check(part, part[CANDIDATES].shape == part[CANDIDATE_SCORES].shape)
        return list(chain.from_iterable(map(_written, parts)))

    def rank(
        self, query: Any, documents: Any, k: int | None, label: str | None, which: Version
    ) -> Steps[list[Ranked]]:
        """The documents by the score of each with the query, the best first."""
        most = None if k is None else at_least_one("k", k)
        if not isinstance(query, str):
            raise InvalidInputError(f"query must be a text, a str. Received {query!r:.60}")
        texts = _documents(documents)
        if not texts:
            return []
        return (yield from _or_again(which, lambda: self._ranked(query, texts, most, label, which)))

    def _ranked(
        self, query: str, texts: list[str], most: int | None, label: str | None, which: Version
    ) -> Steps[list[Ranked]]:
        yield from self._check_ranking(label, which)
        asked = {TEXT: [query] * len(texts), TEXT_PAIR: texts}
        calls = _bounded((_size(query + text) for text in texts), rows_in_a_call(self._operations, None))
        parts, rows = yield from self._operations.predict_parts(asked, DEFAULT_SIGNATURE, None, which, calls)
        parts = [with_text(part) for part in parts]
        place = None
        if all(name in parts[0] for name in _CLASSIFIES):
            classes = yield from self._classes_of(parts, which)
            place = self._place_of(label, classes)
            for part in parts:
                self._check(part, part[PROBABILITIES].shape == (len(part[LABEL]), len(classes or ())))
        scores: list[float] = []
        for part, asked_rows in zip(parts, rows, strict=True):
            found = self._numbers_of(part) if place is None else part[PROBABILITIES][:, place]
            self._check(part, len(found) == len(asked_rows))
            scores += found.tolist()
        # Documents of equal score stay in their order, and NaN comes last.
        order: list[int] = np.argsort(-np.array(scores), kind="stable").tolist()
        return [Ranked(place, texts[place], scores[place]) for place in order[:most]]

    def _check_ranking(self, label: str | None, which: Version) -> Steps[None]:
        """Refuse a model that ranks no pairs, or a label that it lacks, before the documents are sent."""
        cache = self._operations.metadata_cache
        known = yield from cache.known(which, DEFAULT_SIGNATURE)
        if known is None or DEFAULT_SIGNATURE not in known.signatures:
            return  # the server refuses
        try:
            yield from self._check_ranks(known.signatures[DEFAULT_SIGNATURE], label, which)
        except InvalidInputError as error:
            # A newer version may be of pairs, or have the label.
            fresh = yield from cache.fresh(which, error, DEFAULT_SIGNATURE)
            if fresh is None or DEFAULT_SIGNATURE not in fresh.signatures:
                raise
            yield from self._check_ranks(fresh.signatures[DEFAULT_SIGNATURE], label, which)

    def _check_ranks(self, signature: Signature, label: str | None, which: Version) -> Steps[None]:
        server = self._operations.server
        if not takes_pairs(signature):
            raise server.refused(
                f"rank is for a model of pairs of texts, with the inputs {TEXT!r} and {TEXT_PAIR!r}. The "
                f"signature {DEFAULT_SIGNATURE!r} is {signature!r}"
            )
        if LABELS in signature.outputs:
            raise server.refused(
                "rank is for a model that gives each row one label, or one number. This one gives a row any "
                f"number of labels: order the documents by {PROBABILITIES!r} of `predict`"
            )
        if not all(name in signature.outputs for name in _CLASSIFIES):
            if label is not None:
                raise server.refused(f"label= is for a classifier: leave it out. Received {label!r}")
            return
        if label is None or not any(label in (names or ()) for names in self._classes.values()):
            self._place_of(label, (yield from self._class_names(0, which)))

    def _numbers_of(self, part: Prediction) -> np.ndarray:
        """The score of each row, which is the only number of the model."""
        numbers = part.get(PREDICTIONS)
        if numbers is None or numbers.ndim not in (1, 2) or numbers.shape[1:] not in ((), (1,)):
            self._require(part, {PREDICTIONS: 1}, "without a score for each row")
        return part[PREDICTIONS].reshape(-1)

    def _place_of(self, label: str | None, classes: Sequence[str] | None) -> int:
        """The place of a label among the classes."""
        names = "unknown labels" if classes is None else f"the labels {', '.join(map(repr, classes))}"
        if label is not None and classes is not None and label in classes:
            return classes.index(label)
        wanted = "give label=, the label whose probability orders the documents"
        raise self._operations.server.refused(
            f"the model is a classifier with {names}: {wanted}. Received {label!r}"
        )

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
        """The number of each row, or its numbers, by name if they have names."""
        rows = _rows_of(values)
        return (yield from _or_again(which, lambda: self._score(rows, which)))

    def _score(self, rows: Inputs, which: Version) -> Steps[np.ndarray]:
        lack = "without scores"
        parts = yield from self._parts(rows, DEFAULT_SIGNATURE, which, {PREDICTIONS: 2}, lack)
        if len({part[PREDICTIONS].shape[1] for part in parts}) > 1:
            raise self._operations.server.malformed(
                "rows have different numbers of scores", DEFAULT_SIGNATURE
            )
        found = np.concatenate([part[PREDICTIONS] for part in parts])
        if found.shape[1] == 1:
            return found[:, 0]
        names = yield from self._score_names(parts, which)
        if names is None:
            return found
        if len({*names} - {""}) != found.shape[1]:
            said = f"{found.shape[1]} scores a row, and the names {', '.join(map(repr, names))}"
            raise self._operations.server.malformed(said, NAMED_SCORES)
        return np.ascontiguousarray(found).view([(name, found.dtype) for name in names])[:, 0]

    def _score_names(self, parts: Sequence[Prediction], which: Version) -> Steps[Sequence[str] | None]:
        """The names of the numbers of the version that answered; None if it has none."""
        version = parts[0].version
        if version not in self._scores or not version:
            self._scores[version] = yield from self._names_of(NAMED_SCORES, version, which)
        return self._scores[version]

    def spans(self, texts: Iterable[str], which: Version) -> Steps[list[list[Span]]]:
        """The spans of each text."""
        raw = _texts_of(texts)
        ranks = {LABEL: 2, START: 2, END: 2, SCORE: 2, COUNT: 1}
        lack = "without spans of texts"
        try:
            parts = yield from self._parts({TEXT: raw}, SPANS, which, ranks, lack)
        except FailedPreconditionError as error:
            raise self._without(
                SPANS,
                error,
                "finds no spans in raw texts",
                "If it is a labeller of tokens, export it again with this version; until then ask rows of "
                "tokens with `client.label(...)`.",
            ) from error
        rows = [row for part in parts for row in self._rows_of_spans(part)]
        if len(rows) != len(raw) or any(
            end > len(text) for text, row in zip(raw, rows, strict=False) for *_, end in row
        ):
            raise self._operations.server.malformed("spans are beyond the end of their text", SPANS)
        return [
            [Span(text[start:end], label, start, end, score) for label, score, start, end in row]
            for text, row in zip(raw, rows, strict=True)
        ]

    def explain(self, texts: Texts, which: Version) -> Steps[list[Explanation]]:
        """The tokens of each text and the weights between them."""
        lack = "without an explanation of texts"
        parts = yield from self._parts(_rows_of(texts), _EXPLAIN, which, {"tokens": 2, "weights": 5}, lack)
        for part in parts:
            queries = part.get("target_tokens", part["tokens"])
            sizes = (len(part["tokens"]), *part["weights"].shape[3:])
            self._check(part, sizes == (*queries.shape, *part["tokens"].shape[1:]))
            pooling = part.get("pooling")
            fits = pooling is None or (pooling.ndim == 3 and pooling.shape[::2] == part["tokens"].shape)
            self._check(part, fits)
        return list(chain.from_iterable(map(_explained, parts)))

    def contributions(self, texts: Texts, which: Version) -> Steps[list[Contributions]]:
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
        self,
        values: Inputs,
        signature: str,
        which: Version,
        ranks: Mapping[str, int],
        lack: str,
        calls: list[range] | None = None,
    ) -> Steps[list[Prediction]]:
        """Return the answers, checked to have outputs of these names and ranks with an entry for each row."""
        parts, rows = yield from self._operations.predict_parts(values, signature, None, which, calls)
        for part, asked in zip(parts, rows, strict=True):
            self._require(part, ranks, lack)
            counts = {len(part[name]) for name in ranks}
            counts.update([len(asked)] if asked else [])
            self._check(part, len(counts) == 1)
        return [with_text(part) for part in parts]

    def _rows_of_spans(self, part: Prediction) -> Iterator[list[tuple[str, float, int, int]]]:
        """Yield the label, score, start and end of each span of each row."""
        columns = [part[name] for name in (LABEL, SCORE, START, END)]
        self._check(part, len({column.shape for column in columns}) == 1)
        most = part[LABEL].shape[1]
        for row, count in enumerate(part[COUNT].tolist()):
            self._check(part, 0 <= count <= most)
            labels, scores, starts, ends = (column[row, :count].tolist() for column in columns)
            self._check(part, all(0 <= start < end for start, end in zip(starts, ends, strict=True)))
            yield list(zip(map(_text, labels), scores, starts, ends, strict=True))

    def _without(
        self, signature: str, error: FailedPreconditionError, lack: str, advice: str
    ) -> FailedPreconditionError:
        """The error of a model without a signature; another error as it is."""
        asked = self._operations.server
        if not str(error.details).startswith("Serving signature key"):
            return error
        return FailedPreconditionError(
            f"model {asked.model!r} at {asked.target} {lack}: it has no signature {signature!r}. {advice}",
            details=error.details,
            target=asked.target,
            model=asked.model,
        )

    def _classify(self, values: Inputs, which: Version) -> Steps[list[Classification]]:
        ranks = {LABEL: 1, SCORE: 1}
        parts = yield from self._parts(values, DEFAULT_SIGNATURE, which, ranks, "no classifier")
        if not any(len(part[LABEL]) for part in parts):
            return []
        classes = yield from self._classes_of(parts, which)
        return list(chain.from_iterable(_classified(part, classes) for part in parts))

    def _classes_of(self, parts: Sequence[Prediction], which: Version) -> Steps[Sequence[str] | None]:
        """The labels of the version that answered; None if it does not list them."""
        version = parts[0].version
        # Ask again if the server names no version, or has another model under the same number.
        if version not in self._classes or not version or not _fits(parts, self._classes[version]):
            self._classes[version] = yield from self._class_names(version, which)
        return self._classes[version]

    def _class_names(self, version: int, which: Version) -> Steps[Sequence[str] | None]:
        """The labels in the order of the probabilities."""
        return (yield from self._names_of(_CLASSIFY, version, which))

    def _names_of(self, signature: str, version: int, which: Version) -> Steps[Sequence[str] | None]:
        """The names that a signature of the Classify call returns for any row; None without it."""
        known = yield from self._operations.metadata_cache.known(which)
        if known is None or signature not in known.signatures or DEFAULT_SIGNATURE not in known.signatures:
            return None
        row = _made_up_row(known)
        answering = version if version else which
        try:
            # All outputs: the warmup of a server does not prepare the graph for one output alone.
            answer = yield from self._operations.predict([row], signature, None, answering)
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
            f"outputs {_listed(part)}, not {wanted}. {_other_call(part)}",
            target=asked.target,
            model=asked.model,
        )

    def _check(self, part: Prediction, fits: bool) -> None:
        if not fits:
            details = f"the outputs {_listed(part)} do not fit the rows, or each other"
            raise self._operations.server.malformed(details, part.signature)


def _other_call(part: Prediction) -> str:
    """Return which call is for the answers of a model that another call was made for."""
    ranks = {name: array.ndim for name, array in part.items()}
    if ENDED in ranks and TEXT in ranks:
        return "It writes texts: use `client.generate(...)`."
    if part.signature == DEFAULT_SIGNATURE and SCORE in ranks and ranks.get(LABEL) in (1, 2):
        one = ranks[LABEL] == 1
        return f"It answers labels: use `client.{'classify' if one else 'label'}(...)`."
    if ranks.get(PREDICTIONS) in (1, 2):
        return "It answers numbers: use `client.score(...)`, or `client.predict(...)` for all outputs."
    named = "" if part.signature == DEFAULT_SIGNATURE else f", signature={part.signature!r}"
    return f"Use `client.predict(...{named})`."


def _listed(part: Prediction) -> str:
    return ", ".join(f"{name} {list(array.shape)}" for name, array in part.items()) or "none"


def _rows_of(values: Inputs | Texts) -> Inputs:
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


def _documents(documents: Any) -> list[str]:
    """Return the documents of a ranking as a list, each checked to be a text."""
    is_table = hasattr(documents, "columns")  # which yields their names
    if is_table or isinstance(documents, str | bytes | Mapping) or not hasattr(documents, "__iter__"):
        raise InvalidInputError(f"documents must be a list of texts. Received {documents!r:.60}")
    texts: list[Any] = list(documents)
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidInputError(f"document {place} must be a text, a str. Received {text!r:.60}")
    return [str(text) for text in texts]


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))


def _bounded(sizes: Iterable[int], most: int) -> list[range]:
    """Return the rows of each call: `most` at most, and about `_MOST_BYTES`, or a single larger row."""
    calls: list[range] = []
    place = start = held = 0
    for place, size in enumerate(sizes):
        if place > start and (place - start == most or held + size > _MOST_BYTES):
            calls.append(range(start, place))
            start, held = place, 0
        held += size
    return [*calls, range(start, place + 1)]


def _or_again(which: Version, ask: Callable[[], Steps[T]]) -> Steps[T]:
    """Ask again if the version that answered was unloaded before its names were requested."""
    try:
        return (yield from ask())
    except NotFoundError:
        if which is not None and not isinstance(which, Label):
            raise
        return (yield from ask())


def _texts_of(values: Any) -> list[str]:
    """Return texts as a list of str, from which spans are cut; bytes are read as UTF-8, as the graph does."""
    if isinstance(values, Mapping) or hasattr(values, "columns"):  # a table yields the names of its columns
        raise InvalidInputError(f"texts must be a list of str. Received {cast(Any, values)!r:.60}")
    found: list[str] = []
    rows: Any = _rows_of(values)
    for number, text in enumerate(rows):
        if not isinstance(text, str | bytes):
            raise InvalidInputError(f"text {number} (counted from 0) is not a str. Received {text!r:.60}")
        found.append(text.decode(errors="replace") if isinstance(text, bytes) else str(text))
    return found


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


def _written(part: Prediction) -> list[Generated]:
    texts = [_text(text) for text in part[TEXT]]
    found = [
        # A search that found fewer texts than the model has beams fills up with the score of minus infinity.
        tuple(Candidate(_text(text), score) for text, score in zip(*row, strict=True) if score != -np.inf)
        for row in zip(part[CANDIDATES], part[CANDIDATE_SCORES].tolist(), strict=True)
    ]
    scores: list[float] = part[SCORE].tolist()
    ended = [bool(each) for each in part[ENDED]]
    return [Generated(*answer) for answer in zip(texts, scores, ended, found, strict=True)]


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
    targets = part.get("target_tokens", [None] * len(part["tokens"]))
    for tokens, weights, pooling, target in zip(
        part["tokens"], part["weights"], poolings, targets, strict=True
    ):
        names = _real(tokens)
        written = None if target is None else _real(target)
        queries, length = len(names if written is None else written), len(names)
        pooled = None if pooling is None else pooling[:, :length]
        found.append(Explanation(names, weights[..., :queries, :length], pooled, written))
    return found


def _real(tokens: np.ndarray) -> list[str]:
    """Return the tokens before the padding, which is at the end."""
    return [_text(token) for token in tokens[: int(np.count_nonzero(tokens.astype(bool)))]]


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
    return serialized_example({name: _made_up(name, spec) for name, spec in inputs.items()})


def _made_up(name: str, spec: TensorSpec) -> np.ndarray:
    if name == AUDIO and spec.dtype == "string" and spec.shape == (None,):
        return np.array([wav_bytes(np.zeros(0, np.int16), 8000)], dtype=object)  # a model reads WAV alone
    shape = [1 if size is None else size for size in (spec.shape or (1,))[1:]]
    if spec.dtype == "string":
        return np.full(shape, b"", dtype=object)
    return np.zeros(shape, np.int64 if "int" in spec.dtype or spec.dtype == "bool" else np.float32)

"""Answers of a model, and of a server about its versions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import grpc
import numpy as np

from ..errors import status_code
from ..wire import messages_pb2 as pb


class Prediction(dict[str, np.ndarray]):
    """The outputs of a call by name, and the version that answered.

    Args:
        outputs: name to array. A string output is an object array of `str` if all of it is valid UTF-8, else
            of `bytes`. Arrays may be read-only views of the answer: copy one to write to it.
        model: the model's name.
        version: the version that answered; 0 if the server does not name it.
        signature: the signature that was called.

    Example:
        >>> Prediction({"y": np.float32([2.5, 3.0])}, "half", 3, "serving_default")
        half, version 3, serving_default
          y: float32 [2] = [2.5 3. ]
    """

    def __init__(self, outputs: Mapping[str, np.ndarray], model: str, version: int, signature: str):
        super().__init__(outputs)
        self.model = model
        self.version = version
        self.signature = signature

    def __repr__(self) -> str:
        lines = [f"{self.model}, version {self.version}, {self.signature}"]
        for name, array in self.items():
            dtype = "string" if array.dtype == object else array.dtype
            values = np.array2string(array, threshold=6, edgeitems=2).replace("\n", "\n    ")
            lines.append(f"  {name}: {dtype} {list(array.shape)} = {values}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Classification:
    """A classifier's answer for one row.

    Attributes:
        label: the most probable label.
        score: its probability.
        scores: the probability of every label, in the model's order. A model without the signature `classify`
            does not list its labels: then this holds only the answered one.

    Example:
        >>> answer = Classification("pos", 0.75, {"neg": 0.25, "pos": 0.75})
        >>> answer.label, answer.scores["neg"]
        ('pos', 0.25)
    """

    label: str
    score: float
    scores: Mapping[str, float] = field(repr=False)


@dataclass(frozen=True)
class Candidate:
    """One of the texts that the search of a model found.

    Attributes:
        text: the text.
        score: by which candidates are ordered; the largest is the best.

    Example:
        >>> Candidate("2021-03-03", -0.125).text
        '2021-03-03'
    """

    text: str
    score: float


@dataclass(frozen=True)
class Generated:
    """A text that a model wrote for one row.

    Attributes:
        text: the answer; `str` of this object is the same.
        score: the mean log probability of its pieces, at most 0.
        ended: True if the model ended the text; False where its bound of pieces cut it.
        candidates: the texts that the search found, the best first: as many as the model has beams.

    Example:
        >>> answer = Generated("2021-03-03", -0.125, True, (Candidate("2021-03-03", -0.125),))
        >>> str(answer), answer.candidates[0].score
        ('2021-03-03', -0.125)
    """

    text: str
    score: float
    ended: bool
    candidates: tuple[Candidate, ...] = field(repr=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Ranked:
    """A document in the order of `rank`.

    Attributes:
        index: its place among the documents that were given, from 0 on.
        document: its text.
        score: of the model; the larger, the better it fits the query.

    Example:
        >>> Ranked(2, "It opens at nine.", 0.75).index
        2
    """

    index: int
    document: str
    score: float


@dataclass(frozen=True)
class Labelling:
    """A labeller's answer for one row: one entry for each of its positions, without padding.

    Attributes:
        labels: the label of each position.
        scores: their probabilities, float32.
        tokens: the tokens at the positions, if the model returns them; else None.

    Example:
        >>> Labelling(["DET", "NOUN"], np.float32([1, 0.5]), ["the", "film"]).labels
        ['DET', 'NOUN']
    """

    labels: Sequence[str]
    scores: np.ndarray
    tokens: Sequence[str] | None = None


@dataclass(frozen=True)
class Explanation:
    """Attention weights of a model for one text. A notebook shows the tokens on colours of `received`.

    Of a model that writes texts it shows what each written piece attends to, mean of layers and heads.

    Attention says where the model looks, not why it decides: `Contributions` are beside it.

    Attributes:
        tokens: the T tokens of the text.
        weights: float32 `[layers, heads, T, T]`: the weight of each token (column) for each query (row). If
            there are `target_tokens`, these are the queries: `[layers, heads, written, T]`.
        pooling: float32 `[hops, T]`: the weight of each token in the average of the tokens, if the model has
            `AttentionPooling`; else None.
        target_tokens: the pieces of the text that the model writes; None of a model that writes none.

    Example:
        >>> Explanation(["good"], np.ones((1, 1, 1, 1), np.float32)).tokens
        ['good']
    """

    tokens: Sequence[str]
    weights: np.ndarray = field(repr=False)
    pooling: np.ndarray | None = field(default=None, repr=False)
    target_tokens: Sequence[str] | None = None

    @property
    def received(self) -> np.ndarray:
        """The share of the attention that each token receives, mean of layers, heads and queries, `[T]`."""
        from keras_selfattn.drawing.notebook import received

        return received(self.weights)

    def _repr_html_(self) -> str:
        from keras_selfattn.drawing.notebook import shown_alignment, shown_tokens

        if self.target_tokens is not None:
            return shown_alignment(self.tokens, self.target_tokens, self.weights.mean(axis=(0, 1)))
        # A model does not say its unit; one that reads characters has tokens of one, and pieces of words that
        # are bytes have their own blanks.
        own = any(token.startswith(" ") for token in self.tokens)
        spaced = not own and any(len(token) > 1 for token in self.tokens)
        return shown_tokens(self.tokens, self.received, spaced=spaced)


@dataclass(frozen=True)
class Contributions:
    """The shares of the n-grams of one text in the logits of the labels, by the model's wide path.

    Attributes:
        ngrams: the G n-grams that count most, 100 at most. A pair has a blank between its words, "<s>" and
            "</s>" for the ends of the text; a gap has "_" for the word between; a piece of a word has a blank
            for an end of the word.
        kinds: "word", "pair", "gap" or "piece" of each.
        logits: float32 `[G, labels]`, in the order of the labels of `Classification.scores`.
        rest: float32 `[labels]`: what all other n-grams and the bias add.

    Example:
        >>> Contributions(["good"], ["word"], np.float32([[-0.5, 0.5]]), np.float32([0, 0])).ngrams
        ['good']
    """

    ngrams: Sequence[str]
    kinds: Sequence[str]
    logits: np.ndarray = field(repr=False)
    rest: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class VersionStatus:
    """The state of one version of a model.

    Attributes:
        version: the version's number.
        state: START, LOADING, AVAILABLE, UNLOADING or END.
        code: OK, or why it ended.
        message: the error that ended it; empty otherwise.

    Example:
        >>> VersionStatus(3, "AVAILABLE").available
        True
    """

    version: int
    state: str
    code: grpc.StatusCode = grpc.StatusCode.OK
    message: str = ""

    @property
    def available(self) -> bool:
        """True if the version answers requests."""
        return self.state == "AVAILABLE"

    def __str__(self) -> str:
        error = f" ({self.code.name}: {self.message})" if self.message else ""
        return f"version {self.version} is {self.state}{error}"


def with_text(prediction: Prediction) -> Prediction:
    """A prediction with the strings of each output as `str` if all of them are UTF-8, else as `bytes`."""
    if all(array.dtype != object for array in prediction.values()):
        return prediction
    outputs = {name: _as_text(array) for name, array in prediction.items()}
    return Prediction(outputs, prediction.model, prediction.version, prediction.signature)


def _as_text(array: np.ndarray) -> np.ndarray:
    if array.dtype != object:
        return array
    text = np.empty(array.shape, dtype=object)
    try:
        text.reshape(-1)[:] = [item.decode() for item in array.reshape(-1).tolist()]
    except UnicodeDecodeError:
        return array
    return text


def version_status(proto: pb.ModelVersionStatus) -> VersionStatus:
    """A version's state as reported by the server."""
    known = proto.state in pb.ModelVersionStatus.State.values()
    return VersionStatus(
        version=proto.version,
        state=pb.ModelVersionStatus.State.Name(proto.state) if known else f"state {proto.state}",
        code=status_code(proto.status.error_code),
        message=proto.status.error_message,
    )

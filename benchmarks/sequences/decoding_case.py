"""The measured cases of decoding: one trained model, its weights and sources, the same for every peer.

Axes: B (sources), S (symbols of a source), L (symbols of an answer), D (features), P (positions).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray

PADDING, UNKNOWN, BEGIN, END = range(4)
NEVER = 3  # the ids below this one are in no answer
NEVER_LOGIT = -1e9
EPSILON = 1e-5  # of the layer normalisations
LENGTH_PENALTY = 1.0
_POSITIONS = 512
_HEADS, _TABLE = "heads", "positions"


@dataclass(frozen=True)
class DecodingCase:
    """Sources that are answered by a model.

    Args:
        name: of the row in the table.
        weights: the file that `write_weights` wrote.
        sources: ids of each source, the end symbol included.
        batch: sources that are answered together.
        beams: hypotheses of a source; 1 is greedy search.
        max_new_tokens: the most symbols of an answer, the end symbol included.
        answers: the file where the contestant leaves its answers.
    """

    name: str
    weights: str
    sources: tuple[tuple[int, ...], ...]
    batch: int
    beams: int
    max_new_tokens: int
    answers: str = ""

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "DecodingCase":
        """Return the case that `to_json` described."""
        sources = tuple(tuple(source) for source in fields["sources"])
        return cls(**{**{name: fields[name] for name in cls.__dataclass_fields__}, "sources": sources})

    def to_json(self) -> dict[str, Any]:
        """Return the fields as `from_json` takes them."""
        return asdict(self)

    def batches(self) -> list[Array]:
        """Return the sources of each batch, int32 `[B, S]`, padded with 0."""
        starts = range(0, len(self.sources), self.batch)
        return [padded(self.sources[start : start + self.batch]) for start in starts]


class Weights:
    """The weights of a model, by the names that our layers give them.

    Args:
        path: the file that `write_weights` wrote.
    """

    def __init__(self, path: str | Path) -> None:
        with np.load(path) as found:
            self._arrays = dict(found)
        self.heads = int(self._arrays.pop(_HEADS))
        self.positions: Array = self._arrays.pop(_TABLE)  # [P, D]
        self.embeddings: Array = self["embedding/table/embeddings"]  # [V, D]

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def pair(self, name: str) -> tuple[Array, Array]:
        """Return kernel `[in, out]` and bias `[out]` of a projection."""
        separator = "/" if f"{name}/kernel" in self._arrays else "_"
        return self[f"{name}{separator}kernel"], self[f"{name}{separator}bias"]

    def projection(self, attention: str, name: str) -> tuple[Array, Array]:
        """Return kernel and bias of the "query", the "key", the "value" or the "output" of an attention."""
        if name == "output":
            return self.pair(f"{attention}/output")
        for parts in (("query", "key", "value"), ("key", "value"), ("query",)):
            together = f"{attention}/{'_'.join(parts)}"
            if name in parts and f"{together}_kernel" in self._arrays:
                kernel, bias = self.pair(together)
                place = parts.index(name)
                return np.split(kernel, len(parts), 1)[place], np.split(bias, len(parts))[place]
        raise KeyError(f"{attention}/{name}")

    def norm(self, name: str) -> tuple[Array, Array]:
        """Return gain and shift of a normalisation, `[D]` each."""
        return self[f"{name}/gamma"], self[f"{name}/beta"]

    def blocks(self, stack: str) -> list[str]:
        """Return the beginnings of the names of the blocks of the "encoder" or the "decoder"."""
        count = sum(
            name.startswith(stack) and name.endswith("/attention_norm/gamma") for name in self._arrays
        )
        return [f"{stack}/block_{place}" for place in range(count)]

    @property
    def never(self) -> Array:
        """The addend of logits, float32 `[V]`: symbols that no answer has never come."""
        return np.where(np.arange(len(self.embeddings)) < NEVER, NEVER_LOGIT, 0).astype(np.float32)


def write_weights(core: Any, heads: int, path: Path) -> None:
    """Write the weights of a `SequenceCore` with sinusoidal positions."""
    width = core.embedding.width
    encoding = core.get_layer("positions")
    table = np.asarray(encoding(np.zeros((1, _POSITIONS, width), np.float32)))[0]  # [P, D]
    arrays: dict[str, Any] = {each.path: np.asarray(each) for each in core.weights}
    np.savez(path, **arrays, **{_HEADS: heads, _TABLE: table})


def padded(rows: Sequence[Sequence[int]], least: int = 0) -> Array:
    """Return rows of ids as int32 `[B, at least so many]`, padded with 0."""
    found = np.full((len(rows), max([least, *map(len, rows)])), PADDING, np.int32)
    for place, row in enumerate(rows):
        found[place, : len(row)] = row
    return found


def until_end(ids: Sequence[int]) -> list[int]:
    """Return the ids before the end symbol, and it."""
    kept = [int(each) for each in ids if each != PADDING]
    return kept[: kept.index(END) + 1] if END in kept else kept

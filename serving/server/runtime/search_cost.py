"""The bytes and the length of the search for answers, of a version that writes texts, before it runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...wire import messages_pb2 as pb
from ...wire.signature_names import BEAMS, GENERATE, MAX_NEW_TOKENS

# Searches of fewer steps are soon over: to tell their lengths apart would only make batches smaller.
_FEW = 16


@dataclass(frozen=True)
class SearchCost:
    """The cost of a search at the bounds of its model, as the card has it.

    Args:
        row_bytes: the most bytes of a row, with all beams.
        beam_bytes: those of them that each beam takes; 0 if the card does not say.
        beams: of the export, the most that a request may ask for.

    Example:
        >>> SearchCost(row_bytes=100, beam_bytes=20, beams=4).of_row(np.int32([1, 2]))  # of two beams
        60
    """

    row_bytes: int
    beam_bytes: int = 0
    beams: int = 1

    @staticmethod
    def of_card(card: Mapping[str, Any] | None) -> "SearchCost | None":
        """Return the cost that a card gives; None if it has none, or values of other types."""
        decoding = card.get("decoding") if card is not None else None
        found: Mapping[str, Any] = decoding if isinstance(decoding, Mapping) else {}
        row, beam, beams = (_count(found.get(name)) for name in ("row_bytes", "beam_bytes", "beams"))
        if not row:
            return None
        fits = beam and beams and beam * beams <= row
        return SearchCost(row, beam, beams) if fits else SearchCost(row)

    def of_row(self, asked: np.ndarray | None) -> int:
        """Return the most bytes of a row of a request.

        Args:
            asked: the beams of its rows, of which the most count; None for the export's.
        """
        if asked is None or not asked.size or asked.dtype.kind not in "iu":
            return self.row_bytes
        # 0 is the export's; others out of range are refused by the graph.
        widest = int(np.where(asked < 1, self.beams, np.minimum(asked, self.beams)).max())
        return self.row_bytes - (self.beams - widest) * self.beam_bytes


def beams_asked(
    signatures: Mapping[str, pb.SignatureDef], name: str, feeds: Mapping[str, np.ndarray]
) -> np.ndarray | None:
    """Return the beams that a request asks for; None of a signature without them.

    Args:
        signatures: of the version.
        name: of the signature that is asked.
        feeds: arrays by tensor name.
    """
    return _setting(BEAMS, signatures, name, feeds)


class SearchLength(NamedTuple):
    """How long the search for the answers to a request may take: a power of two of what bounds its steps.

    Nobody knows the length of an answer before. It is taken to be about that of its source.

    source: of the bytes of the longest text.
    answer: of those bytes, or of the most symbols that the request asks for if these are fewer.

    Example:
        >>> SearchLength.of({}, "", {"text": np.array([b"x" * 40, b"short"], object)})
        SearchLength(source=2, answer=2)
    """

    source: int
    answer: int

    @staticmethod
    def of(
        signatures: Mapping[str, pb.SignatureDef], name: str, feeds: Mapping[str, np.ndarray]
    ) -> "SearchLength":
        """Return that of a request; the arguments are those of `beams_asked`."""
        texts = [array for array in feeds.values() if array.dtype == object]
        source = _power(max((len(text) for array in texts for text in array.flat), default=0))
        most = _setting(MAX_NEW_TOKENS, signatures, name, feeds)
        if most is None or not most.size or most.dtype.kind not in "iu" or most.min() < 1:
            return SearchLength(source, source)  # 0 is the export's own
        return SearchLength(source, min(source, _power(int(most.max()))))


def _power(steps: int) -> int:
    """Return 0 for few, and one more each time that the steps double."""
    return (steps // _FEW).bit_length()


def _setting(
    setting: str, signatures: Mapping[str, pb.SignatureDef], name: str, feeds: Mapping[str, np.ndarray]
) -> np.ndarray | None:
    """Return the values of a setting of the search; None of a signature without it."""
    if name != GENERATE or name not in signatures or setting not in signatures[name].inputs:
        return None
    return feeds.get(signatures[name].inputs[setting].name)


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0

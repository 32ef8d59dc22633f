"""Read a model of SentencePiece: its pieces with their scores, and its map of characters.

Reference: sentencepiece's `sentencepiece_model.proto`; protobuf.dev, "Encoding".
"""

import base64
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_selfattn.errors import ConfigError

_UNIGRAM = 1
# Fields of the messages: ModelProto, its SentencePiece, TrainerSpec and NormalizerSpec.
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3
_TEXT, _SCORE, _TYPE = 1, 2, 3
# Types of pieces that are found in a text as they are.
_CONTROL, _USER_DEFINED = 3, 4
_KIND, _UNKNOWN_ID, _BYTE_FALLBACK = 3, 40, 35
_MAP = 2


def read_model(path: Path) -> dict[str, Any]:
    """Return what a file holds, as the model of a `tokenizer.json`.

    Beside it are its "path", the map of characters "charsmap" in base64, and the pieces that are tokens of
    their own, "special".

    Raises:
        ConfigError: for a file that is damaged, and for a model of another kind than unigram.
    """
    try:
        return {"path": path, **_read(path, path.read_bytes())}
    except ConfigError:
        raise
    except (OSError, IndexError, KeyError, TypeError, ValueError, AttributeError, struct.error) as error:
        raise ConfigError(
            f"{path} is no model of SentencePiece, or a damaged one: {error!r}. Fetch it again."
        ) from error


def _read(path: Path, content: bytes) -> dict[str, Any]:
    pieces, special, trainer, normalizer = [], [], {}, {}
    for field, value in _fields(content):
        if field == _PIECES:
            piece = dict(_fields(value))
            (score,) = struct.unpack("<f", piece.get(_SCORE, b"\0" * 4))
            pieces.append([piece[_TEXT].decode(), score])
            if piece.get(_TYPE) in (_CONTROL, _USER_DEFINED):
                special.append(pieces[-1][0])
        elif field == _TRAINER:
            trainer = dict(_fields(value))
        elif field == _NORMALIZER:
            normalizer = dict(_fields(value))
    kind = trainer.get(_KIND, _UNIGRAM)
    if kind != _UNIGRAM or not pieces:
        raise ConfigError(
            f"{path} holds no unigram model (model_type {kind}), and only these can be read. Give the folder "
            "of a model with one, such as XLM-RoBERTa."
        )
    return {
        "type": "Unigram",
        "vocab": pieces,
        "unk_id": trainer.get(_UNKNOWN_ID, 0),
        "byte_fallback": bool(trainer.get(_BYTE_FALLBACK, 0)),
        "special": special,
        "charsmap": base64.b64encode(normalizer.get(_MAP, b"")).decode(),
    }


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message: an int, or the bytes of a text, a message, or a number with a point."""
    place = 0
    while place < len(message):
        key, place = _number(message, place)
        wire = key & 7
        if wire == 0:
            value, place = _number(message, place)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, place = message[place : place + size], place + size
        elif wire == 2:
            size, place = _number(message, place)
            value, place = message[place : place + size], place + size
        else:
            raise IndexError(f"wire type {wire}")
        if place > len(message):
            raise IndexError("cut off")
        yield key >> 3, value


def _number(message: bytes, place: int) -> tuple[int, int]:
    """Return a number of variable length, and the place after it."""
    found = shift = 0
    while True:
        byte = message[place]
        place += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return found, place
        shift += 7

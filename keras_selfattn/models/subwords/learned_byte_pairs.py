"""Byte-level byte pairs learned from texts, and the tokenizer that they make.

The `tokenizers` package learns them. A model carries them in its own graph and needs the package no more.

Axes: V (vocabulary).
"""

import json
from collections.abc import Sequence
from typing import Any

from keras_selfattn.errors import DataError
from keras_selfattn.extras import require
from keras_selfattn.models.subwords.byte_pair_settings import BytePairSettings
from keras_selfattn.models.subwords.byte_pairs import BytePairs, byte_letters, bytes_of

PAD, HIDDEN, BEGIN, END = "⟨pad⟩", "⟨mask⟩", "⟨s⟩", "⟨/s⟩"
"""The special pieces, whose ids are 0 to 3. No text has them: no byte is written as an angle bracket."""
SPECIAL_PIECES = (PAD, HIDDEN, BEGIN, END)
LEAST_PIECES = len(SPECIAL_PIECES) + 256
"""The smallest vocabulary: special pieces and bytes."""
MOST_PIECES = 8_000
"""The largest vocabulary where none is asked for."""
# Bytes of a piece, so that a line of dashes in each text is no piece of its own.
_LONGEST = 64


class LearnedBytePairs(BytePairs):
    """The tokenizer of byte pairs that were learned from texts.

    A text becomes `⟨s⟩`, its pieces and `⟨/s⟩`. Its case, its blanks and its form of Unicode are kept: the
    bytes of its pieces are those of the text.

    Args:
        merges: those of `learn_merges`; the vocabulary follows from them.
        max_tokens: longer texts are cut at the end; the pieces around a text count.

    Raises:
        ConfigError: for a merge of pieces that are not there, and if a text has no room.

    Example:

        >>> tokenizer = LearnedBytePairs(["g o", "go o", "goo d"], max_tokens=8)
        >>> (ids,), cut = tokenizer.rows(["good god"])
        >>> [tokenizer.names[piece] for piece in ids]
        ['⟨s⟩', 'good', ' ', 'go', 'd', '⟨/s⟩']

    Reference: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units", algorithm
    1; Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2.
    """

    def __init__(self, merges: Sequence[str], max_tokens: int) -> None:
        settings = BytePairSettings(
            max_tokens,
            merges=tuple(merges),
            unknown=HIDDEN,  # bytes lack nothing
            cls=BEGIN,
            sep=END,
            pad=PAD,
            mask=HIDDEN,
            separators=1,
            second_type=1,
        )
        made = [merge.replace(" ", "") for merge in merges]
        # Two merges may make one piece.
        super().__init__(settings, list(dict.fromkeys([*SPECIAL_PIECES, *byte_letters(), *made])))

    @property
    def bytes_of_ids(self) -> list[bytes]:
        """The bytes of each piece `[V]`; none of a special one."""
        return [bytes_of(piece) or b"" for piece in self.vocabulary]


def saved_vocabulary(tokenizer: Any) -> list[str]:
    """Return what a model saves of its tokenizer: the tokens, or the merges of pieces that it learned."""
    if isinstance(tokenizer, LearnedBytePairs):
        return list(tokenizer.settings.merges)
    return tokenizer.vocabulary


def learn_merges(texts: Sequence[str], size: int, min_count: int) -> list[str]:
    """Return the pairs of pieces to merge, the most frequent first, each two pieces with a blank between.

    The same texts give the same merges, in any order and with any number of threads. A lone surrogate, which
    has no UTF-8 form, is read as "?".

    Args:
        texts: the training texts.
        size: the most pieces of the vocabulary, special ones and bytes included; at least `LEAST_PIECES`.
        min_count: the fewest occurrences of a pair that is merged.

    Raises:
        MissingExtraError: if the package `tokenizers` is not installed.
        DataError: if no two bytes are together that often.

    Example:

        >>> learn_merges(["low lower lowest"], size=300, min_count=3)
        ['l o', 'lo w']
    """
    require("pieces", "Learning pieces from texts", "tokenizers")
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    byte_level: Any = pre_tokenizers.ByteLevel
    made: Any = Tokenizer(models.BPE())
    made.pre_tokenizer = byte_level(add_prefix_space=False)
    trainer: Any = trainers.BpeTrainer
    trainer = trainer(
        vocab_size=size - len(SPECIAL_PIECES),
        min_frequency=min_count,
        initial_alphabet=byte_level.alphabet(),
        max_token_length=_LONGEST,
        show_progress=False,
    )
    made.train_from_iterator((text.encode(errors="replace").decode() for text in texts), trainer)
    merges = [" ".join(pair) for pair in json.loads(made.to_str())["model"]["merges"]]
    if not merges and size > LEAST_PIECES:
        raise DataError(
            f"The {len(texts)} texts are too few to learn pieces from: no two bytes of a word are together "
            f"{min_count} times. Give more texts, or the tokens words or characters."
        )
    return merges

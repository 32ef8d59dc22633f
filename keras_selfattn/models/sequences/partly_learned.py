"""Rows that a model of answers can learn in part only: cut ones, and those with symbols that it lacks."""

from collections.abc import Sequence

from keras_selfattn.errors import DataError
from keras_selfattn.models.config import SequenceConfig
from keras_selfattn.models.long_rows import warn_of_cut
from keras_selfattn.models.sequences.symbols import END, Symbols
from keras_selfattn.user_warnings import warn_user

# Answers that are read at once, until a known symbol is found.
_PART = 1024


def tell_of_lost(
    symbols: Symbols, config: SequenceConfig, sources: Sequence[str], answers: Sequence[str], start: str = ""
) -> None:
    """Warn of sources and answers that are cut, and of answers with unknown symbols.

    Args:
        symbols: of the model.
        config: of the model.
        sources: of the training rows.
        answers: all right ones.
        start: the path of the model whose symbols these are; "" if they were learned from rows.

    Raises:
        DataError: if all symbols of all answers are unknown: their ends alone would be learned.
    """
    _check_some_known(symbols, config, answers, start)
    warn_of_cut(symbols.rows(sources)[1], len(sources), config.max_tokens)
    warn_of_cut_answers(symbols, config, answers)
    unknown = symbols.unknown_in(answers, config.max_new_tokens)
    if unknown.count:
        warn_user(
            f"{unknown.count:,} of {len(answers):,} answers have {symbols.unit} that the model does not know "
            f"and never writes, such as {unknown.named}. The rest of these answers is learned. "
            f"{_remedy(config, start)}"
        )


def warn_of_cut_answers(symbols: Symbols, config: SequenceConfig, answers: Sequence[str]) -> None:
    """Warn of answers that are longer than the model's may be."""
    most = config.max_new_tokens
    if cut := symbols.answers(answers, most)[1]:
        warn_user(
            f"{cut} of {len(answers)} answers are longer than max_new_tokens={most} symbols. They are "
            "cut there, and their end is not learned or scored."
        )


def _check_some_known(symbols: Symbols, config: SequenceConfig, answers: Sequence[str], start: str) -> None:
    parts = (answers[first : first + _PART] for first in range(0, len(answers), _PART))
    rows = (symbols.answers(part, config.max_new_tokens)[0] for part in parts)
    if not any((row > END).any() for part in rows for row in part):
        raise DataError(
            f"None of the {symbols.unit} of the {len(answers):,} answers is known to the model, so there is "
            f"nothing to learn. {_remedy(config, start)}"
        )


def _remedy(config: SequenceConfig, start: str) -> str:
    """Return why symbols are unknown, and how they become known."""
    if start:
        return f"It has the {config.tokens} of {start}: train without `start` (--from) to learn others."
    return (
        f"Rare {config.tokens} are not learned (min_count={config.min_count}, vocabulary_size="
        f'{config.vocabulary_size}): set `min_count` to 1, or `tokens` (--tokens) to "pieces".'
    )

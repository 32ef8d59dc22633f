"""Words of two texts a row, and how far both texts agree, as hashed ids for the wide path.

Axes: B (pairs), N (features of all pairs).
"""

import dataclasses
from typing import Any

import tensorflow as tf

from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.core.both_orders import in_one_order
from keras_selfattn.models.text.ngrams import BUCKETS, NamedNGrams, NGrams, trigrams_of_words
from keras_selfattn.models.text.tokenizer import PairWords, clipped, split, tokens_of_pairs

Tensor = Any

PAIR_KINDS = ("text", "text_pair", "both", "one", "agreement")
"""Kinds of features: words of the first text, of the second, in both, in one alone; shares of both."""
SYMMETRIC_KINDS = ("either", "either", "both", "one", "agreement")
"""The same where the order of both texts says nothing: a word of one text is the same in the other."""
# Shares are told in tenths.
_STEPS = 10


def pair_ngram_ids(config: TextConfig, first: Tensor, second: Tensor) -> NGrams:
    """Return the features of two texts a row, string `[B]` each, as n-grams of the wide path.

    Words have ids below `BUCKETS`: each of the first text, of the second, in both and in one alone. Shares
    have ids from there on, in tenths: of the different words, and of the runs of three characters in words,
    that both texts have, of all and of those of each text.

    If the config is `symmetric`, words of either text are one feature, shares are of the text with fewer and
    of the one with more, and a pair has the features of its reverse.
    """
    return named_pair_ngrams(config, first, second).ngrams


def pair_kinds(config: TextConfig) -> tuple[str, ...]:
    """Return the names of the kinds of features that a model of pairs reads."""
    return SYMMETRIC_KINDS if config.symmetric else PAIR_KINDS


def named_pair_ngrams(config: TextConfig, first: Tensor, second: Tensor) -> NamedNGrams:
    """Return the features of `pair_ngram_ids` with their names and kinds, indices into `pair_kinds`."""
    if config.symmetric:
        first, second = in_one_order(first, second)
    # As of one text, the cut is that of the config's tokens.
    by_words = dataclasses.replace(config, tokens="words")
    words = [split(by_words, clipped(config, texts)) for texts in (first, second)]
    rows = tf.size(first)
    of_words = tokens_of_pairs(*((each.value_rowids(), each.flat_values) for each in words))
    of_pieces = tokens_of_pairs(*(trigrams_of_words(each) for each in words))
    both = of_words.has[0] & of_words.has[1]
    parts = [
        *(
            (tf.cast(each.value_rowids(), tf.int32), each.flat_values, place)
            for place, each in enumerate(words)
        ),
        *((of_words.rows[kept], of_words.names[kept], place) for place, kept in ((2, both), (3, ~both))),
    ]
    names = tf.concat([each for _, each, _ in parts], axis=0)
    kinds = tf.concat([tf.fill(tf.shape(each), kind) for _, each, kind in parts], axis=0)
    hashed = tf.strings.join([tf.gather(tf.constant(pair_kinds(config)), kinds), names], " ")
    ids = tf.cast(tf.strings.to_hash_bucket_fast(hashed, BUCKETS), tf.int32)
    shares = [
        *_shares("words", of_words, rows, config.symmetric),
        *_shares("pieces", of_pieces, rows, config.symmetric),
    ]
    share_names = tf.concat(shares, axis=0)
    share_ids = tf.cast(tf.strings.to_hash_bucket_fast(share_names, BUCKETS), tf.int32) + BUCKETS
    all_rows = tf.concat([*(each for each, _, _ in parts), tf.tile(tf.range(rows), [len(shares)])], axis=0)
    found = NGrams(all_rows, tf.concat([ids, share_ids], axis=0), rows)
    kinds = tf.concat([kinds, tf.fill(tf.shape(share_names), PAIR_KINDS.index("agreement"))], axis=0)
    return NamedNGrams(found, tf.concat([names, share_names], axis=0), kinds)


def _shares(what: str, found: PairWords, rows: Tensor, symmetric: bool) -> list[Tensor]:
    """Return the names of a pair's shares, string `[B]` each."""

    def count(kept: Tensor) -> Tensor:
        return tf.math.unsorted_segment_sum(tf.cast(kept, tf.int32), found.rows, rows)  # [B]

    both = count(found.has[0] & found.has[1])
    wholes = {"all": count(found.has[0] | found.has[1])}
    counts = [count(has) for has in found.has]
    if symmetric:
        wholes |= {"the fewer": tf.minimum(*counts), "the more": tf.maximum(*counts)}
    else:
        wholes |= dict(zip(PAIR_KINDS, counts, strict=False))
    # Integers, so that no rounding differs between machines.
    tenths = {of: _STEPS * both // tf.maximum(whole, 1) for of, whole in wholes.items()}
    return [
        tf.strings.join([f"{what} of {of} in both, tenths:", tf.strings.as_string(share)], " ")
        for of, share in tenths.items()
    ]

"""The token side of a labeller whose pieces and encoder come from a pretrained model.

Axes: B (batch), T (tokens), K (pieces of a token), S (parts of rows), P (pieces of a part), D (features).
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_selfattn.layers.weights.settings import weights_to_come
from keras_selfattn.models.long_rows import pieces_within, warn_of_parts
from keras_selfattn.models.pretrained.fine_tuning import FineTuning
from keras_selfattn.models.pretrained.pretrained_body import encoded_pieces
from keras_selfattn.models.pretrained.row_parts import FirstPieces, RowParts
from keras_selfattn.models.pretrained.word_pieces import WordPieces


class PretrainedTokens(FineTuning):
    """The token side of a labeller whose pieces and encoder come from a pretrained model.

    A token is what the encoder returns at its first piece.

    Args:
        config: of the labeller, a `FineTunedTokenConfig`.

    Reference: Devlin et al. 2019, "BERT", section 5.3.
    """

    def tokenizer_of(self, vocabulary: Sequence[str]) -> WordPieces:
        """Return the pieces of a vocabulary."""
        return WordPieces(self._saved_tokenizer(vocabulary))

    def learn_tokenizer(self, rows: Sequence[Sequence[str]], start: Any) -> WordPieces:
        """Return the pieces of the model to start from; warn of training rows that are read in parts."""
        pieces = self.tokenizer_of(self._vocabulary(start))
        most = self._config.max_tokens
        long = sum(np.count_nonzero(ids) > pieces_within(most) for ids in pieces.rows(rows))
        warn_of_parts(int(long), len(rows), most)
        return pieces

    def encoder(self, pieces: WordPieces, policy: Any) -> keras.Model:
        """Return the layers from ids of pieces `[B, T, K]` to the vectors of tokens `[B, T, D]`."""
        config, tokenizer = self._config, pieces.tokenizer
        features = keras.Input((None, None), dtype="int32", name="features")
        cls, sep = map(tokenizer.id_in_text, (tokenizer.settings.cls, tokenizer.settings.sep))
        ids, places = RowParts(config.max_tokens, cls, sep, name="parts")(features)  # [S, P], [B, T]
        with weights_to_come():
            x = encoded_pieces(ids, config, tokenizer, policy)  # [S, P, D]
        x = FirstPieces(dtype=policy, name="first_pieces")([x, places])  # [B, T, D]
        x = keras.layers.Dropout(config.head_dropout, dtype=policy, name="head_dropout")(x)
        model = keras.Model(features, x)
        self.freeze(model)
        return model

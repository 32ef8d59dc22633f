"""A regressor of raw text, or of pairs of texts, that carries its vocabulary: a score a row, or several.

Axes: N (numbers of a row).
"""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import keras
import numpy as np

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.config import ScoreConfig
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.heads.number_head import NumbersHead
from keras_selfattn.models.heads.score_heads import BoundedScoreHead, ScoreHead
from keras_selfattn.models.pretrained.fine_tuning_config import FineTunedScoreConfig
from keras_selfattn.models.pretrained.pretrained_pieces import PretrainedPieces
from keras_selfattn.models.pretrained.pretrained_start import EncoderStart, PretrainedStart
from keras_selfattn.models.text.ngram_linear import NGramLogits
from keras_selfattn.models.text.starting_model import StartingModel, starting_point
from keras_selfattn.models.text.text_model import TextModel

# Scores of a pretrained encoder move it less than labels do. Spearman on the development rows of the STS
# benchmark, two epochs from MiniLM-L6: docs/accuracy.md, "Pairs with scores".
_FROM_PRETRAINED = {"learning_rate": 1e-4, "batch_size": 16}


@keras.saving.register_keras_serializable(package="keras_selfattn")
class TextRegressor(TextModel):
    """Self-attention model from raw strings to one or several numbers each, in the units of the targets.

    The first `fit` learns the vocabulary from its rows (or call `adapt`); it is saved in the `.keras` file.
    Beside attention, a ridge regression of n-grams is fitted (with `bounded`, a logistic regression). The
    prediction is a weighted mean of both, whose weights `training.train` fits on held-out rows. `compile()`
    without arguments sets Adam (`training.FineTuningAdamW` for a pretrained encoder) and squared error in
    deviations of the targets; or cross-entropy with `bounded`.

    Args:
        config: the model's settings; a `ScoreConfig` or the dict of one; with a pretrained model's folder,
            the fields of a `FineTunedScoreConfig` that the folder does not determine.
        vocabulary: tokens in the order of their ids, or the merges that make the pieces; left out before
            training.
        mean: of each number in the training rows; left out before training.
        deviation: standard deviation of each; left out before training.
        names: of several numbers, if they were the columns of a table; left out before training.
        unscaled: True if the output layer's own numbers are the answers, as of an imported model; left out
            before training.
        text_pairs: True if a row is two texts, `(text, text_pair)`; by default the rows of the first `fit`
            decide.
        wide_features: the number of n-grams of the wide path; left out before training.
        start: the model whose vocabulary and weights this one starts from, as for `TextClassifier`.

    Call arguments:
        inputs: string `[batch]`, or int32 `[batch, length]` token ids with 0 as padding; for pairs of texts
            string `[batch, 2]`, or ids and types of tokens, int32 `[batch, length, 2]`.
        training: dropout acts only if True.

    Returns:
        float32 `[batch, numbers]`; in [0, 1] with `bounded`.

    Raises:
        ConfigError: for a field of the config out of range.
        DataError: for rows that cannot train a regressor, such as targets of one value only.

    Example:

        >>> model = TextRegressor(ScoreConfig(width=8, num_layers=1, num_heads=2))
        >>> model.compile()
        >>> texts, stars = ["good", "fine", "so", "poor"] * 8, [5.0, 4.0, 3.0, 1.0] * 8
        >>> _ = model.fit(texts, stars, epochs=1, verbose=0)
        >>> model.predict(["good film"], verbose=0).shape
        (1, 1)
    """

    config_type = ScoreConfig
    tuned_config_type = FineTunedScoreConfig
    starting_point = staticmethod(partial(starting_point, kind=FineTunedScoreConfig, learned=ScoreConfig))
    learns = "the vocabulary, and mean and deviation of the targets"
    returns = "numbers in the units of the targets"

    def __init__(
        self,
        config: ScoreConfig | FineTunedScoreConfig | dict[str, Any] | None = None,
        *,
        vocabulary: Sequence[str] | None = None,
        mean: Sequence[float] | None = None,
        deviation: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
        unscaled: bool | None = None,
        text_pairs: bool | None = None,
        wide_features: int | None = None,
        start: str | Path | StartingModel | EncoderStart | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, start=start, text_pairs=text_pairs, **kwargs)
        if len({value is None for value in (vocabulary, mean, deviation)}) != 1:
            raise ConfigError("`vocabulary`, `mean` and `deviation` go together. Give all of them or none.")
        self._check_one_beginning(vocabulary)
        for name, value in (("wide_features", wide_features), ("names", names)):
            if vocabulary is None and value is not None:
                raise ConfigError(f"`{name}` is of a model with `vocabulary`, `mean` and `deviation`.")
        if vocabulary is not None and mean is not None and deviation is not None:
            self.tokenizer = self._words.tokenizer_of(vocabulary)
            head = self.head_type(None)(mean, deviation, names, unscaled=unscaled)
            if wide_features is not None:
                self.wide = NGramLogits(wide_features, len(head.mean), False, name="wide")
            self._assemble(head)

    @classmethod
    def from_folder(
        cls,
        folder: str | os.PathLike[str],
        *,
        text_pairs: bool | None = None,
        symmetric: bool = False,
        **kwargs: Any,
    ) -> "TextRegressor":
        """Return the model of a folder of the Hugging Face kind that gives scores; it needs no training.

        The folder is one that `TextClassifier.from_folder` reads, but its outputs are numbers: one alone, or
        the `problem_type` of its `config.json` is "regression". The scores are those of
        sentence-transformers' `CrossEncoder.predict`: with `bounded` after a sigmoid, as the folder says.
        Where it does not say it, a regression has none, any other single output has one. `fit` trains it
        further, without scaling to the targets.

        Args:
            folder: the folder, or its name in the Hugging Face hub.
            text_pairs: True if a row is two texts, False if it is one; None for what the folder says, which
                is two of a cross-encoder of sentence-transformers.
            symmetric: True averages the output layer's numbers of both orders of a pair, so that they have
                the same score.
            kwargs: of `keras.Model`, such as `dtype`.

        Raises:
            RunError: if the folder or one of its files is missing or broken.
            ConfigError: for what cannot be read, as of `TextClassifier.from_folder`; for a function after the
                output layer other than a sigmoid; and if nobody says how many texts a row is.

        Example (of a folder that sentence-transformers has saved):

            model = TextRegressor.from_folder("path/to/ms-marco-MiniLM-L6-v2")
            model.predict([("how many live in Berlin", "Berlin has 3.5 million inhabitants.")])
        """
        begun = PretrainedStart(folder, FineTunedScoreConfig)
        head = begun.folder_head(scores=True)
        count = len(head.labels)
        model = cls(
            begun.config({"wide": False, "bounded": head.bounded, "symmetric": symmetric}),
            vocabulary=begun.vocabulary,
            mean=[0.0] * count,
            deviation=[1.0] * count,
            unscaled=True,
            text_pairs=head.reads_pairs(text_pairs, symmetric=symmetric),
            **kwargs,
        )
        begun.copy_to(model.core, model.head)
        model.start = begun
        return model

    def advised_training(self, rows: int) -> dict[str, Any]:
        advised = super().advised_training(rows)
        advised = {name: value for name, value in advised.items() if name != "label_smoothing"}
        return advised | (_FROM_PRETRAINED if self._from_pretrained else {})

    @property
    def _from_pretrained(self) -> bool:
        return isinstance(self._words, PretrainedPieces)

    @property
    def _evenness(self) -> float | None:
        # What a block of a pretrained encoder keeps for its gradient is most of a training's memory.
        return 2.0 if self._from_pretrained else None

    def parts_beside(self) -> dict[str, str]:
        kind = "logistic" if self.config.bounded else "ridge"
        return {"wide path": f"a {kind} regression of hashed n-grams"} if self.config.wide else {}

    def baselines(self, x: Any) -> dict[str, np.ndarray]:
        """Return the mean of the training targets, and the predictions of the wide path alone, if any.

        Of an imported model there are none.
        """
        inputs = self.read_inputs(x)
        head = cast(ScoreHead, self.head)
        # An imported model knows no targets of a training.
        mean = np.tile(np.asarray(head.mean), (len(inputs), 1))
        found = {} if head.unscaled else {"mean of training": mean}
        wide = self._side_inputs(inputs, training=False)
        if wide is None:
            return found
        if self.config.bounded:
            return {**found, "logistic regression": (1 + np.tanh(wide / 2)) / 2}  # exp would overflow
        return {**found, "ridge": wide * np.asarray(head.deviation) + np.asarray(head.mean)}

    def head_type(self, y: Any) -> type[ScoreHead]:
        return BoundedScoreHead if self.config.bounded else ScoreHead

    def _fit_linear(self, rows: Rows, head: Head) -> Head:
        if self.config.wide:
            # Imported here, because SciPy and scikit-learn take longer than the rest of the models.
            from keras_selfattn.models.text.ngram_scores import fitted

            numbers = cast(NumbersHead, head)
            targets = np.stack(rows.targets)  # [rows, N]
            bounded = self.config.bounded
            if not bounded:
                targets = (targets - numbers.mean) / numbers.deviation
            self.wide = fitted(
                self._words.ngrams, rows.inputs, targets, rows.weights_of_rows, bounded=bounded
            )
        return head

"""A classifier of raw text that carries its vocabulary and label names."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.classifier import Classifier, class_head
from keras_selfattn.models.config import TextConfig
from keras_selfattn.models.pretrained.fine_tuning_config import FineTunedConfig
from keras_selfattn.models.pretrained.pretrained_start import EncoderStart, PretrainedStart
from keras_selfattn.models.text.ngram_linear import NGramLogits
from keras_selfattn.models.text.starting_model import StartingModel, starting_point
from keras_selfattn.models.text.text_model import TextModel
from keras_selfattn.rows.targets import LABEL_SET

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_selfattn")
class TextClassifier(TextModel, Classifier):  # pyright: ignore[reportIncompatibleVariableOverride]
    """Self-attention classifier that takes raw strings in `fit`, `predict` and `evaluate`.

    The first `fit` learns the vocabulary and the label names from its rows (or call `adapt`); both are saved
    in the `.keras` file. If labels of the first `fit` are lists, not all of one, rows can have several
    labels, or none. `compile()` without arguments sets Adam (`training.FineTuningAdamW` for a pretrained
    encoder), cross-entropy and accuracy.

    Args:
        config: the model's settings; a `TextConfig` or the dict of one; with a pretrained model's folder, the
            fields of a `FineTunedConfig` that the folder does not determine.
        vocabulary: tokens in the order of their ids, or the merges that make the pieces; left out before
            training.
        labels: label names in the order of the classes; left out before training.
        multi_label: True if a row can have several labels; by default the labels of the first `fit` decide.
        text_pairs: True if a row is two texts, `(text, text_pair)`; by default the rows of the first `fit`
            decide. Steps of training then read whole rows: `training_span` is of one text.
        wide_features: the number of n-grams of the wide path; left out before training.
        start: the model whose vocabulary and weights this one starts from: the folder of a pretrained model,
            as for `TextEncoder`; or a run folder or `.keras` file of a `MaskedTokenModel`, or of a classifier
            of text. Fields of `config` that it determines can be left out. A `MaskedTokenModel` that began
            with a pretrained model's folder is a start like that folder.

    Call arguments:
        inputs: string `[batch]`, or int32 `[batch, length]` token ids with 0 as padding; for pairs of texts
            string `[batch, 2]`, or ids and types of tokens, int32 `[batch, length, 2]`.
        training: dropout acts only if True.

    Returns:
        Probabilities, float32 `[batch, classes]`: they sum to 1 unless a row can have several labels.

    Raises:
        ConfigError: for a field of the config out of range.
        DataError: for rows that cannot train a classifier.

    Example:

        >>> model = TextClassifier(TextConfig(width=8, num_layers=1, num_heads=2))
        >>> model.compile()
        >>> _ = model.fit(["good", "fine", "bad", "poor"] * 8, ["+", "+", "-", "-"] * 8, epochs=1, verbose=0)
        >>> model.labels, model.predict(["good film"], verbose=0).shape
        (['+', '-'], (1, 2))
    """

    config_type = TextConfig
    tuned_config_type = FineTunedConfig
    starting_point = staticmethod(starting_point)
    learns = "the vocabulary and the label names"
    returns = "a probability for each label"

    def __init__(
        self,
        config: TextConfig | FineTunedConfig | dict[str, Any] | None = None,
        *,
        vocabulary: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        multi_label: bool | None = None,
        text_pairs: bool | None = None,
        wide_features: int | None = None,
        start: str | Path | StartingModel | EncoderStart | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, start=start, multi_label=multi_label, text_pairs=text_pairs, **kwargs)
        self._check_state(vocabulary, labels)
        if vocabulary is None and wide_features is not None:
            raise ConfigError("`wide_features` is of a model with `vocabulary` and `labels`.")
        if vocabulary is not None and labels is not None:
            self.tokenizer = self._words.tokenizer_of(vocabulary)
            if wide_features is not None:
                self.wide = NGramLogits(wide_features, len(labels), not multi_label, name="wide")
            self._assemble(class_head(labels, multi_label=multi_label))

    @classmethod
    def from_folder(
        cls,
        folder: str | os.PathLike[str],
        *,
        text_pairs: bool | None = None,
        symmetric: bool = False,
        **kwargs: Any,
    ) -> "TextClassifier":
        """Return the classifier of a folder of the Hugging Face kind, with its head; it needs no training.

        The folder is one that `TextEncoder` reads, and its `config.json` names a model
        "…ForSequenceClassification" of one of its families, with two labels or more. The probabilities are
        those of `transformers`. `fit` trains it further, on rows with labels that it knows.

        Args:
            folder: the folder, or its name in the Hugging Face hub.
            text_pairs: True if a row is two texts, such as a premise and a hypothesis; None for what the
                folder says, which is two of a cross-encoder of sentence-transformers, and one of all others.
            symmetric: True averages the logits of both orders of a pair, so that they have the same answer.
            kwargs: of `keras.Model`, such as `dtype`.

        Raises:
            RunError: if the folder or one of its files is missing or broken.
            ConfigError: for what cannot be read: an encoder without such a head, an output that is a number
                (see `TextRegressor.from_folder`), and weights that do not fit; it names all of them.

        Example (of a folder that `transformers` has saved):

            model = TextClassifier.from_folder("path/to/distilbert-base-uncased-finetuned-sst-2-english")
            model.predict(["a good film"])
        """
        begun = PretrainedStart(folder)
        head = begun.folder_head(scores=False)
        model = cls(
            begun.config({"wide": False, "symmetric": symmetric}),
            vocabulary=begun.vocabulary,
            labels=head.labels,
            multi_label=head.target_kind == LABEL_SET,
            text_pairs=head.reads_pairs(text_pairs, symmetric=symmetric),
            **kwargs,
        )
        begun.copy_to(model.core, model.head)
        model.start = begun
        return model

    def parts_beside(self) -> dict[str, str]:
        return {"wide path": "a linear model of hashed n-grams"} if self.config.wide else {}

    def _fit_linear(self, rows: Rows, head: Any) -> Any:
        if self.config.wide:
            # Imported here, because SciPy and scikit-learn take longer than the rest of the models.
            from keras_selfattn.models.text.ngram_fit import fitted

            targets = head.encoded(rows.targets)
            self.wide = fitted(
                self._words.ngrams, rows.inputs, targets, len(head.labels), rows.weights_of_rows
            )
        return head

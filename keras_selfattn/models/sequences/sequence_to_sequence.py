"""A model from texts to texts of its own length: symbols of both sides, an encoder and a decoder.

Axes: B (rows), S (symbols of a source), T (symbols of an answer), N (candidates), L (steps), V (vocabulary).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import keras
import numpy as np

from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.models.batches.length_sorted import checked_size, padded
from keras_selfattn.models.batches.rows import Rows
from keras_selfattn.models.batches.shapes import lengths_allowed
from keras_selfattn.models.batches.shares import WHOLE, current_share
from keras_selfattn.models.batches.sources import BatchSource, is_source
from keras_selfattn.models.config import SequenceConfig, check_penalty, is_count
from keras_selfattn.models.heads.class_heads import Head
from keras_selfattn.models.raw_model import RawModel
from keras_selfattn.models.sequences.decoding import CompiledDecoding, answers_of, rows_at_once
from keras_selfattn.models.sequences.partly_learned import tell_of_lost, warn_of_cut_answers
from keras_selfattn.models.sequences.search import SearchSettings
from keras_selfattn.models.sequences.sequence_batches import SequenceBatches
from keras_selfattn.models.sequences.sequence_core import NEVER, SequenceCore
from keras_selfattn.models.sequences.sequence_head import AnswerHead
from keras_selfattn.models.sequences.sequence_start import SequenceStart, sequence_starting_point
from keras_selfattn.models.sequences.symbols import PADDING, Symbols, learn_symbols, symbols_of
from keras_selfattn.models.sequences.text_answer import EMPTY, Answer, AnswerExplanation
from keras_selfattn.rows.texts import TEXTS
from keras_selfattn.user_warnings import warn_user

Tensor = Any

# Sources that are decoded together where nobody says how many.
_TOGETHER = 64
# The most passes over at most so many rows, and over more.
_EPOCHS, _LEAST_EPOCHS = ((3_000, 100), (50_000, 30)), 15


@keras.saving.register_keras_serializable(package="keras_selfattn")
class SequenceToSequence(RawModel):
    """Transformer from raw texts to texts: an encoder, and a decoder that writes the answer.

    The first `fit` learns the symbols of both sides from its rows (or call `adapt`); they are saved in the
    `.keras` file. `compile()` without arguments sets Adam and the cross-entropy of the next symbol, after the
    right ones before it. Answers are then searched for: `predict` gives their texts, `generate` also their
    scores.

    Args:
        config: the model's settings; a `SequenceConfig` or the dict of one.
        vocabulary: what the symbols are made of, as a trained model has it (`symbols.vocabulary`); left out
            before training.
        start: a trained model to go on from, its run folder or `.keras` file: its config, symbols and
            weights are those of this one, but for the fields given in `config`. Symbols that the new rows
            have and it has not stay unknown.
        kwargs: of `keras.Model`, such as `dtype`.

    Call arguments:
        inputs: ids of sources, int32 `[batch, length]`, and of answers from their begin symbol on, int32
            `[batch, length]`; 0 is padding.
        training: dropout acts only if True.

    Returns:
        Logits of the symbol after each of an answer, float32 `[batch, length of the answers, vocabulary]`.

    Raises:
        ConfigError: for a field of the config out of range, or one that contradicts `start`.
        DataError: for rows that cannot train the model.
        RunError: for a `start` that is no trained model of answers.

    Example:

        >>> model = SequenceToSequence(SequenceConfig(width=8, num_heads=2, tokens="characters"))
        >>> model.compile()
        >>> _ = model.fit(["ab", "ba"] * 4, ["ba", "ab"] * 4, epochs=1, verbose=0)
        >>> [type(text).__name__ for text in model.predict(["ab", ""], verbose=0)]
        ['str', 'str']

    Reference: Vaswani et al. 2017, "Attention Is All You Need".
    """

    config_type = SequenceConfig
    row_kind = TEXTS
    learns = "the symbols of sources and answers"
    returns = "texts"
    starting_point = staticmethod(sequence_starting_point)

    def __init__(
        self,
        config: SequenceConfig | dict[str, Any] | None = None,
        *,
        vocabulary: Sequence[str] | None = None,
        start: str | Path | SequenceStart | None = None,
        **kwargs: Any,
    ) -> None:
        if vocabulary is not None and start is not None:
            raise ConfigError(
                "`start` is of a model before training, without `vocabulary`. Leave one of them out."
            )
        begun = None if start is None else sequence_starting_point(start)
        super().__init__(config if begun is None else begun.config(config), **kwargs)
        self.start = begun
        self._symbols: Symbols | None = None
        self._told: int | None = None
        if vocabulary is not None:
            self._symbols = symbols_of(self.config, vocabulary)
            self._assemble(AnswerHead())

    @property
    def symbols(self) -> Symbols:
        """The symbols of both sides."""
        if self._symbols is None:
            self._check_adapted()  # raises
        return cast(Symbols, self._symbols)

    def call(self, inputs: Any, training: bool | None = None) -> Tensor:
        if not isinstance(inputs, list | tuple | dict) or len(inputs) != 2:
            raise ConfigError(
                "A call takes the ids of sources and of answers, [source, target], and returns logits. For "
                f"the answers to texts call `predict` or `generate`. Received {type(inputs).__name__}."
            )
        return self.core(inputs, training=training)

    def head_type(self, y: Any) -> type[Head]:
        return AnswerHead

    def advised_training(self, rows: int) -> dict[str, Any]:
        # Steps count, not passes: 300 strings were reversed without an error after 250 steps, and few rows
        # have few steps in a pass.
        epochs = next((epochs for most, epochs in _EPOCHS if rows <= most), _LEAST_EPOCHS)
        return {"learning_rate": 1e-3, "label_smoothing": 0.1, "epochs": epochs, "patience": 6}

    def alternatives(self) -> list[dict[str, Any]]:
        tokens = "characters" if self.config.tokens == "pieces" else "pieces"
        changes: list[dict[str, Any]] = [
            {"learning_rate": 2e-3},
            {"dropout": 0.2},
            {"tokens": tokens, "vocabulary_size": None},
            {"width": 128},
            {"learning_rate": 5e-4},
            {"num_layers": 4},
            {"batch_size": 32},
        ]
        return [each for each in changes if self.start is None or not self.start.contradicted(each)]

    def get_config(self) -> dict[str, Any]:
        vocabulary = None if self._symbols is None else self._symbols.vocabulary
        # Once copied, the weights are this model's.
        start = None if self.start is None or vocabulary is not None else self.start.path
        return {**super().get_config(), "vocabulary": vocabulary, "start": start}

    # Adapt:

    def _learn(self, rows: Rows | None, head: Head, validation: Any, size: int | None, kwargs: Any) -> Any:
        if rows is not None and self._head is not None:  # the first rows are told of by `_learn_front_end`
            AnswerHead.from_targets(rows.targets)  # raises if there is nothing to learn
            self._tell_of(rows)
        return super()._learn(rows, head, validation, size, kwargs)

    def _learn_front_end(self, rows: Rows) -> None:
        if all(source == each[0] for source, each in zip(rows.inputs, rows.targets, strict=True)):
            warn_user(
                f"The answer of each of the {len(rows.inputs)} rows is its source, so there is nothing to "
                "learn but a copy. Check the columns (--source, --target)."
            )
        answers = [text for each in rows.targets for text in each]
        if self.start is None:
            self._symbols = learn_symbols(self.config, [*rows.inputs, *answers])
        else:
            self._symbols = symbols_of(self.config, self.start.symbols.vocabulary)
        self._settings(None, None, None)  # more beams than symbols, before anything is trained
        self._tell_of(rows)

    def _prepare(self, rows: Rows) -> None:
        if self.start is not None:
            self.start.copy_to(self.core)

    def _tell_of(self, rows: Rows) -> None:
        """Warn of rows that are learned in part, once for the same rows."""
        answers = [text for each in rows.targets for text in each]
        these = hash((tuple(rows.inputs), tuple(answers)))
        if these != self._told:
            start = "" if self.start is None else self.start.path
            tell_of_lost(self.symbols, self.config, rows.inputs, answers, start)
            self._told = these

    def _build_core(self, head: Any) -> SequenceCore:
        head.symbols, head.max_new_tokens = self.symbols, self.config.max_new_tokens
        core = SequenceCore(self.config, self.symbols.size, self.dtype_policy)
        self._decoding = CompiledDecoding(core)
        return core

    def _forget(self) -> None:
        super()._forget()
        self._symbols = self._told = None

    # Rows to batches:

    def _features(self, inputs: Sequence[str]) -> list[np.ndarray]:
        return self.symbols.rows(inputs)[0]

    def batches(
        self,
        rows: Rows,
        batch_size: int | None,
        *,
        training: bool = False,
        shuffle: bool = False,
        seed: int = 0,
    ) -> SequenceBatches:
        """Return batches of rows; each right answer is a row of its own, of the row's weight."""
        sources, answers, weights = self._features(rows.inputs), None, rows.weights_of_rows
        if rows.targets:
            counts = list(map(len, rows.targets))
            texts = [text for each in rows.targets for text in each]
            answers = self.symbols.answers(texts, self.config.max_new_tokens)[0]
            sources = [source for source, count in zip(sources, counts, strict=True) for _ in range(count)]
            weights = None if weights is None else np.repeat(weights, counts)
        return SequenceBatches(
            sources,
            answers,
            weights,
            vocabulary_size=self.symbols.size,
            batch_size=checked_size(batch_size),
            shuffle=shuffle,
            seed=seed,
            pool=self._sorted_together,
            lengths=lengths_allowed(training=training),
            share=current_share() if training else WHOLE,
        )

    # Predict:

    def predict(self, x: Any, batch_size: int | None = None, **kwargs: Any) -> Any:
        """Return the answers to raw texts, str each, in their order; see `generate`.

        Args:
            x: raw texts; batches of them, as for `fit`; or inputs of `keras.Model.predict`, which returns
                logits.
            batch_size: rows that are decoded together.
            kwargs: `verbose`, `callbacks`, … of `keras.Model.predict`; `steps` for batches.
        """
        x = self._reader.source(x)
        if isinstance(x, BatchSource):
            self._check_adapted()
            x = x.rows(kwargs.pop("steps", None)).inputs
        if not self._is_raw(x):
            return super().predict(x, batch_size, **kwargs)
        if kwargs.pop("steps", None) is not None:
            raise ConfigError("`steps` is for data sets. Give fewer rows instead.")
        texts, settings = self._checked(x), self._settings(None, None, None)
        return [answer.text for answer in self._answers(texts, batch_size, settings, **kwargs)]

    def predict_on_batch(self, x: Any) -> Any:
        """Return the answers to raw texts, or what `keras.Model.predict_on_batch` returns for its inputs."""
        x = self.given_rows(x)
        if not self._is_raw(x):
            return super().predict_on_batch(x)
        return [answer.text for answer in self.generate(x, max(1, len(x)))]

    def generate(
        self,
        texts: Any,
        batch_size: int | None = None,
        *,
        beams: int | None = None,
        max_new_tokens: int | None = None,
        length_penalty: float | None = None,
        prefix: str | Sequence[str] | None = None,
    ) -> list[Answer]:
        """Return the answers to texts, in their order, with scores and the other candidates.

        An answer is the same alone and among others. An empty or blank text has the empty answer, which is
        its prefix alone if it has one.

        Args:
            texts: in any container.
            batch_size: rows that are decoded together, 64 if None; fewer where their memory would be large.
            beams: candidates that the search follows; None for the config's, as of the next two.
            max_new_tokens: the most symbols of an answer, at most the config's.
            length_penalty: as for `SequenceConfig`.
            prefix: the beginning of the answers: a text for all, or one for each, where "" is none. Its
                symbols count in `max_new_tokens` and in scores. As learned pieces begin with the blank before
                a word, a prefix that ends between two words is best written without one.

        Raises:
            DataError: before training, or for values that are no texts.
            ConfigError: for a setting out of range, a prefix that no answer can begin with, and on another
                backend than TensorFlow.
            TrainingError: if the outputs of the model are NaN.

        Example:

            >>> model = SequenceToSequence({"width": 8, "num_heads": 2, "tokens": "characters"})
            >>> model.adapt(["ab", "ba"] * 8, ["yz", "zy"] * 8)
            >>> model.generate(["ab"], prefix="z", max_new_tokens=3)[0].text[0]
            'z'
        """
        settings = self._settings(beams, max_new_tokens, length_penalty)
        rows = self._checked(texts)
        prefixes = None if prefix is None else self._prefixes(prefix, len(rows), settings.max_new_tokens)
        return list(self._answers(rows, batch_size, settings, prefixes))

    def measured_outputs(self, x: Any, batch_size: int | None = None) -> list[Answer]:
        return self.generate(x, batch_size)

    def check_backend(self) -> None:
        if keras.backend.backend() != "tensorflow":
            raise ConfigError(
                "Answers are searched for by TensorFlow operations. The backend of Keras is "
                f"{keras.backend.backend()}: set KERAS_BACKEND=tensorflow, and leave out --processes, which "
                "trains on JAX. A model that `fit` trained and `save` wrote here gives answers there, too."
            )

    def baselines(self, x: Any) -> dict[str, np.ndarray]:
        """Return the texts themselves, as the answers of who copies them."""
        return {"copying": np.array(self.read_inputs(x), object)}

    def _checked(self, texts: Any) -> list[str]:
        self._check_adapted()
        self.check_backend()
        return self.read_inputs(self._texts_alone(texts))

    def _texts_alone(self, texts: Any) -> Any:
        """Return texts in a list or an array; raise DataError for batches of them."""
        if is_source(texts):
            raise DataError(
                f"Texts come as a list or an array here. Received batches, a {type(texts).__name__}: "
                "`predict` takes them, or give the texts of all batches."
            )
        return self.given_rows(texts)

    def _settings(
        self, beams: int | None, max_new_tokens: int | None, length_penalty: float | None
    ) -> SearchSettings:
        """Return the checked settings of a search; those of the config where they are None."""
        config = self.config
        width = config.beams if beams is None else beams
        most = config.max_new_tokens if max_new_tokens is None else max_new_tokens
        penalty = config.length_penalty if length_penalty is None else length_penalty
        choices = self.symbols.size - NEVER
        if not is_count(width) or width > choices:
            raise ConfigError(
                f"`beams` must be an integer from 1 to {choices}, the symbols that answers can have. "
                f"Received {width!r}."
            )
        if not is_count(most) or most > config.max_new_tokens:
            raise ConfigError(
                f"`max_new_tokens` must be an integer from 1 to {config.max_new_tokens}, the model's own. "
                f"Received {most!r}."
            )
        check_penalty(penalty)
        return SearchSettings(most, width, float(penalty))

    def _prefixes(self, prefix: str | Sequence[str], rows: int, most: int) -> list[np.ndarray]:
        """Return the checked ids with which each answer begins, int32 `[P]`."""
        many: Any = [prefix] * rows if isinstance(prefix, str) else prefix
        texts: list[Any] = list(many) if hasattr(many, "__iter__") else [None]
        if len(texts) != rows or not all(isinstance(text, str) for text in texts):
            raise ConfigError(
                f"`prefix` must be a str, or one for each of the {rows} texts. Received {prefix!r:.60}."
            )
        return self.symbols.prefixes(texts, most)

    def _answers(
        self,
        texts: list[str],
        batch_size: int | None,
        settings: SearchSettings,
        prefixes: list[np.ndarray] | None = None,
        verbose: str | int = 0,
        callbacks: Any = None,
    ) -> list[Answer]:
        """Return the answers to checked texts, those of similar length together."""
        found = [EMPTY] * len(texts)
        if prefixes is not None:
            found = [Answer(text, 0.0, True, (text,), (0.0,)) for text in self.symbols.texts(prefixes)]
        places = np.array([place for place, text in enumerate(texts) if text.strip()], np.int64)
        sources = self._features([texts[place] for place in places])
        order = np.argsort([len(source) for source in sources], kind="stable")
        size = _TOGETHER if batch_size is None else checked_size(batch_size)
        if len(sources):
            longest = len(sources[order[-1]])
            size = min(size, rows_at_once(self.config, self.symbols.size, longest, settings))
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        told = keras.callbacks.CallbackList(
            callbacks, add_progbar=verbose != 0, verbose=verbose, epochs=1, steps=len(batches), model=self
        )
        told.on_predict_begin()
        for step, batch in enumerate(batches):
            told.on_predict_batch_begin(step)
            begun = None if prefixes is None else padded([prefixes[place] for place in places[batch]])
            candidates = self._decoding(padded([sources[row] for row in batch]), settings, begun)
            answers = answers_of(candidates, self.symbols, settings.length_penalty)
            told.on_predict_batch_end(step, {"outputs": answers})
            for place, answer in zip(places[batch], answers, strict=True):
                found[place] = answer
        told.on_predict_end()
        return found

    # Known answers:

    def score_target(self, sources: Any, targets: Any, batch_size: int | None = None) -> list[np.ndarray]:
        """Return the log probability of each symbol of a known answer, the end symbol included.

        Args:
            sources: texts, in any container.
            targets: the answer to each; of several right ones the main one.
            batch_size: rows in a step.

        Returns:
            float32 `[T]` for each row; -infinity for a symbol that the model does not have.

        Raises:
            DataError: before training, or for rows that are no texts.
        """
        self._check_adapted()
        rows = self._with_main_answers(sources, targets)
        warn_of_cut_answers(self.symbols, self.config, [each[0] for each in rows.targets])
        found: list[np.ndarray] = [np.zeros(0, np.float32)] * len(rows.inputs)
        batches = self.batches(rows, batch_size)
        places = iter(batches.order)
        for (source, target), labels in batches:
            of_batch = self._decoding.log_probabilities(source, target, labels)
            for row, length in zip(of_batch, (target != PADDING).sum(axis=1), strict=True):
                place = next(places, None)  # the last rows may be copies
                if place is not None:
                    found[place] = row[:length]
        return found

    def explain(self, sources: Any, targets: Any = None) -> list[AnswerExplanation]:
        """Return the attention from the symbols of answers to those of their sources.

        Args:
            sources: texts, in any container.
            targets: the answer to each; None for the model's own.

        Raises:
            DataError: before training, or for rows that are no texts.
        """
        self._check_adapted()
        own = targets is None
        rows = self._with_main_answers(sources, self.predict(sources) if own else targets)
        if not own:
            warn_of_cut_answers(self.symbols, self.config, [each[0] for each in rows.targets])
        names, found = np.array(self.symbols.names, object), []  # NumPy's own strings drop a last NUL
        read = self._features(rows.inputs)
        written = self.symbols.answers([each[0] for each in rows.targets], self.config.max_new_tokens)[0]
        for source, target in zip(read, written, strict=True):
            weights = self._decoding.alignment(source[None], target[None, :-1])[0]
            found.append(AnswerExplanation(tuple(names[source]), tuple(names[target[1:]]), weights))
        return found

    def _with_main_answers(self, sources: Any, targets: Any) -> Rows:
        rows = self.read_rows(self._texts_alone(sources), targets, None, AnswerHead)
        return Rows(rows.inputs, [each[:1] for each in rows.targets])

    # Quantize:

    def quantize(self, *args: Any, **kwargs: Any) -> None:
        super().quantize(*args, **kwargs)
        self._decoding = CompiledDecoding(self.core)  # of the new weights

    quantize.__doc__ = RawModel.quantize.__doc__

"""Methods of `keras.Model` for raw rows: call, `summary`, `export`; and the names of answers."""

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from keras_selfattn import layers
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.files.version_files import PORTABLE
from keras_selfattn.layers.tensorflow.custom_gradients import keep_in_graph
from keras_selfattn.layers.weights.policy_maps import settle_leaves
from keras_selfattn.models import weights_record
from keras_selfattn.models.batches.length_sorted import padded
from keras_selfattn.models.building_plan import plan_lines
from keras_selfattn.models.deferred_compile import DeferredCompile
from keras_selfattn.rows.containers import ordered_rows


class KerasMethods(DeferredCompile):
    """A model of raw rows that is called, summarised and exported like any model of Keras."""

    # For the summary before training: what the first rows determine, and what `predict` returns.
    learns: ClassVar[str]
    returns: ClassVar[str]
    config: Any  # an `EncoderConfig`
    # Of weights that are being loaded, and are not this model's.
    _refusal: ConfigError | None = None

    @abstractmethod
    def _is_raw(self, x: Any) -> bool:
        """Return True if `x` holds raw rows, not inputs of `keras.Model`."""

    @abstractmethod
    def read_inputs(self, x: Any) -> list[Any]:
        """Return raw rows in any container as a list, each checked; may be empty."""

    @abstractmethod
    def _features(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """Return the core's features of each row, `[T, ...]`."""

    def _side_inputs(self, inputs: Sequence[Any], *, training: bool) -> np.ndarray | None:
        """Return the core's inputs beside the features of each row, if there are any."""
        return None

    def _check_adapted(self) -> None:
        if self._head is None:
            raise DataError(
                "The model has not seen any rows yet. Call `fit` or `adapt` with rows and labels first."
            )

    def label(self, x: Any, batch_size: int | None = None) -> list[Any]:
        """Return the names that the model gives to raw rows, as its kind defines them."""
        raise ConfigError(f"A {type(self).__name__} returns {self.returns}, and no names. Call `predict`.")

    def parts_beside(self) -> dict[str, str]:
        """Return descriptions of the parts beside the encoder, by name."""
        return {}

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs for one batch: of raw rows in a list, or of tensors as in `keras.Model`."""
        inputs = ordered_rows(inputs)
        strings = isinstance(inputs, np.ndarray) and (inputs.dtype.kind in "OUST" or inputs.shape == (0,))
        if (strings or isinstance(inputs, list | tuple | str)) and self._is_raw(inputs):
            inputs = self._one_batch(self.read_inputs(inputs))
        outputs = super().__call__(inputs, *args, **kwargs)
        keep_in_graph()
        return outputs

    def train_step(self, *args: Any) -> Any:
        """Run one step as `keras.Model.train_step`; the memory of its graph goes with the model."""
        logs = super().train_step(*args)
        keep_in_graph()
        return logs

    def _one_batch(self, rows: Sequence[Any]) -> Any:
        """Return the core's inputs for rows in their order."""
        self._check_adapted()
        if not rows:
            raise DataError("A call needs at least one row. Received none; `predict` takes none.")
        features, beside = padded(self._features(rows)), self._side_inputs(rows, training=False)
        return features if beside is None else [features, beside]

    def summary(self, *args: Any, print_fn: Any = None, **kwargs: Any) -> None:
        """Print the layers as `keras.Model.summary` does; before the first `fit`, what it will build."""
        if self._head is not None:
            super().summary(*args, print_fn=print_fn, **kwargs)
            return
        for line in plan_lines(self):
            (print_fn or print)(line)

    def load_weights(self, filepath: Any, skip_mismatch: bool = False, **kwargs: Any) -> None:
        """Load weights as `keras.Model.load_weights` does, if they belong to what this model has learned.

        A file of weights has a record of the words, labels and settings that they belong to. If they are
        others than this model's, no weight is changed. A file of an earlier version, which has no record, is
        loaded with a warning.

        Args:
            filepath: a `.weights.h5`, `.weights.json` or `.keras` file.
            skip_mismatch: True loads them nevertheless, and layers only where shapes agree, with a warning.
            kwargs: of `keras.Model.load_weights`.

        Raises:
            DataError: for a model that has not seen any rows.
            ConfigError: for weights of other words, labels or settings; it names the differences.
        """
        if self._head is None:
            raise DataError(
                "The model has not seen any rows yet, and a file of weights holds neither words nor labels. "
                "Load the whole model, its .keras file, with `models.load`; or call `adapt` with the rows "
                "that the saved one has learned from, and then `load_weights`."
            )
        has_record = True
        if not skip_mismatch:
            has_record = weights_record.check_file(filepath, self._record(), self.config.training_only)
        super().load_weights(filepath, skip_mismatch=skip_mismatch, **kwargs)
        if not has_record:
            weights_record.warn_of_no_record(filepath)

    def save_own_variables(self, store: Any) -> None:
        super().save_own_variables(store)
        if self._head is not None:
            weights_record.write(store, self._record())

    def load_own_variables(self, store: Any) -> None:
        super().load_own_variables(weights_record.without_record(store))
        found = weights_record.read(store)
        # Not all loading begins with `load_weights` above: this model may be a part of another, which Keras
        # visits once for each name that it has there, and with an empty store from the second on. A refusal
        # must last till then, because a visit without an error would count as loaded.
        if found is None:
            if self._refusal is not None:
                raise self._refusal
        elif self._head is not None:
            self._refusal = None
            try:
                weights_record.check(found, self._record(), self.config.training_only, "The file")
            except ConfigError as error:
                self._refusal = error
                raise

    def _record(self) -> dict[str, Any]:
        return weights_record.record_of(self.get_config())

    def quantize(self, mode: Any = None, config: Any = None, filters: Any = None, **kwargs: Any) -> None:
        """Round the kernels of attention, dense and embedding layers to int8, as `keras.Model.quantize` does.

        The saved file and an export take about a quarter of the bytes for these kernels. What is left to be
        trained is the rest, after the model is compiled as before.

        Args:
            mode: "int8".
            config: a `keras.quantizers.Int8QuantizationConfig`.
            filters: the layers to quantize, as for `keras.Model.quantize`.
            kwargs: of `keras.Model.quantize`.

        Raises:
            DataError: for a model that has not seen any rows.
            ConfigError: for another mode, or a model that is quantized already.
        """
        with warnings.catch_warnings():
            # For each layer without kernels.
            warnings.filterwarnings("ignore", ".*does not have a `quantize` method", UserWarning)
            # Keras 3.12 has no filters.
            given = {"config": config, "filters": filters}
            kwargs |= {name: value for name, value in given.items() if value is not None}
            settle_leaves(self)
            super().quantize(mode, **kwargs)
        if self.compiled:
            self.compile_again(new_optimizer=True)

    def _check_quantize_args(self, mode: str, compute_dtype: str) -> None:
        """Keras calls it before anything is changed."""
        self._check_adapted()
        if mode != "int8":
            raise ConfigError(f'`mode` must be "int8", the only one of these models. Received {mode!r}.')
        if quantized := layers.quantized_parts(self):
            raise ConfigError(
                f"The model is quantized already, in {len(quantized)} layers, and can be so once. Load the "
                "file of the model as it was before, to quantize it in another way."
            )
        super()._check_quantize_args(mode, compute_dtype)

    def export(
        self,
        filepath: Any,
        format: str = "tf_saved_model",  # noqa: A002  as Keras names it
        verbose: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Write the next version for a server or another runtime; return its path, `filepath/VERSION`.

        Unlike Keras' own, it has this project's signatures and card, and was checked in a fresh process.

        Args:
            filepath: the folder of all versions.
            format: "tf_saved_model", which takes raw rows; "onnx" or "litert", which take numbers.
            verbose: True prints the name of each stage.
            kwargs: of `export.export_saved_model`, or of `export.export_portable`.

        Raises:
            ConfigError: for another format.
            ExportError: if the model cannot be exported.
        """
        if format not in ("tf_saved_model", *PORTABLE):
            raise ConfigError(
                f"`format` must be 'tf_saved_model', 'onnx' or 'litert'. Received {format!r}. For it, export "
                f"the part after preprocessing: model.core.export(..., format={format!r})."
            )
        # The only import of a higher layer, when it is called: `keras.Model` has this method, and Keras' own
        # knows neither raw rows nor labels.
        from keras_selfattn.export import export_portable, export_saved_model

        progress = print if verbose else None
        if format == "tf_saved_model":
            return export_saved_model(self, filepath, progress=progress, **kwargs)
        return export_portable(self, filepath, format, progress=progress, **kwargs)

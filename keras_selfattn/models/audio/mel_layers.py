"""Layers of models of sound: standardise log-mel frames, change them at random in training, subsample them.

Axes: B (batch), T (frames), M (mel bands), P (positions), C (channels), D (width).
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_selfattn.layers import Encoder
from keras_selfattn.layers.attention_math import at_least_one
from keras_selfattn.layers.feed_forward import gelu
from keras_selfattn.layers.tensorflow import builds_portable_graph, map_in_turn
from keras_selfattn.layers.weights.projection import Dense
from keras_selfattn.models.images.patches import Conv2D
from keras_selfattn.models.series.frame_layers import real_frames, statistics
from keras_selfattn.models.series.random_convolutions import RandomConvolutions

Tensor = Any

# Deviations at which values are clipped.
_MOST = 20.0
# Taps of a convolution along both axes, frames of a position, and positions that one sees on either side.
_TAPS, _STEP, _SEEN = 3, 4, 2
# Frames of a window of random convolutions: 10 s.
_WINDOW = 1000
# Positions of a part of the encoder: 100 s. Recordings from two parts on are computed by parts.
_PART = 2500


@keras.saving.register_keras_serializable(package="keras_selfattn")
class MelFrames(keras.layers.Layer):
    """Subtract the loudness of each row, and standardise each band by the training rows.

    The loudness is the mean over all bands and real frames of a row, so that a gain, a factor of all samples,
    has no effect but in bands as quiet as the bank's floor. Frames of NaN are padding, and masked; they
    become 0.

    Call arguments:
        inputs: float `[batch, frames, bands]`, logarithms of energies.

    Returns:
        float32 `[batch, frames, bands]`, none beyond 20 deviations.

    Weights: mean and deviation of each band, `[bands]`, not trainable; `learn` sets them.

    Example:

        >>> import numpy as np
        >>> layer = MelFrames()
        >>> layer.learn([np.array([[0.0, 2.0], [4.0, 2.0]], "float32")])
        >>> print(np.asarray(layer(np.array([[[3.0, 5.0], [np.nan, np.nan]]], "float32")))[0])
        [[-0.5  1. ]
         [ 0.   0. ]]
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"dtype": "float32", **kwargs})

    def build(self, input_shape: tuple) -> None:
        options: Any = {"shape": (input_shape[-1],), "trainable": False, "dtype": "float32"}
        self.mean = self.add_weight(name="mean", initializer="zeros", **options)
        self.deviation = self.add_weight(name="deviation", initializer="ones", **options)

    def learn(self, rows: list[np.ndarray]) -> None:
        """Set mean and deviation to those of rows `[T, M]`, each without its loudness."""
        if not self.built:
            self.build((None, None, rows[0].shape[1]))
        mean, deviation = statistics(np.concatenate([row - row.mean() for row in rows if len(row)]))
        self.mean.assign(mean)
        self.deviation.assign(deviation)

    def call(self, inputs: Tensor) -> Tensor:
        inputs = ops.cast(inputs, "float32")
        real = ops.expand_dims(real_frames(inputs), 2)  # [B, T, 1]
        values = ops.where(real, inputs, 0.0)
        count = ops.sum(ops.cast(real, "float32"), axis=(1, 2), keepdims=True) * inputs.shape[-1]
        loudness = ops.sum(values, axis=(1, 2), keepdims=True) / ops.maximum(count, 1.0)
        scaled = (values - (loudness + self.mean)) / self.deviation
        return ops.where(real, ops.clip(scaled, -_MOST, _MOST), 0.0)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor:
        return real_frames(inputs)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class SpecAugment(keras.layers.Layer):
    """Change frames at random, in training only: other voices, another speed, and bands and frames left out.

    Bands are stretched by up to `warp` in either direction, as a longer or shorter vocal tract does, and
    frames by up to `speed`, both by linear interpolation. Then up to `masks` runs of bands, and as many of
    frames, become 0, the training rows' mean; a run is up to a fifth of the bands, or of the row's real
    frames, long.

    Args:
        warp, speed: shares in [0, 1).
        masks: runs along each axis.
        seed: int; None draws one.

    Call arguments:
        inputs: float `[batch, frames, bands]`, 0 where it is padding.
        mask: bool `[batch, frames]`.
        training: the layer acts only if True.

    Returns:
        float `[batch, frames, bands]`. A row that gets longer is cut at its real frames; in one that gets
        shorter, the last frame is repeated.

    Example:

        >>> import numpy as np
        >>> SpecAugment(seed=1)(np.ones((1, 4, 8), "float32"), training=True).shape
        TensorShape([1, 4, 8])

    References: Park et al. 2019, "SpecAugment". Jaitly and Hinton 2013, "Vocal Tract Length Perturbation
    improves speech recognition" (bands). Ko et al. 2015, "Audio augmentation for speech recognition" (speed).
    """

    def __init__(
        self,
        *,
        warp: float = 0.05,
        speed: float = 0.15,
        masks: int = 1,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.warp, self.speed, self.masks, self.seed = warp, speed, masks, seed
        self._draws = keras.random.SeedGenerator(seed)

    def call(self, inputs: Tensor, mask: Tensor | None = None, training: bool | None = None) -> Tensor:
        if not training:
            return inputs
        batch, frames, bands = ops.shape(inputs)[0], ops.shape(inputs)[1], inputs.shape[-1]
        real = ops.ones((batch, frames), "float32") if mask is None else ops.cast(mask, "float32")
        count = ops.sum(real, axis=1)  # [B]
        every = ops.ones_like(count) * bands
        # A frame more, so that there is one to be gathered.
        x: Any = ops.pad(inputs, [[0, 0], [0, 1], [0, 0]])
        x = self._stretched(self._stretched(x, self.warp, every, 2), self.speed, count, 1)
        x = ops.reshape(x[:, :frames], (batch, frames, bands))  # TensorFlow has forgotten the bands
        for _ in range(self.masks):
            x = x * self._kept(every, bands)[:, None, :]
            x = x * self._kept(count, frames)[:, :, None]
        return x * ops.cast(real[:, :, None], x.dtype)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        names = ("warp", "speed", "masks", "seed")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}

    def _stretched(self, x: Tensor, most: float, count: Tensor, axis: int) -> Tensor:
        """Return `[B, T, M]` stretched along an axis, by another factor in each row.

        Behind the first `count [B]` places, the last of them is repeated.
        """
        size: Any = ops.shape(x)[axis]
        factor = self._uniform(ops.shape(x)[0], 1 - most, 1 + most)[:, None]  # [B, 1]
        last = ops.maximum(count - 1.0, 0.0)[:, None]
        places: Any = ops.minimum(ops.arange(size, dtype="float32")[None] * factor, last)  # [B, size]
        below: Any = ops.floor(places)
        share: Any = ops.cast(ops.expand_dims(places - below, 3 - axis), x.dtype)
        above = ops.expand_dims(ops.cast(ops.minimum(below + 1, last), "int32"), 3 - axis)
        below = ops.expand_dims(ops.cast(below, "int32"), 3 - axis)
        return ops.take_along_axis(x, below, axis) * (1 - share) + ops.take_along_axis(x, above, axis) * share

    def _kept(self, count: Tensor, size: Any) -> Tensor:
        """Return 0 in a run of up to a fifth of the first `count [B]` of `size` places, else 1, `[B, T]`."""
        length = self._uniform(ops.shape(count)[0], 0.0, 0.2) * count
        begin = self._uniform(ops.shape(count)[0], 0.0, 1.0) * (count - length)
        places = ops.arange(size, dtype="float32")[None]
        inside = ops.logical_and(places >= begin[:, None], places < (begin + length)[:, None])
        return ops.cast(ops.logical_not(inside), self.compute_dtype)

    def _uniform(self, batch: Any, low: float, high: float) -> Tensor:
        return keras.random.uniform((batch,), low, high, dtype="float32", seed=self._draws)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class ConvSubsampling(keras.layers.Layer):
    """Make positions of frames by three convolutions, 3 x 3, each with GELU and a maximum of neighbours.

    The maxima halve the bands three times and the frames twice: what is heard a band higher, of another
    voice, is much the same, and there is a position for every 4 frames. A position sees 18 frames. The
    positions of a row do not depend on the padding of its batch: no convolution sees a masked frame. Outside
    of training, memory is that of 10 s.

    Args:
        width: features D of a position.
        channels: C, of the first convolution; the others have twice and three times as many.

    Call arguments:
        inputs: float `[batch, frames, bands]`.
        mask: bool `[batch, frames]`, True = a real frame; propagated by Keras.

    Returns:
        float `[batch, positions, width]`, masked where a position has no real frame.

    Example:

        >>> import numpy as np
        >>> ConvSubsampling(8, channels=4)(np.zeros((1, 9, 40), "float32")).shape
        TensorShape([1, 3, 8])

    Reference: Mohamed et al. 2019, "Transformers with convolutional context for ASR", section 2.
    """

    def __init__(self, width: int, channels: int = 32, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.width, self.channels = width, channels
        policy = self.dtype_policy
        options: Any = {"padding": "same", "data_format": "channels_last", "dtype": policy}
        self._convolutions = [
            Conv2D(times * channels, _TAPS, name=name, **options)
            for times, name in enumerate(("first", "second", "third"), 1)
        ]
        self._outputs = Dense(width, dtype=policy, name="outputs")

    def build(self, input_shape: tuple) -> None:
        bands, channels = input_shape[-1], 1
        for layer in self._convolutions:
            layer.build((None, None, bands, channels))
            bands, channels = _halved(bands), layer.filters
        self._features = bands * channels
        self._outputs.build((None, None, self._features))

    def call(self, inputs: Tensor, mask: Tensor | None = None, training: bool | None = None) -> Tensor:
        real = ops.ones_like(inputs[:, :, 0]) if mask is None else ops.cast(mask, inputs.dtype)
        x: Any = inputs * ops.expand_dims(real, 2)  # [B, T, M]
        length: Any = ops.shape(x)[1]
        # Other runtimes have no loop over parts, and convolve a long recording at once.
        if training or builds_portable_graph() or (isinstance(length, int) and length <= _WINDOW):
            return self._positions(x, real, training)
        if isinstance(length, int):
            return self._by_parts(x, real, length)
        return ops.cond(
            length <= _WINDOW,
            lambda: self._positions(x, real),
            lambda: self._by_parts(x, real, length),
        )

    def _by_parts(self, x: Tensor, real: Tensor, length: Any) -> Tensor:
        """Return the positions of a long recording, 10 s at a time: the convolutions need far more memory.

        A part begins two positions earlier and ends two later, which are left out again: so far do the
        positions of the part see.
        """
        more = _SEEN * _STEP
        parts, positions = (length + _WINDOW - 1) // _WINDOW, (length + _STEP - 1) // _STEP

        def cut(x: Any) -> Any:
            """Return parts `[parts, B, 1016, ...]`; no slice, whose place XLA would have to know."""
            axes = [[0, 0]] * (len(x.shape) - 2)
            rows, _, *others = ops.shape(x)
            x = ops.pad(x, [[0, 0], [0, parts * _WINDOW - length], *axes])
            x = ops.moveaxis(ops.reshape(x, (rows, parts, _WINDOW, *others)), 1, 0)
            before = ops.pad(x[:-1, :, -more:], [[1, 0], [0, 0], [0, 0], *axes])
            after = ops.pad(x[1:, :, :more], [[0, 1], [0, 0], [0, 0], *axes])
            return ops.concatenate([before, x, after], axis=2)

        def inner(part: tuple[Tensor, Tensor]) -> Tensor:
            found: Any = self._positions(*part)
            return found[:, _SEEN:-_SEEN]

        shape = (x.shape[0], _WINDOW // _STEP, self.width)
        found: Any = map_in_turn(inner, (cut(x), cut(real)), shape, self.compute_dtype)
        found = ops.moveaxis(found, 0, 1)  # [B, parts, 250, D]
        found = ops.reshape(found, (ops.shape(x)[0], parts * (_WINDOW // _STEP), self.width))
        return found[:, :positions]

    def _positions(self, x: Tensor, real: Tensor, training: bool | None = None) -> Tensor:
        """Return the positions `[B, P, D]` of frames `[B, T, M]`, which are 0 where they are not real."""
        shape: Any = ops.shape(real)
        rows, length = shape
        positions = (length + _STEP - 1) // _STEP
        # TensorFlow's convolution returns its input if there are no rows or frames. And positions are whole.
        spare = [[0, at_least_one(rows) - rows], [0, at_least_one(positions) * _STEP - length]]
        x, real = ops.pad(x, [*spare, [0, 0]]), ops.pad(real, spare)
        x = ops.expand_dims(x, 3)  # [B, T, M, 1]
        for place, layer in enumerate(self._convolutions):
            halves = 1 if place == len(self._convolutions) - 1 else 2
            found = gelu(ops.cast(layer(x), self.compute_dtype), training)
            found = found * ops.expand_dims(real, (2, 3))
            # With the steps: without them Keras fails on JAX.
            x = ops.max_pool(found, (halves, 2), (halves, 2), "same", "channels_last")
            real = real[:, ::halves]
        shape = ops.shape(real)
        x = ops.reshape(x, (*shape, self._features))
        found = ops.cast(self._outputs(x), self.compute_dtype) * ops.expand_dims(real, 2)
        return found[:rows, :positions]

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor | None:
        return None if mask is None else mask[:, ::_STEP]

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        length = None if input_shape[1] is None else -(-input_shape[1] // _STEP)
        return (input_shape[0], length, self.width)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "width": self.width, "channels": self.channels}


@keras.saving.register_keras_serializable(package="keras_selfattn")
class EncoderByParts(Encoder):
    """`Encoder` with a window. Outside of training its memory is that of 100 s, but for inputs and outputs.

    A part of a long recording is computed with as many positions on either side as the windows of all blocks
    reach together, so that its outputs are those of the whole recording. With attention weights, or for
    another runtime, everything is computed at once.

    Args:
        num_layers, num_heads, settings: as for `Encoder`; each block's `window` must be an integer.

    Call arguments:
        inputs: float `[batch, positions, features]`; the others are those of `Encoder`.

    Returns:
        As `Encoder` does.

    Raises:
        ValueError: if a block has no window.

    Example:

        >>> import numpy as np
        >>> EncoderByParts(1, 2, window=4)(np.zeros((1, 9, 8), "float32")).shape
        TensorShape([1, 9, 8])
    """

    def __init__(self, num_layers: int, num_heads: int, *args: Any, **settings: Any) -> None:
        super().__init__(num_layers, num_heads, *args, **settings)
        windows = [block.window for block in self.blocks]
        if not all(isinstance(window, int) for window in windows):
            raise ValueError(
                f"`window` must be an integer in each block, or use `Encoder`. Received {windows!r}."
            )
        self._seen = sum(windows)  # positions on either side of one that it depends on
        self._shortest = max(2 * _PART, _PART + 2 * self._seen)  # of the recordings that have parts

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        valid_lens: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_weights: bool = False,
        distances: Tensor | None = None,
    ) -> Tensor:
        whole = super().call
        length: Any = ops.shape(inputs)[1]
        others = {"valid_lens": valid_lens, "attention_mask": attention_mask, "distances": distances}
        needs_all = return_weights or any(each is not None for each in others.values())
        at_once = training or needs_all or builds_portable_graph()
        if at_once or (isinstance(length, int) and length < self._shortest):
            return whole(inputs, mask, training=training, return_weights=return_weights, **others)
        return self._by_parts(whole, inputs, mask, length)

    def _by_parts(self, whole: Callable[..., Tensor], x: Tensor, mask: Tensor | None, length: Any) -> Tensor:
        """Return what `whole` would, for `[B, P, D]` and a mask `[B, P]`, a part at a time.

        In a graph, a recording of unknown length may be one part: a branch beside the loop would have all
        blocks twice in it, which a server then loads and prepares.
        """
        real = ops.ones_like(x[:, :, 0], dtype="bool") if mask is None else mask
        rows, features = ops.shape(x)[0], x.shape[2]
        width, size = _PART, _PART + 2 * self._seen  # positions of a part, and those that it depends on
        if not isinstance(length, int):
            is_one = length < self._shortest
            width, size = ops.where(is_one, length, width), ops.where(is_one, length, size)
        parts: Any = ops.maximum((length + width - 1) // ops.maximum(width, 1), 1)

        def part(place: Tensor) -> Tensor:
            begin = ops.minimum(place * width, length - width)  # the last one ends with the recording
            first = ops.clip(begin - self._seen, 0, length - size)
            near = ops.slice(x, (0, first, 0), (rows, size, features))  # [B, size, D]
            found = whole(near, ops.slice(real, (0, first), (rows, size)))
            return ops.slice(found, (0, begin - first, 0), (rows, width, features))

        shape = (x.shape[0], width if isinstance(width, int) else None, features)
        found: Any = map_in_turn(part, ops.arange(parts), shape, self.compute_dtype)
        found = ops.moveaxis(found, 0, 1)  # [B, parts, width, D]
        found = ops.reshape(found, (rows, parts * width, features))
        # The last part begins before the end of the one before: what both have is taken once.
        before = (parts - 1) * width
        return ops.concatenate([found[:, :before], found[:, before + parts * width - length :]], axis=1)


@keras.saving.register_keras_serializable(package="keras_selfattn")
class WindowedConvolutions(RandomConvolutions):
    """`RandomConvolutions` of a recording's windows of 10 s, one after the other; the mean of their features.

    A window counts by its real frames. So the memory of a long recording is that of a window, and one of up
    to 10 s has the features of `RandomConvolutions`.

    Example:

        >>> import numpy as np
        >>> layer = WindowedConvolutions(10, longest=50)
        >>> layer(np.ones((1, 30, 2), "float32")).shape
        TensorShape([1, 168])
    """

    def call(self, inputs: Tensor, mask: Tensor | None = None, training: bool | None = None) -> Tensor:
        rows, length = ops.shape(inputs)[0], ops.shape(inputs)[1]
        if training or (isinstance(length, int) and length <= _WINDOW):
            return super().call(inputs, mask, training)
        real = ops.ones_like(inputs[:, :, 0]) if mask is None else ops.cast(mask, "float32")
        if builds_portable_graph():
            return self._at_once(inputs, real)
        features = inputs.shape[-1]
        of_window = super().call

        def step(begin: Any, total: Any, count: Any) -> tuple[Any, Any, Any]:
            frames, known = inputs[:, begin : begin + _WINDOW], real[:, begin : begin + _WINDOW]
            frames = ops.reshape(frames, (rows, ops.shape(frames)[1], features))
            here = ops.sum(known, axis=1, keepdims=True)  # [B, 1]
            return begin + _WINDOW, total + here * of_window(frames, known), count + here

        state: Any = (0, ops.zeros((rows, sum(self.sizes(features)))), ops.zeros((rows, 1)))
        if isinstance(length, int):
            for _ in range(0, length, _WINDOW):
                state = step(*state)
        else:
            state = ops.while_loop(lambda begin, *_: begin < length, step, state)
        return state[1] / ops.maximum(state[2], 1.0)

    def _at_once(self, inputs: Tensor, real: Tensor) -> Tensor:
        """Return the features of all windows of `[B, T, M]` as rows of a batch: other runtimes lack loops."""
        rows, length = ops.shape(inputs)[0], ops.shape(inputs)[1]
        size: Any = ops.maximum(ops.minimum(length, _WINDOW), 1)  # of a window, no longer than the recording
        windows: Any = ops.maximum((length + size - 1) // size, 1)
        more = [0, windows * size - length]
        frames = ops.pad(inputs, [[0, 0], more, [0, 0]])
        frames = ops.reshape(frames, (rows * windows, size, inputs.shape[-1]))  # [B windows, size, M]
        known = ops.reshape(ops.pad(real, [[0, 0], more]), (rows * windows, size))
        found = super().call(frames, known)  # [B windows, features]
        found = ops.reshape(found, (rows, windows, found.shape[-1]))
        here = ops.sum(ops.reshape(known, (rows, windows, size)), axis=2, keepdims=True)  # [B, windows, 1]
        return ops.sum(here * found, axis=1) / ops.maximum(ops.sum(here, axis=1), 1.0)


def _halved(size: int) -> int:
    return -(-size // 2)

"""Answers by KerasHub's encoder, decoder and samplers on TensorFlow, from the weights of our model.

The decoding is that of its own models from sequences to sequences (`BartSeq2SeqLM`), compiled into a graph.

Axes: B (sources, or all beams), S (symbols of a source), T (symbols of an answer), H (heads), D (features).
"""

from typing import Any

import numpy as np

from benchmarks.peers.decoders import one_thread_of_tensorflow
from benchmarks.prepared import Prepared
from benchmarks.sequences.decoding_case import BEGIN, END, EPSILON, PADDING, DecodingCase, Weights
from benchmarks.sequences.decoding_peer import Decode, prepared_decoder

_DENSE = {"query": "query", "key": "key", "value": "value", "attention_output": "output"}


def build(fields: dict[str, Any]) -> Prepared:
    """Prepare the greedy or the beam sampler with the decoder's cache."""
    return prepared_decoder(DecodingCase.from_json(fields), _decoder)


def _decoder(case: DecodingCase) -> Decode:
    tf = one_thread_of_tensorflow()
    import keras
    import keras_hub  # pyright: ignore[reportMissingImports]

    model = _Model(Weights(case.weights))
    sampler = (
        keras_hub.samplers.BeamSampler(case.beams, return_all_beams=True)
        if case.beams > 1
        else keras_hub.samplers.GreedySampler()
    )
    ops = keras.ops

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def decode(source: Any) -> Any:
        memory = model.memory(source)
        seen, cross = ops.not_equal(source, PADDING), model.keys_of(memory)
        batch = ops.shape(source)[0]
        prompt = ops.concatenate(
            [ops.full((batch, 1), BEGIN, "int32"), ops.zeros((batch, case.max_new_tokens), "int32")], 1
        )
        forced = ops.concatenate(
            [ops.ones((batch, 1), "bool"), ops.zeros((batch, case.max_new_tokens), "bool")], 1
        )

        def step(prompt: Any, cache: Any, index: Any) -> tuple[Any, None, Any]:
            rows = ops.shape(prompt)[0]
            times = rows // batch  # as its models do, which repeat the memory for each beam and step
            given = (
                [memory, seen, cross]
                if case.beams == 1
                else [ops.repeat(x, times, 0) for x in (memory, seen, cross)]
            )
            tokens = ops.slice(prompt, (0, index - 1), (rows, 1))
            logits, cache = model.step(tokens, index - 1, cache, *given)
            return logits, None, cache

        found = sampler(
            step,
            prompt,
            cache=model.no_keys(batch, case.max_new_tokens + 1),
            index=1,
            mask=forced,
            stop_token_ids=[END],
        )
        return (found[0][:, 0], found[1][:, 0]) if case.beams > 1 else (found, ops.zeros((batch,)))

    def answers(sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ids, scores = (each.numpy() for each in decode(sources))
        return ids[:, 1:], scores if case.beams > 1 else np.full(len(sources), np.nan)

    return answers


class _Model:
    """KerasHub's layers with the weights."""

    def __init__(self, weights: Weights) -> None:
        import keras
        import keras_hub  # pyright: ignore[reportMissingImports]

        self._weights, ops = weights, keras.ops
        self._width = width = weights.embeddings.shape[1]
        self._embeddings = keras.Variable(weights.embeddings, name="embeddings")
        self._positions = ops.convert_to_tensor(weights.positions)
        self._ops = ops
        kinds = {
            "encoder": keras_hub.layers.TransformerEncoder,
            "decoder": keras_hub.layers.TransformerDecoder,
        }
        self._layers: dict[str, list[Any]] = {}
        self._norms: dict[str, Any] = {}
        for stack, kind in kinds.items():
            blocks = weights.blocks(stack)
            hidden = weights.pair(f"{blocks[0]}/feed_forward/hidden")[0].shape[1]
            self._layers[stack] = []
            for block in blocks:
                layer = kind(
                    intermediate_dim=hidden,
                    num_heads=weights.heads,
                    activation=keras.activations.gelu,
                    layer_norm_epsilon=EPSILON,
                    normalize_first=True,
                )
                shape = (None, None, width)
                layer.build(*([shape] if stack == "encoder" else [shape, shape]))
                _assign(layer, weights, block, stack)
                self._layers[stack].append(layer)
            norm = keras.layers.LayerNormalization(epsilon=EPSILON)
            norm.build((None, None, width))
            norm.set_weights(list(weights.norm(f"{stack}/norm")))
            self._norms[stack] = norm

    def memory(self, source: Any) -> Any:
        """Return the encoded sources `[B, S, D]`."""
        mask = self._ops.not_equal(source, PADDING)
        x = self._embedded(source) + self._positions[: self._ops.shape(source)[1]]
        for layer in self._layers["encoder"]:
            x = layer(x, padding_mask=mask)
        return self._norms["encoder"](x)

    def keys_of(self, memory: Any) -> Any:
        """Return keys and values of the memory for each block, `[B, blocks, 2, S, H, D]`."""
        ops = self._ops
        found = []
        for layer in self._layers["decoder"]:
            attention = layer._cross_attention_layer
            found.append(ops.stack([attention._key_dense(memory), attention._value_dense(memory)], 1))
        return ops.stack(found, 1)

    def no_keys(self, batch: Any, length: int) -> Any:
        """Return the cache before the first symbol, `[B, blocks, 2, length, H, D]`."""
        heads, blocks = self._weights.heads, len(self._layers["decoder"])
        return self._ops.zeros((batch, blocks, 2, length, heads, self._width // heads))

    def step(
        self, tokens: Any, place: Any, cache: Any, memory: Any, seen: Any, cross: Any
    ) -> tuple[Any, Any]:
        """Return logits `[B, V]` after tokens `[B, 1]`, and the cache after them."""
        ops = self._ops
        x = self._embedded(tokens) + ops.slice(self._positions, (place, 0), (1, self._width))
        after = []
        for number, layer in enumerate(self._layers["decoder"]):
            x, keys, _ = layer(
                x,
                memory,
                encoder_padding_mask=seen,
                self_attention_cache=cache[:, number],
                self_attention_cache_update_index=place,
                cross_attention_cache=cross[:, number],
                cross_attention_cache_update_index=None,
            )
            after.append(keys)
        x = self._norms["decoder"](x)[:, 0]
        logits = ops.matmul(x, ops.transpose(self._embeddings)) + self._weights.never
        return logits, ops.stack(after, 1)

    def _embedded(self, ids: Any) -> Any:
        return self._ops.take(self._embeddings, ids, axis=0) * self._width**0.5


def _assign(layer: Any, weights: Weights, block: str, stack: str) -> None:
    """Give a layer of KerasHub the weights of a block."""
    arrays: dict[str, np.ndarray] = {}

    def add(name: str, names: tuple[str, str], pair: tuple[np.ndarray, np.ndarray]) -> None:
        arrays.update({f"{name}/{each}": array for each, array in zip(names, pair, strict=True)})

    for theirs, our in (("self_attention", "attention"), ("cross_attention", "cross_attention")):
        if theirs == "cross_attention" and stack == "encoder":
            continue
        for to, name in _DENSE.items():
            pair = weights.projection(f"{block}/{our}", name)
            add(f"{theirs if stack == 'decoder' else 'self_attention_layer'}/{to}", ("kernel", "bias"), pair)
        add(f"{theirs}_layer_norm", ("gamma", "beta"), weights.norm(f"{block}/{our}_norm"))
    add("feedforward_layer_norm", ("gamma", "beta"), weights.norm(f"{block}/feed_forward_norm"))
    add("feedforward_intermediate_dense", ("kernel", "bias"), weights.pair(f"{block}/feed_forward/hidden"))
    add("feedforward_output_dense", ("kernel", "bias"), weights.pair(f"{block}/feed_forward/output"))
    for variable in layer.weights:
        if "seed_generator" in variable.path:
            continue
        [array] = [array for end, array in arrays.items() if variable.path.endswith(f"/{end}")]
        variable.assign(array.reshape(variable.shape))

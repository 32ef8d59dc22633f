"""Answers by our search, as the served graph has it, from ids to ids.

Axes: B (sources), S (symbols of a source), L (symbols of an answer).
"""

import os
from typing import Any

from benchmarks.prepared import Prepared
from benchmarks.sequences.decoding_case import LENGTH_PENALTY, Array, DecodingCase, Weights
from benchmarks.sequences.decoding_peer import Decode, prepared_decoder


def one_thread_of_tensorflow() -> Any:
    """Return TensorFlow, on one thread."""
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return tf


def ours(fields: dict[str, Any]) -> Prepared:
    """Prepare our search as one graph."""
    return prepared_decoder(DecodingCase.from_json(fields), _decoder)


def _decoder(case: DecodingCase) -> Decode:
    tf = one_thread_of_tensorflow()

    from keras_selfattn.models.sequences.decoding import decoded
    from keras_selfattn.models.sequences.search import SearchSettings

    core = _core(Weights(case.weights))
    settings = SearchSettings(case.max_new_tokens, case.beams, LENGTH_PENALTY)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def decode(source: Any) -> Any:
        found = decoded(core, source, settings)
        return found.ids[:, 0], found.scores[:, 0]

    def answers(sources: Array) -> tuple[Array, Array]:
        ids, scores = decode(sources)
        return ids.numpy(), scores.numpy()

    return answers


def _core(weights: Weights) -> Any:
    import keras

    from keras_selfattn.models.config import SequenceConfig
    from keras_selfattn.models.sequences.sequence_core import SequenceCore

    size, width = weights.embeddings.shape
    encoder, decoder = (weights.blocks(stack) for stack in ("encoder", "decoder"))
    config = SequenceConfig(
        width=width,
        num_heads=weights.heads,
        num_layers=len(encoder),
        decoder_layers=len(decoder),
        feed_forward_dim=weights.pair(f"{encoder[0]}/feed_forward/hidden")[0].shape[1],
    )
    core = SequenceCore(config, size, keras.config.dtype_policy())
    for variable in core.weights:
        variable.assign(weights[variable.path])
    return core

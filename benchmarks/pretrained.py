"""`benchmarks pretrained`: raw text to vectors with the same pretrained weights, ours beside other engines.

Axes: T (tokens), D (features).
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.case import Array, Case
from benchmarks.peers.pretrained_encoders import in_units
from benchmarks.reference import post_norm_block
from benchmarks.results import Result, Table
from benchmarks.rounds import Contestant, Settings, Workers, measure_memory
from keras_selfattn.errors import ConfigError

_BATCHES = (1, 8, 64)
_PEERS = "benchmarks.peers.pretrained_encoders"
_OURS = Contestant("ours", f"{_PEERS}:ours")
_EXPORTED = Contestant("ours, exported", f"{_PEERS}:ours_exported")
_SERVED = Contestant("ours, served", f"{_PEERS}:ours_served")
_TORCH = Contestant("sentence-transformers on torch", f"{_PEERS}:sentence_transformers")
_OPENVINO = Contestant("OpenVINO", f"{_PEERS}:openvino")
_ONNX_RUNTIME = Contestant("ONNX Runtime", f"{_PEERS}:onnx_runtime")
_KERAS_HUB = Contestant("KerasHub", f"{_PEERS}:keras_hub")
# Those that compute in a type.
CONTESTANTS = {
    "float32": (_OURS, _EXPORTED, _SERVED, _TORCH, _OPENVINO, _ONNX_RUNTIME, _KERAS_HUB),
    "bfloat16": (_OURS, _EXPORTED, _TORCH, _OPENVINO, _KERAS_HUB),
    "int8": (_EXPORTED, _ONNX_RUNTIME),
}
_NOTES = [
    "Every contestant takes strings: its own tokenizer is in the time.",
    "Ours, served, answers as many clients as texts, each with one text in a request, in one process.",
    "In int8 ours is `--precision int8`, and ONNX Runtime's is its dynamic quantisation.",
    "Differences are relative to elements of size 1.",
]
_LAYERS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "context": "attention.output.dense",
    "hidden": "intermediate.dense",
    "back": "output.dense",
}
_NORMS = {"attention": "attention.output.LayerNorm", "feed_forward": "output.LayerNorm"}
_EPSILON = 1e-12


def run(settings: Settings, model: Path, texts: list[str]) -> Table:
    """Return CPU milliseconds of one thread for batches of texts, and their difference from NumPy's vectors.

    Args:
        settings: of the measurement.
        model: folder of a BERT whose vectors are the mean of a text's tokens, with length 1, as MiniLM's.
        texts: to draw batches from, the same for all.

    Raises:
        ConfigError: for another model.
    """
    if json.loads((model / "config.json").read_text()).get("model_type") != "bert":
        raise ConfigError(f"--model must be the folder of a BERT such as MiniLM. Received {model}.")
    drawn = np.random.default_rng(0).permutation(len(texts))
    results = []
    with Workers(settings) as workers, tempfile.TemporaryDirectory() as folder:
        for size in _BATCHES[:1] if settings.quick else _BATCHES:
            batch = [texts[place] for place in drawn[:size]]
            words = np.mean([len(text.split()) for text in batch])
            reference = Path(folder, f"{size}.npz")
            np.savez(reference, outputs=in_units(vectors(model, batch)))
            case: dict[str, Any] = {"model": str(model), "texts": batch, "reference": str(reference)}
            for dtype in CONTESTANTS:
                row = f"batch of {len(batch)}, {words:.0f} words each, {dtype}"
                results += _row(workers, settings, row, {**case, "dtype": dtype})
    return Table(results, _NOTES)


def _row(workers: Workers, settings: Settings, row: str, case: dict[str, Any]) -> list[Result]:
    chosen = [c for c in CONTESTANTS[case["dtype"]] if settings.chosen(row, c.name)]
    timed = workers.measure(row, case, chosen)
    results = []
    for contestant, result in zip(chosen, timed, strict=True):
        grown = {} if result.skipped else measure_memory(row, case, contestant, settings).figures
        results.append(result.with_figures(**grown))
    return results


def vectors(model: Path, texts: list[str]) -> Array:
    """Return the vectors of texts, one at a time in NumPy, float32 `[texts, D]`."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer  # pyright: ignore[reportMissingImports]

    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    weights = load_file(model / "model.safetensors")
    config = json.loads((model / "config.json").read_text())
    found = []
    for encoding in tokenizer.encode_batch(texts):
        mean = _hidden_states(weights, config, encoding.ids).mean(axis=0)
        found.append(mean / np.linalg.norm(mean))
    return np.stack(found)


def _hidden_states(weights: dict[str, Array], config: dict[str, Any], ids: list[int]) -> Array:
    """Return the last hidden states of one text, `[T, D]`."""
    case = Case("", (len(ids),), config["hidden_size"], config["num_attention_heads"])
    x = (
        weights["embeddings.word_embeddings.weight"][ids]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    x = x + weights["embeddings.position_embeddings.weight"][: len(ids)]
    centred = x - x.mean(-1, keepdims=True)
    x = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + _EPSILON)
    x = x * weights["embeddings.LayerNorm.weight"] + weights["embeddings.LayerNorm.bias"]
    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}."
        block = {}
        for ours, theirs in _LAYERS.items():
            block[f"{ours}_kernel"] = weights[f"{layer}{theirs}.weight"].T
            block[f"{ours}_bias"] = weights[f"{layer}{theirs}.bias"]
        for ours, theirs in _NORMS.items():
            block[f"{ours}_gamma"] = weights[f"{layer}{theirs}.weight"]
            block[f"{ours}_beta"] = weights[f"{layer}{theirs}.bias"]
        x = post_norm_block(x, block, case, _EPSILON)
    return x

"""Pretrained encoders from one folder: texts in, vectors with length 1 out.

They are compared with their elements' mean square as the unit, so limits are relative to elements of size 1.
"""

import asyncio
import functools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.machine import cores
from benchmarks.prepared import Prepared
from keras_selfattn.cli.shared.backend import import_tensorflow

if TYPE_CHECKING:
    from keras_selfattn.serving.client import AsyncClient

_MOST_TOKENS = 256
# Names of a weight's type: ours for an export, and OpenVINO's.
_EXPORTED = {"float32": None, "bfloat16": "bfloat16", "int8": "int8"}
_OPENVINO = {"float32": "f32", "bfloat16": "bf16"}

# Vectors `[count, D]` of the first texts of a batch.
Call = Callable[[int], np.ndarray]


def ours(fields: dict[str, Any]) -> Prepared:
    """Build our `TextEncoder`, whose tokenizer is in the graph."""
    import_tensorflow(batches=True)
    import tensorflow as tf

    from keras_selfattn import models

    policy = "mixed_bfloat16" if fields["dtype"] == "bfloat16" else "float32"
    model = models.TextEncoder(start=fields["model"], dtype=policy)
    texts = tf.constant(fields["texts"])
    call = tf.function(model, input_signature=[tf.TensorSpec([None], tf.string)])
    return _prepared(lambda count: call(texts[:count]).numpy(), fields)


def ours_exported(fields: dict[str, Any]) -> Prepared:
    """Export our `TextEncoder`, and load the SavedModel without Keras."""
    import_tensorflow(batches=True)
    import tensorflow as tf

    from keras_selfattn import export, models

    with tempfile.TemporaryDirectory() as base:
        model = models.TextEncoder(start=fields["model"])
        version = export.export_saved_model(model, base, precision=_EXPORTED[fields["dtype"]])
        loaded: Any = tf.saved_model.load(version)
    embed, texts = loaded.signatures["embed"], tf.constant(fields["texts"])
    return _prepared(lambda count: next(iter(embed(text=texts[:count]).values())).numpy(), fields)


def ours_served(fields: dict[str, Any]) -> Prepared:
    """Serve the export of our `TextEncoder` to as many clients as texts, each with one text in a request."""
    texts = fields["texts"]
    runner, clients = _clients(fields["model"])

    async def embedded(count: int) -> np.ndarray:
        pairs = zip(clients(count), texts, strict=False)
        return np.concatenate(await asyncio.gather(*(client.embed([text]) for client, text in pairs)))

    return _prepared(lambda count: runner.run(embedded(count)), fields)


@functools.cache
def _clients(model: str) -> "tuple[asyncio.Runner, Callable[[int], list[AsyncClient]]]":
    """Start a server that ends with this process; return what runs its clients, and so many of them."""
    import_tensorflow(batches=True)
    from keras_selfattn import export, models
    from keras_selfattn.serving.client import AsyncClient
    from keras_selfattn.serving.server import Server, ServerConfig

    with tempfile.TemporaryDirectory() as base:
        export.export_saved_model(models.TextEncoder(start=model), base)
        # The folder is read once, since it goes.
        server = Server(ServerConfig("encoder", base, port=0, file_system_poll_wait_seconds=0)).start()
    made: list[AsyncClient] = []

    def clients(count: int) -> list[AsyncClient]:
        made.extend(AsyncClient(server.target, "encoder") for _ in range(count - len(made)))
        return made[:count]

    return asyncio.Runner(), clients


def sentence_transformers(fields: dict[str, Any]) -> Prepared:
    """Build `sentence-transformers`' model, on PyTorch."""
    import torch  # pyright: ignore[reportMissingImports]
    from sentence_transformers import SentenceTransformer  # pyright: ignore[reportMissingImports]

    dtype = getattr(torch, fields["dtype"])
    model = SentenceTransformer(
        fields["model"], device="cpu", local_files_only=True, model_kwargs={"dtype": dtype}
    )
    model.max_seq_length = _MOST_TOKENS
    texts = fields["texts"]

    def call(count: int) -> np.ndarray:
        found = model.encode(texts[:count], batch_size=count, show_progress_bar=False, convert_to_tensor=True)
        return found.float().numpy()

    return _prepared(call, fields)


def onnx_runtime(fields: dict[str, Any]) -> Prepared:
    """Build the same model in ONNX Runtime, converted from PyTorch; in int8 with dynamic quantization."""
    import onnxruntime  # pyright: ignore[reportMissingImports]
    import torch  # pyright: ignore[reportMissingImports]
    from onnxruntime.quantization import QuantType, quantize_dynamic  # pyright: ignore[reportMissingImports]

    encode = _encoder(fields["model"])
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cores()  # its default counts all cores of the machine
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/model.onnx"
        torch.onnx.export(
            _hidden_states(fields["model"]),
            tuple(map(torch.tensor, encode(["two words", "one"]))),
            file,
            input_names=["ids", "real"],
            dynamic_shapes=(axes, axes),
            dynamo=True,
        )
        if fields["dtype"] == "int8":
            # Seven bits of a weight: with eight, products of processors without VNNI overflow.
            settings = {"weight_type": QuantType.QInt8, "per_channel": True, "reduce_range": True}
            quantize_dynamic(file, file := f"{folder}/int8.onnx", **settings)
        session = onnxruntime.InferenceSession(file, options, ["CPUExecutionProvider"])

    def call(count: int) -> np.ndarray:
        ids, real = encode(fields["texts"][:count])
        hidden: Any = session.run(None, {"ids": ids, "real": real})[0]
        return _pooled(hidden, real)

    return _prepared(call, fields)


def openvino(fields: dict[str, Any]) -> Prepared:
    """Build the same model, converted by OpenVINO from PyTorch."""
    import openvino as engine  # pyright: ignore[reportMissingImports]
    import torch  # pyright: ignore[reportMissingImports]

    encode = _encoder(fields["model"])
    example = tuple(map(torch.tensor, encode(["two words", "one"])))
    converted = engine.convert_model(_hidden_states(fields["model"]), example_input=example)
    settings = {
        "INFERENCE_PRECISION_HINT": _OPENVINO[fields["dtype"]],
        "INFERENCE_NUM_THREADS": cores(),
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = engine.Core().compile_model(converted, "CPU", settings).create_infer_request()

    def call(count: int) -> np.ndarray:
        ids, real = encode(fields["texts"][:count])
        return _pooled(request.infer([ids, real], share_inputs=True)[0], real)

    return _prepared(call, fields)


def keras_hub(fields: dict[str, Any]) -> Prepared:
    """Build KerasHub's `BertBackbone`, with its tokenizer before it."""
    import keras
    import keras_hub as hub  # pyright: ignore[reportMissingImports]
    import tensorflow as tf

    ids: dict[str, int] = json.loads(Path(fields["model"], "tokenizer.json").read_text())["model"]["vocab"]
    # Without its argument `strip_accents` it keeps the accents of lower-case letters, as BERT does not.
    tokenizer = hub.models.BertTokenizer(
        vocabulary=sorted(ids, key=ids.__getitem__), lowercase=True, strip_accents=True
    )
    backbone = hub.models.BertBackbone.from_preset(fields["model"], dtype=fields["dtype"])
    for layer in backbone.transformer_layers:  # its own GELU is the approximation by a hyperbolic tangent
        layer._feedforward_intermediate_dense.activation = keras.activations.gelu
    packer = hub.layers.MultiSegmentPacker(
        _MOST_TOKENS, start_value=tokenizer.cls_token_id, end_value=tokenizer.sep_token_id
    )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def vectors(texts: Any) -> Any:
        rows = tokenizer(texts)
        # As long as the longest text: its own preprocessor pads every batch to a fixed length.
        longest = tf.minimum(tf.reduce_max(rows.row_lengths()) + 2, _MOST_TOKENS)
        padded, segments = packer(rows)
        padded, segments = padded[:, :longest], segments[:, :longest]
        inputs = {"token_ids": padded, "segment_ids": segments, "padding_mask": padded != 0}
        hidden = tf.cast(backbone(inputs)["sequence_output"], tf.float32)
        real = tf.cast(padded != 0, tf.float32)[..., None]
        return tf.math.l2_normalize(tf.reduce_sum(hidden * real, 1) / tf.reduce_sum(real, 1), axis=1)

    texts = tf.constant(fields["texts"])
    return _prepared(lambda count: vectors(texts[:count]).numpy(), fields)


def _hidden_states(folder: str) -> Any:
    """Return `transformers`' encoder on PyTorch, as a module from ids and mask to hidden states."""
    import torch  # pyright: ignore[reportMissingImports]
    from transformers import AutoModel  # pyright: ignore[reportMissingImports]

    class HiddenStates(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = AutoModel.from_pretrained(folder)

        def forward(self, ids: Any, real: Any) -> Any:
            return self.encoder(input_ids=ids, attention_mask=real).last_hidden_state

    return HiddenStates().eval()


def in_units(vectors: np.ndarray) -> np.ndarray:
    """Return vectors `[texts, D]` of length 1 as vectors whose elements have a mean square of 1."""
    return vectors * np.sqrt(vectors.shape[1])


def _prepared(call: Call, fields: dict[str, Any]) -> Prepared:
    count = len(fields["texts"])
    return Prepared(run=lambda: call(count), warm=lambda: call(1), outputs=lambda: in_units(call(count)))


def _encoder(folder: str) -> Callable[[list[str]], tuple[np.ndarray, np.ndarray]]:
    """Return the function from texts to padded ids and the mask of the real ones, int64 `[B, T]`."""
    from tokenizers import Tokenizer  # pyright: ignore[reportMissingImports]

    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.enable_padding()
    tokenizer.enable_truncation(_MOST_TOKENS)

    def encode(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        found = tokenizer.encode_batch(texts)
        return np.array([each.ids for each in found]), np.array([each.attention_mask for each in found])

    return encode


def _pooled(hidden: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Return the mean of the real tokens of `[B, T, D]`, with length 1."""
    mean = (hidden * real[..., None]).sum(1) / real.sum(1, keepdims=True)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)

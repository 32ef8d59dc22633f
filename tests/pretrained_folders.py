"""Folders of small pretrained models with random weights, and what their encoders compute, in NumPy."""

import json
import math
import struct

import numpy as np
from safetensors.numpy import save_file

from keras_selfattn.models.pretrained_folders.families import FAMILIES
from keras_selfattn.models.subwords.tokenizer_class import FILE

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "film", "##s", "##ly", ".", "the"]
PIECES_OF_MPNET = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>", *PIECES[5:]]
PIECES_PADDED_BY_1 = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", *PIECES[5:]]
BERT = {
    "model_type": "bert",
    "vocab_size": len(PIECES),
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
}
ELECTRA = {**BERT, "model_type": "electra", "embedding_size": 6}
# Byte pairs: each byte is a piece, under the character that GPT-2 has for it.
BYTES = [*map(chr, [*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324)])]
MERGES = ["Ġ f", "i l", "Ġf il", "Ġfil m", "o o", "g oo", "goo d", "Ġ good", "b a", "ba d", "Ġ bad", "l y"]
BYTE_PAIRS = [
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
    *BYTES,
    *(merge.replace(" ", "") for merge in MERGES),
    "<mask>",
]
# Two rows of the table of positions are for no token.
ROBERTA = {
    **BERT,
    "model_type": "roberta",
    "pad_token_id": 1,
    "max_position_embeddings": 18,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
}
XLM_ROBERTA = {**ROBERTA, "model_type": "xlm-roberta"}
# Pieces of a unigram model, with their scores.
UNIGRAM = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -3.0), ("▁a", -4.5)]
UNIGRAM += [("▁good", -5.0), ("▁bad", -5.5), ("▁film", -5.0), ("s", -3.5), ("ly", -4.0), (".", -3.0)]
UNIGRAM += [("▁the", -4.0), ("film", -6.0), ("b", -6.0), ("ad", -6.5), ("<mask>", 0.0)]
# As SentencePiece writes them, which knows no padding and no mask; and types of them that are not normal.
RAW_UNIGRAM = [
    ("<unk>", 0.0),
    ("<s>", 0.0),
    ("</s>", 0.0),
    ("▁", -3.0),
    ("▁a", -4.5),
    ("▁good", -5.0),
    ("s", -3.5),
]
CONTROL = {"<unk>": 2, "<s>": 3, "</s>": 3}
# As DeBERTa-v2 has them: with padding and the ends of a text at ids of their own, and without a mask.
OF_DEBERTA = [("[PAD]", 0.0), ("[CLS]", 0.0), ("[SEP]", 0.0), ("[UNK]", 0.0), *RAW_UNIGRAM[3:]]
CONTROL_OF_DEBERTA = {"[PAD]": 3, "[CLS]": 3, "[SEP]": 3, "[UNK]": 2}
ROBERTA_BYTE_PAIRS = {**ROBERTA, "vocab_size": len(BYTE_PAIRS)}
MPNET = {**ROBERTA, "model_type": "mpnet", "relative_attention_num_buckets": 32}
del MPNET["type_vocab_size"]
# Distances have vectors of their own up to two tokens away, of five buckets on either side.
DEBERTA = {
    **BERT,
    "model_type": "deberta-v2",
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-7,
    "relative_attention": True,
    "position_biased_input": False,
    "pos_att_type": "p2c|c2p",
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_buckets": 4,
    "max_relative_positions": 7,
}
DISTILBERT = {
    "model_type": "distilbert",
    "vocab_size": len(PIECES),
    "dim": 8,
    "n_layers": 2,
    "n_heads": 2,
    "hidden_dim": 12,
    "max_position_embeddings": 16,
}
# The second block sees one token on either side.
MODERNBERT = {
    "model_type": "modernbert",
    "vocab_size": len(PIECES),
    "hidden_size": 8,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
    "pad_token_id": 1,
    "global_attn_every_n_layers": 2,
    "local_attention": 3,
    "global_rope_theta": 50.0,
    "local_rope_theta": 3.0,
    "norm_eps": 1e-5,
}
_BERT_LAYERS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "output": "attention.output.dense",
    "first norm": "attention.output.LayerNorm",
    "hidden": "intermediate.dense",
    "last": "output.dense",
    "second norm": "output.LayerNorm",
}
_MPNET_LAYERS = {
    **_BERT_LAYERS,
    "query": "attention.attn.q",
    "key": "attention.attn.k",
    "value": "attention.attn.v",
    "output": "attention.attn.o",
    "first norm": "attention.LayerNorm",
}
_DEBERTA_LAYERS = {
    **_BERT_LAYERS,
    "query": "attention.self.query_proj",
    "key": "attention.self.key_proj",
    "value": "attention.self.value_proj",
}
_DISTILBERT_LAYERS = {
    "query": "attention.q_lin",
    "key": "attention.k_lin",
    "value": "attention.v_lin",
    "output": "attention.out_lin",
    "first norm": "sa_layer_norm",
    "hidden": "ffn.lin1",
    "last": "ffn.lin2",
    "second norm": "output_layer_norm",
}


_LAYERS = {"deberta-v2": _DEBERTA_LAYERS, "distilbert": _DISTILBERT_LAYERS, "mpnet": _MPNET_LAYERS}
# Of the head for hidden tokens: dense layer, normalisation, and bias of the logits.
_HEADS = {
    "bert": (
        "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm",
        "cls.predictions.bias",
    ),
    "deberta-v2": (
        "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm",
        "cls.predictions.bias",
    ),
    "electra": (
        "generator_predictions.dense",
        "generator_predictions.LayerNorm",
        "generator_lm_head.bias",
    ),
    "distilbert": ("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
    "roberta": ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
    "xlm-roberta": ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
    "mpnet": ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
}


def weights_of(config, prefix="", seed=0):
    """Returns random tensors under the names of a family."""
    random = np.random.default_rng(seed)
    if config["model_type"] == "modernbert":
        return _modernbert_weights(config, prefix, random)
    distilled = config["model_type"] == "distilbert"
    width = config["dim" if distilled else "hidden_size"]
    hidden = config["hidden_dim" if distilled else "intermediate_size"]
    narrow = config.get("embedding_size", width)
    found = {"embeddings.word_embeddings.weight": random.normal(size=(config["vocab_size"], narrow))}
    norms = {"embeddings.LayerNorm": narrow}
    if "position_buckets" in config:
        found["encoder.rel_embeddings.weight"] = random.normal(size=(2 * config["position_buckets"], width))
        norms["encoder.LayerNorm"] = width
    else:
        rows = (config["max_position_embeddings"], narrow)
        found["embeddings.position_embeddings.weight"] = random.normal(size=rows)
    if config.get("type_vocab_size"):
        types = (config["type_vocab_size"], narrow)
        found["embeddings.token_type_embeddings.weight"] = random.normal(size=types)
    if "relative_attention_num_buckets" in config:
        buckets = (config["relative_attention_num_buckets"], config["num_attention_heads"])
        found["encoder.relative_attention_bias.weight"] = 2 * random.normal(size=buckets)
    shapes = {"embeddings_project": (width, narrow)} if narrow != width else {}
    names = _LAYERS.get(config["model_type"], _BERT_LAYERS)
    for number in range(config["n_layers" if distilled else "num_hidden_layers"]):
        layer = f"{'transformer' if distilled else 'encoder'}.layer.{number}."
        for each in ("query", "key", "value", "output"):
            shapes[layer + names[each]] = (width, width)
        shapes[layer + names["hidden"]], shapes[layer + names["last"]] = (hidden, width), (width, hidden)
        norms |= {layer + names[each]: width for each in ("first norm", "second norm")}
    for name, shape in shapes.items():
        found[f"{name}.weight"] = 0.5 * random.normal(size=shape)
        found[f"{name}.bias"] = random.normal(size=shape[:1])
    for name, size in norms.items():
        found[f"{name}.weight"] = 1 + 0.3 * random.normal(size=size)
        found[f"{name}.bias"] = random.normal(size=size)
    return {prefix + name: value.astype(np.float32) for name, value in found.items()}


def head_of(config, seed=5):
    """Returns random tensors of a family's head for hidden tokens."""
    random = np.random.default_rng(seed)
    dense, norm, bias = _HEADS[config["model_type"]]
    width = config.get("dim", config.get("hidden_size"))
    narrow = config.get("embedding_size", width)
    found = {
        f"{dense}.weight": random.normal(size=(narrow, width)),
        f"{dense}.bias": random.normal(size=narrow),
        f"{norm}.weight": 1 + 0.3 * random.normal(size=narrow),
        f"{norm}.bias": random.normal(size=narrow),
        bias: random.normal(size=config["vocab_size"]),
    }
    return {name: value.astype(np.float32) for name, value in found.items()}


def guessing_logits(config, tensors, head, ids):
    """Returns the logits of all tokens at each position of one text, `[T, vocabulary]`, float64.

    The ids are those of the folder; so is the order of the logits.
    """
    dense, norm, bias = _HEADS[config["model_type"]]
    head = {name: value.astype(np.float64) for name, value in head.items()}
    x = hidden_states(config, tensors, ids) @ head[f"{dense}.weight"].T + head[f"{dense}.bias"]
    x = x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    centred = x - x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + config.get("layer_norm_eps", 1e-12))
    x = centred / deviation * head[f"{norm}.weight"] + head[f"{norm}.bias"]
    table = tensors["embeddings.word_embeddings.weight"].astype(np.float64)
    return x @ table.T + head[bias]


# Architecture, hidden layer and output layer of a family's classifiers.
HEADS = {
    "bert": ("Bert", "bert.pooler.dense", "classifier"),
    "electra": ("Electra", "classifier.dense", "classifier.out_proj"),
    "deberta-v2": ("DebertaV2", "pooler.dense", "classifier"),
    "distilbert": ("DistilBert", "pre_classifier", "classifier"),
    "roberta": ("Roberta", "classifier.dense", "classifier.out_proj"),
    "xlm-roberta": ("XLMRoberta", "classifier.dense", "classifier.out_proj"),
    "mpnet": ("MPNet", "classifier.dense", "classifier.out_proj"),
    "modernbert": ("ModernBert", "head.dense", "classifier"),
}


def classifier_of(config, labels, **settings):
    """Returns the config of a family's classifier; `labels` are names in the order of their ids, or None."""
    architecture = f"{HEADS[config['model_type']][0]}ForSequenceClassification"
    named = {} if labels is None else {"id2label": {str(place): name for place, name in enumerate(labels)}}
    return {**config, "architectures": [architecture], **named, **settings}


def classifier_weights(config, classes, seed=0):
    """Returns random tensors of a family's classifier, under the names of a whole model."""
    _, hidden, output = HEADS[config["model_type"]]
    width, random = config.get("hidden_size", config.get("dim")), np.random.default_rng(seed + 1)
    found = weights_of(config, prefix_of(config), seed)
    for name, rows in ((hidden, width), (output, classes)):
        found[f"{name}.weight"] = random.normal(size=(rows, width)).astype(np.float32)
        found[f"{name}.bias"] = random.normal(size=rows).astype(np.float32)
    if config["model_type"] == "modernbert":
        found["head.norm.weight"] = random.normal(size=width).astype(np.float32)
        del found["head.dense.bias"]  # classifier_bias is False, and so is norm_bias
    return found


def write_classifier(folder, labels, config=BERT, tensors=None, **settings):
    """Writes the folder of a family's classifier."""
    tensors = classifier_weights(config, len(labels)) if tensors is None else tensors
    return write_folder(folder, classifier_of(config, labels, **settings), tensors)


def class_logits(config, tensors, ids, types=None):
    """Returns the logits of a classifier for one row, float64, from the formulas; ids are the folder's."""
    _, hidden, output = HEADS[config["model_type"]]
    encoder = {name.removeprefix(prefix_of(config)): value for name, value in tensors.items()}
    states = hidden_states(config, encoder, ids, types)
    pooled = states.mean(axis=0) if config.get("classifier_pooling") == "mean" else states[0]
    x = tensors[f"{hidden}.weight"].astype(np.float64) @ pooled + tensors.get(f"{hidden}.bias", 0)
    if config["model_type"] == "distilbert":
        x = np.maximum(x, 0)
    elif config["model_type"] in ("deberta-v2", "electra", "modernbert"):
        x = x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    else:
        x = np.tanh(x)
    if "head.norm.weight" in tensors:
        x = (x - x.mean()) / np.sqrt(x.var() + config["norm_eps"]) * tensors["head.norm.weight"]
    return tensors[f"{output}.weight"].astype(np.float64) @ x + tensors[f"{output}.bias"]


def pieces_of(config):
    """Returns the vocabulary of a family, with padding at the family's id."""
    if config["model_type"] == "mpnet":
        return PIECES_OF_MPNET
    padded_by_1 = config["model_type"] in (
        "roberta",
        "xlm-roberta",
        "modernbert",
        "gte",
        "jina_embeddings_v3",
    )
    return PIECES_PADDED_BY_1 if padded_by_1 else PIECES


def prefix_of(config):
    """Returns what stands before the names of an encoder's weights beside a head."""
    others = {"deberta-v2": "deberta.", "modernbert": "model.", "xlm-roberta": "roberta."}
    return others.get(config["model_type"], f"{config['model_type']}.")


def write_folder(folder, config=BERT, tensors=None, pieces=None, **files):
    """Writes a folder of the Hugging Face kind, and `files`: content by name, with __ for a dot."""
    pieces = pieces_of(config) if pieces is None else pieces
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights_of(config) if tensors is None else tensors, folder / "model.safetensors")
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    for name, content in files.items():
        file = folder / name.replace("__", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))
    return folder


def write_byte_pairs(folder, tensors=None, **files):
    """Writes a folder of RoBERTa's with its own kind of tokenizer."""
    write_folder(folder, ROBERTA_BYTE_PAIRS, tensors, [], **files)
    (folder / "vocab.txt").unlink()
    ids = {piece: number for number, piece in enumerate(BYTE_PAIRS)}
    (folder / "vocab.json").write_text(json.dumps(ids))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *MERGES, ""]), encoding="utf-8")
    return folder


def unigram_file(vocabulary=UNIGRAM, **parts):
    """Returns `tokenizer.json` of a unigram tokenizer as XLM-RoBERTa has it, with other parts if given."""
    special = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    ids = {piece: number for number, (piece, _) in enumerate(vocabulary)}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": ids[token], "content": token, **flags, "lstrip": token == "<mask>", "special": True}
            for token in special
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "WhitespaceSplit"},
                {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
            ],
        },
        "post_processor": {
            "type": "RobertaProcessing",
            "cls": ["<s>", ids["<s>"]],
            "sep": ["</s>", ids["</s>"]],
        },
        "model": {"type": "Unigram", "unk_id": ids["<unk>"], "vocab": [list(each) for each in vocabulary]},
        **parts,
    }


def write_unigram(folder, tensors=None, tokenizer=None, config=None, **files):
    """Writes a folder of XLM-RoBERTa's, or of another model, with its own kind of tokenizer."""
    config = {**XLM_ROBERTA, "vocab_size": len(UNIGRAM)} if config is None else config
    write_folder(folder, config, tensors, [], **files)
    (folder / "vocab.txt").unlink()
    found = unigram_file() if tokenizer is None else tokenizer
    (folder / "tokenizer.json").write_text(json.dumps(found), encoding="utf-8")
    return folder


def varint(number):
    """Returns the bytes of a number of protobuf."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def message(*fields):
    """Returns a message of protobuf: an int, a float or bytes by its field."""
    found = b""
    for field, value in fields:
        if isinstance(value, int):
            found += varint(field << 3) + varint(value)
        elif isinstance(value, float):
            found += varint(field << 3 | 5) + struct.pack("<f", value)
        else:
            found += varint(field << 3 | 2) + varint(len(value)) + value
    return found


def sentencepiece_model(pieces, *, kind=1, characters=b"", types=None, unknown=0, byte_fallback=0):
    """Returns the bytes of a model of SentencePiece; `types` are those of pieces that are not normal."""
    types = types or {}
    found = [
        (1, message((1, piece.encode()), (2, score), (3, types.get(piece, 1)))) for piece, score in pieces
    ]
    normalizer = message((1, b"nmt_nfkc"), (2, characters), (3, 1))
    return message(*found, (2, message((3, kind), (35, byte_fallback), (40, unknown))), (3, normalizer))


def usual_class(folder):
    """Returns the class of tokenizer of the family that a folder's `config.json` names."""
    path = folder / "config.json"
    family = json.loads(path.read_text()).get("model_type") if path.is_file() else None
    return FAMILIES[family].tokenizer if family in FAMILIES else FILE


def hidden_states(config, tensors, ids, types=None):
    """Returns the last hidden states of one text, `[T, width]`, float64, from the papers' formulas.

    The ids are those of the folder.
    """
    tensors = {name: value.astype(np.float64) for name, value in tensors.items()}
    if config["model_type"] == "modernbert":
        return _modernbert_states(config, tensors, ids)
    distilled = config["model_type"] == "distilbert"
    names = _LAYERS.get(config["model_type"], _BERT_LAYERS)
    heads = config["n_heads" if distilled else "num_attention_heads"]

    epsilon = config.get("layer_norm_eps", 1e-12)

    def linear(name, x):
        return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    def normal(name, x):
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon)
        return scaled * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]

    x = tensors["embeddings.word_embeddings.weight"][ids]
    if "embeddings.position_embeddings.weight" in tensors:
        x = x + tensors["embeddings.position_embeddings.weight"][_positions(config, ids)]
    if config.get("type_vocab_size"):
        x = x + tensors["embeddings.token_type_embeddings.weight"][[0] * len(ids) if types is None else types]
    x = normal("embeddings.LayerNorm", x)
    if "embeddings_project.weight" in tensors:
        x = linear("embeddings_project", x)
    for number in range(config["n_layers" if distilled else "num_hidden_layers"]):
        layer = f"{'transformer' if distilled else 'encoder'}.layer.{number}."
        query, key, value = (linear(layer + names[each], x) for each in ("query", "key", "value"))
        size = x.shape[-1] // heads
        terms, vectors = 1, {}
        if "position_buckets" in config:
            rows = normal("encoder.LayerNorm", tensors["encoder.rel_embeddings.weight"])
            rows = rows[_rows_of_distances(config, len(x))]  # [T, S, width]
            terms, vectors = 3, {each: linear(layer + names[each], rows) for each in ("query", "key")}
        context = np.zeros_like(x)
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            logits = query[:, part] @ key[:, part].T
            if vectors:
                logits = logits + np.einsum("td,tsd->ts", query[:, part], vectors["key"][..., part])
                logits = logits + np.einsum("tsd,sd->ts", vectors["query"][..., part], key[:, part])
            logits = logits / math.sqrt(terms * size) + relative_bias(tensors, head, len(x))
            weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
            context[:, part] = weights / weights.sum(axis=-1, keepdims=True) @ value[:, part]
        x = normal(layer + names["first norm"], x + linear(layer + names["output"], context))
        hidden = linear(layer + names["hidden"], x)
        hidden = hidden * 0.5 * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
        x = normal(layer + names["second norm"], x + linear(layer + names["last"], hidden))
    return x


def _positions(config, ids):
    """Returns the rows of the table of positions; RoBERTa's begin after padding's, and do not count it."""
    if config["model_type"] not in ("roberta", "xlm-roberta", "mpnet"):
        return list(range(len(ids)))
    counted = [each != config["pad_token_id"] for each in ids]
    return [config["pad_token_id"] + (sum(counted[: n + 1]) if each else 0) for n, each in enumerate(counted)]


def _rows_of_distances(config, length):
    """Returns the row of DeBERTa's table for each pair, `[T, S]`: by the query's position minus the key's."""
    buckets, far = config["position_buckets"], config["max_relative_positions"]
    half = buckets // 2

    def row(query, key):
        away = abs(query - key)
        if away > half:
            away = half + math.ceil(math.log(away / half) / math.log((far - 1) / half) * (half - 1) - 1e-9)
        return min(max(buckets + (away if query > key else -away), 0), 2 * buckets - 1)

    return np.array([[row(t, s) for s in range(length)] for t in range(length)])


def relative_bias(tensors, head, length):
    """Returns what the shared table adds to a head's logits, `[T, S]`, by T5's buckets; 0 without one."""
    table = tensors.get("encoder.relative_attention_bias.weight")
    if table is None:
        return 0.0
    half = len(table) // 2

    def bucket(query, key):
        away = abs(key - query)
        if away >= half // 2:
            steps = math.log(away / (half // 2)) / math.log(128 / (half // 2)) * (half // 2)
            away = min(half // 2 + int(steps + 1e-9), half - 1)
        return away + (half if key > query else 0)

    return np.array([[table[bucket(t, s), head] for s in range(length)] for t in range(length)])


def _modernbert_weights(config, prefix, random):
    width, hidden = config["hidden_size"], config["intermediate_size"]
    norms = ["embeddings.norm", "final_norm"]
    shapes = {}
    for number in range(config["num_hidden_layers"]):
        layer = f"layers.{number}."
        shapes |= {f"{layer}attn.Wqkv": (3 * width, width), f"{layer}attn.Wo": (width, width)}
        shapes |= {f"{layer}mlp.Wi": (2 * hidden, width), f"{layer}mlp.Wo": (width, hidden)}
        norms += [f"{layer}mlp_norm"] + ([f"{layer}attn_norm"] if number else [])
    found = {"embeddings.tok_embeddings.weight": random.normal(size=(config["vocab_size"], width))}
    for name, shape in shapes.items():
        found[f"{name}.weight"] = 0.5 * random.normal(size=shape)
        if config.get("attention_bias"):
            found[f"{name}.bias"] = random.normal(size=shape[:1])
    for name in norms:
        found[f"{name}.weight"] = 1 + 0.3 * random.normal(size=width)
        if config.get("norm_bias"):
            found[f"{name}.bias"] = random.normal(size=width)
    return {prefix + name: value.astype(np.float32) for name, value in found.items()}


def _modernbert_states(config, tensors, ids):
    heads, length = config["num_attention_heads"], len(ids)
    size = config["hidden_size"] // heads
    distance = np.abs(np.arange(length)[:, None] - np.arange(length))

    def linear(name, x):
        return x @ tensors[f"{name}.weight"].T + tensors.get(f"{name}.bias", 0)

    def normal(name, x):
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + config["norm_eps"])
        return scaled * tensors[f"{name}.weight"] + tensors.get(f"{name}.bias", 0)

    def rotated(x, base):
        """Each pair of features, half a head apart, as a complex number that turns with its position."""
        pairs = x[:, : size // 2] + 1j * x[:, size // 2 :]
        turned = pairs * np.exp(1j * np.outer(range(length), base ** (-np.arange(0, size, 2) / size)))
        return np.concatenate([turned.real, turned.imag], axis=-1)

    x = normal("embeddings.norm", tensors["embeddings.tok_embeddings.weight"][ids])
    for number in range(config["num_hidden_layers"]):
        layer, far = f"layers.{number}.", number % config["global_attn_every_n_layers"] == 0
        base = config["global_rope_theta" if far else "local_rope_theta"]
        seen = normal(f"{layer}attn_norm", x) if number else x
        query, key, value = np.split(linear(f"{layer}attn.Wqkv", seen), 3, axis=-1)
        context = np.zeros_like(x)
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            logits = rotated(query[:, part], base) @ rotated(key[:, part], base).T / math.sqrt(size)
            weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
            weights = np.where(far | (distance <= config["local_attention"] // 2), weights, 0)
            context[:, part] = weights / weights.sum(axis=-1, keepdims=True) @ value[:, part]
        x = x + linear(f"{layer}attn.Wo", context)
        hidden, gate = np.split(linear(f"{layer}mlp.Wi", normal(f"{layer}mlp_norm", x)), 2, axis=-1)
        hidden = hidden * 0.5 * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
        x = x + linear(f"{layer}mlp.Wo", hidden * gate)
    return normal("final_norm", x)


def belonging_in_loops(numbers, vectors):
    """The loss of texts that belong together: the mean cross-entropy of each row's own document, in loops."""
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    losses = []
    for row, names in enumerate(numbers):
        belong = {other[1] for other in numbers if other[0] == names[0]}
        exponents = []
        for other, texts in enumerate(numbers):
            for place in range(1, len(texts)):
                own = (other, place) == (row, 1)
                if own or texts[place] not in {*belong, names[0], -1}:
                    exponents.append(np.exp(20 * unit[row, 0] @ unit[other, place]))
        losses.append(np.log(np.sum(exponents)) - 20 * unit[row, 0] @ unit[row, 1])
    return np.mean(losses)

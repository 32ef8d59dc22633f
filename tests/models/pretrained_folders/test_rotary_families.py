"""NomicBERT, GTE and Jina's embeddings v3: their formulas, the forms of their settings, and refusals."""

import math

import numpy as np
import pytest
from pretrained_folders import PIECES, PIECES_PADDED_BY_1, write_folder

from keras_selfattn import models
from keras_selfattn.errors import ConfigError

WIDTH, HIDDEN, HEADS = 8, 12, 2
SIZES = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": HEADS, "layer_norm_eps": 1e-5}
SIZES |= {"intermediate_size": HIDDEN, "vocab_size": len(PIECES), "max_position_embeddings": 16}
NOMIC = {**SIZES, "model_type": "nomic_bert", "rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}
GTE = {**SIZES, "model_type": "gte", "rope_theta": 50.0}
JINA = {**SIZES, "model_type": "jina_embeddings_v3", "rope_parameters": {"rope_theta": 50.0}}
# The same model as NOMIC, as its own code has it.
OLDER = {
    "model_type": "nomic_bert",
    "auto_map": {"AutoModel": "somebody/nomic--modeling.NomicBertModel"},
    "n_embd": WIDTH,
    "n_layer": 2,
    "n_head": HEADS,
    "n_inner": HIDDEN,
    "n_positions": 8192,
    "max_trained_positions": 16,
    "layer_norm_epsilon": 1e-5,
    "rotary_emb_base": 50,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": 2,
    "activation_function": "swiglu",
    "qkv_proj_bias": False,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "prenorm": False,
    "parallel_block": False,
    "use_rms_norm": False,
    "causal": False,
    "type_vocab_size": 2,
    "vocab_size": len(PIECES),
}
# Of a block: the projections of attention, its output and norm, the network, and its norm.
NAMES = {
    "nomic_bert": ("encoder.layers.{}.", "attn.Wqkv", "attn.out_proj", "norm1", "mlp.fc2", "norm2"),
    "gte": (
        "encoder.layer.{}.",
        "attention.qkv_proj",
        "attention.o_proj",
        "attn_ln",
        "mlp.down_proj",
        "mlp_ln",
    ),
    "jina_embeddings_v3": ("encoder.layers.{}.", "mixer.Wqkv", "mixer.out_proj", "norm1", "mlp.fc2", "norm2"),
}
# "a good film the bad .", between [CLS] and [SEP].
IDS = [2, 5, 6, 8, 12, 7, 11, 3]


def tensors_of(kind, seed=0):
    """Random tensors under the names of a family; GTE's gate is the first half of its layer."""
    random = np.random.default_rng(seed)
    start, qkv, out, norm, last, other = NAMES[kind]
    biased = kind != "nomic_bert"
    types = 2 if kind == "nomic_bert" else 1
    first_norm = "embeddings.LayerNorm" if kind == "gte" else "emb_ln"
    found = {
        "embeddings.word_embeddings.weight": random.normal(size=(len(PIECES), WIDTH)),
        "embeddings.token_type_embeddings.weight": random.normal(size=(types, WIDTH)),
    }
    norms, shapes = [first_norm], {}
    for number in range(2):
        layer = start.format(number)
        shapes |= {
            layer + qkv: (3 * WIDTH, WIDTH),
            layer + out: (WIDTH, WIDTH),
            layer + last: (WIDTH, HIDDEN),
        }
        if kind == "gte":
            shapes[layer + "mlp.up_gate_proj"] = (2 * HIDDEN, WIDTH)
        else:
            shapes |= {
                layer + f"mlp.{name}": (HIDDEN, WIDTH)
                for name in (["fc11", "fc12"] if not biased else ["fc1"])
            }
        norms += [layer + norm, layer + other]
    for name, shape in shapes.items():
        found[f"{name}.weight"] = 0.5 * random.normal(size=shape)
        if biased and not name.endswith("up_gate_proj"):
            found[f"{name}.bias"] = random.normal(size=shape[:1])
    for name in norms:
        found[f"{name}.weight"] = 1 + 0.3 * random.normal(size=WIDTH)
        found[f"{name}.bias"] = random.normal(size=WIDTH)
    return {name: value.astype(np.float32) for name, value in found.items()}


def states_of(kind, tensors, ids):
    """The last hidden states `[T, width]`, float64, from the formulas."""
    tensors = {name: value.astype(np.float64) for name, value in tensors.items()}
    start, qkv, out, norm, last, other = NAMES[kind]
    size, length = WIDTH // HEADS, len(ids)

    def linear(name, x):
        return x @ tensors[f"{name}.weight"].T + tensors.get(f"{name}.bias", 0)

    def normal(name, x):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return scaled * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]

    def rotated(x):
        pairs = x[:, : size // 2] + 1j * x[:, size // 2 :]
        turned = pairs * np.exp(1j * np.outer(range(length), 50.0 ** (-np.arange(0, size, 2) / size)))
        return np.concatenate([turned.real, turned.imag], axis=-1)

    def gelu(x):
        return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))

    def network(layer, x):
        if kind == "nomic_bert":
            hidden = linear(layer + "mlp.fc12", x)
            return hidden / (1 + np.exp(-hidden)) * linear(layer + "mlp.fc11", x)
        if kind == "gte":
            up, gate = np.split(linear(layer + "mlp.up_gate_proj", x), 2, axis=-1)
            return gelu(gate) * up
        return gelu(linear(layer + "mlp.fc1", x))

    x = (
        tensors["embeddings.word_embeddings.weight"][ids]
        + tensors["embeddings.token_type_embeddings.weight"][0]
    )
    x = normal("embeddings.LayerNorm" if kind == "gte" else "emb_ln", x)
    for number in range(2):
        layer = start.format(number)
        query, key, value = np.split(linear(layer + qkv, x), 3, axis=-1)
        context = np.zeros_like(x)
        for head in range(HEADS):
            part = slice(head * size, (head + 1) * size)
            logits = rotated(query[:, part]) @ rotated(key[:, part]).T / math.sqrt(size)
            weights = np.exp(logits - logits.max(-1, keepdims=True))
            context[:, part] = weights / weights.sum(-1, keepdims=True) @ value[:, part]
        x = normal(layer + norm, x + linear(layer + out, context))
        x = normal(layer + other, x + linear(layer + last, network(layer, x)))
    return x


def states(model, ids):
    embedding, encoder = model.core.get_layer("embedding"), model.core.get_layer("encoder")
    ids = np.array([ids], "int32")
    return np.asarray(encoder(embedding(ids), mask=ids != 0))[0]


@pytest.mark.parametrize("config", [NOMIC, GTE, JINA], ids=lambda config: config["model_type"])
def test_hidden_states_are_those_of_the_formulas(tmp_path, config):
    kind, tensors = config["model_type"], tensors_of(config["model_type"])
    pieces = PIECES if kind == "nomic_bert" else PIECES_PADDED_BY_1
    theirs = [pieces.index(PIECES[each]) for each in IDS]
    ours = theirs if kind == "nomic_bert" else [{0: 1, 1: 0}.get(each, each) for each in theirs]
    config = {**config, "type_vocab_size": len(tensors["embeddings.token_type_embeddings.weight"])}
    model = models.TextEncoder(start=write_folder(tmp_path / "m", config, tensors))
    np.testing.assert_allclose(states(model, ours), states_of(kind, tensors, theirs), atol=1e-4)
    assert model.config.position_rows == 0
    model.save(tmp_path / "m.keras")
    loaded = models.load(tmp_path / "m.keras")
    np.testing.assert_array_equal(states(loaded, ours), states(model, ours))


def test_the_form_of_nomics_own_code_gives_the_same_model(tmp_path):
    tensors = tensors_of("nomic_bert")
    newer = models.TextEncoder(start=write_folder(tmp_path / "newer", NOMIC, tensors))
    older = models.TextEncoder(start=write_folder(tmp_path / "older", OLDER, tensors))
    assert older.config == newer.config
    np.testing.assert_array_equal(states(older, IDS), states(newer, IDS))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (OLDER | {"activation_function": "gelu"}, "activation_function is 'gelu': it must be 'swiglu'"),
        (OLDER | {"qkv_proj_bias": True}, "qkv_proj_bias is True: it must be False"),
        (OLDER | {"prenorm": 1}, "prenorm is 1: it must be False"),
        (OLDER | {"rotary_emb_fraction": 0.5}, "rotary_emb_fraction is 0.5: it must be 1.0"),
        (OLDER | {"rotary_emb_fraction": None}, "rotary_emb_fraction is None: it must be 1.0"),
        (OLDER | {"rotary_emb_base": None}, "rotary_emb_base is missing, whose default is the code's own"),
        (JINA | {"rope_scaling": {"rope_theta": 5.0}}, "rope_scaling is .* and rope_parameters .* Leave one"),
        (OLDER | {"rotary_emb_interleaved": True}, "rotary_emb_interleaved is True"),
        (OLDER | {"causal": True, "use_rms_norm": True}, "cannot be used, for 2 reasons"),
        (
            GTE | {"auto_map": {"AutoModel": "new.NewModel"}},
            "`auto_map` is .* This cannot be read: the model",
        ),
        (
            GTE | {"rope_scaling": {"type": "ntk", "factor": 2.0}},
            "rope_scaling is .*'ntk'.* Only the rope_type",
        ),
        (JINA | {"rope_parameters": {"rope_type": "yarn"}}, "rope_parameters is .*'yarn'"),
        (JINA | {"rope_parameters": "yarn"}, "rope_parameters is 'yarn'"),
        (JINA | {"rope_parameters": {"partial_rotary_factor": 0.5}}, "rope_parameters is .*partial"),
        (NOMIC | {"head_dim": 2}, "head_dim is 2 .* It must be hidden_size by"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_read_is_refused_by_its_name(tmp_path, config, message):
    with pytest.raises(ConfigError, match=message):
        models.TextEncoder(start=write_folder(tmp_path / "m", config, tensors_of(config["model_type"])))

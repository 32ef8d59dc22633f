"""EuroBERT: the formulas of its blocks and of its classifiers, and refusals."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf
import tokenizers
from pretrained_folders import PIECES, write_folder
from tokenizers import pre_tokenizers, processors, trainers

from keras_selfattn import models
from keras_selfattn.errors import ConfigError
from keras_selfattn.models.optimizers import FineTuningAdamW
from keras_selfattn.models.subwords.byte_pair_files import LLAMA_3_WORDS

WIDTH, HIDDEN, HEADS, SHARED = 16, 12, 4, 2
EUROBERT = {
    "model_type": "eurobert",
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": SHARED,
    "intermediate_size": HIDDEN,
    "rms_norm_eps": 1e-5,
    "vocab_size": len(PIECES),
    "max_position_embeddings": 16,
    "pad_token_id": 0,
    "rope_theta": 50.0,
    "attention_bias": False,
    "mlp_bias": False,
}
BIASED = {**EUROBERT, "attention_bias": True, "mlp_bias": True, "num_key_value_heads": HEADS}
CLASSIFIER = {
    **EUROBERT,
    "architectures": ["EuroBertForSequenceClassification"],
    "id2label": {"0": "no", "1": "yes", "2": "maybe"},
}
# "a good film the bad .", between [CLS] and [SEP].
IDS = [2, 5, 6, 8, 12, 7, 11, 3]


def tensors_of(config, prefix="", seed=0):
    random = np.random.default_rng(seed)
    keys = WIDTH // HEADS * config.get("num_key_value_heads", HEADS)
    of_block = {"self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (keys, WIDTH)}
    of_block |= {"self_attn.v_proj": (keys, WIDTH), "self_attn.o_proj": (WIDTH, WIDTH)}
    of_block |= {
        "mlp.gate_proj": (HIDDEN, WIDTH),
        "mlp.up_proj": (HIDDEN, WIDTH),
        "mlp.down_proj": (WIDTH, HIDDEN),
    }
    found = {"embed_tokens.weight": random.normal(size=(len(PIECES), WIDTH))}
    found["norm.weight"] = random.normal(size=WIDTH)
    for number in range(2):
        for name, shape in of_block.items():
            found[f"layers.{number}.{name}.weight"] = 0.5 * random.normal(size=shape)
            if config["mlp_bias"]:
                found[f"layers.{number}.{name}.bias"] = random.normal(size=shape[:1])
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"layers.{number}.{name}.weight"] = random.normal(size=WIDTH)
    return {prefix + name: value.astype(np.float32) for name, value in found.items()}


def classifier_tensors():
    random, found = np.random.default_rng(1), tensors_of(CLASSIFIER, "model.")
    for name, rows in (("dense", WIDTH), ("classifier", 3)):
        found[f"{name}.weight"] = random.normal(size=(rows, WIDTH)).astype(np.float32)
        found[f"{name}.bias"] = random.normal(size=rows).astype(np.float32)
    return found


def states_of(config, tensors, ids):
    """The last hidden states `[T, width]`, float64, from the formulas."""
    tensors = {name.removeprefix("model."): value.astype(np.float64) for name, value in tensors.items()}
    size, shared = WIDTH // HEADS, HEADS // config["num_key_value_heads"]

    def linear(name, x):
        return x @ tensors[f"{name}.weight"].T + tensors.get(f"{name}.bias", 0)

    def normal(name, x):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * tensors[f"{name}.weight"]

    def head(x, number):
        return x[:, number * size : (number + 1) * size]

    def rotated(x):
        pairs = x[:, : size // 2] + 1j * x[:, size // 2 :]
        turned = pairs * np.exp(1j * np.outer(range(len(ids)), 50.0 ** (-np.arange(0, size, 2) / size)))
        return np.concatenate([turned.real, turned.imag], axis=-1)

    x = tensors["embed_tokens.weight"][ids]
    for number in range(2):
        layer = f"layers.{number}."
        inputs = normal(layer + "input_layernorm", x)
        query, key, value = (linear(f"{layer}self_attn.{name}_proj", inputs) for name in "qkv")
        contexts = []
        for place in range(HEADS):
            one, other = rotated(head(query, place)), rotated(head(key, place // shared))
            logits = one @ other.T / math.sqrt(size)
            weights = np.exp(logits - logits.max(-1, keepdims=True))
            contexts.append(weights / weights.sum(-1, keepdims=True) @ head(value, place // shared))
        x = x + linear(layer + "self_attn.o_proj", np.concatenate(contexts, axis=-1))
        inputs = normal(layer + "post_attention_layernorm", x)
        gate = linear(layer + "mlp.gate_proj", inputs)
        x = x + linear(
            layer + "mlp.down_proj", gate / (1 + np.exp(-gate)) * linear(layer + "mlp.up_proj", inputs)
        )
    return normal("norm", x)


def states(model, ids):
    embedding, encoder = model.core.get_layer("embedding"), model.core.get_layer("encoder")
    ids = np.array([ids], "int32")
    return np.asarray(encoder(embedding(ids), mask=ids != 0))[0]


@pytest.mark.parametrize("config", [EUROBERT, BIASED], ids=["shared keys", "biases"])
def test_hidden_states_are_those_of_the_formulas(tmp_path, config):
    tensors = tensors_of(config)
    model = models.TextEncoder(start=write_folder(tmp_path / "m", config, tensors))
    np.testing.assert_allclose(states(model, IDS), states_of(config, tensors, IDS), atol=1e-4)
    model.save(tmp_path / "m.keras")
    loaded = models.load(tmp_path / "m.keras")
    np.testing.assert_array_equal(states(loaded, IDS), states(model, IDS))


@pytest.mark.parametrize("pooling", [None, "late", "mean", "bos"])
def test_a_classifier_is_read_with_each_of_its_poolings(tmp_path, pooling):
    config = CLASSIFIER if pooling is None else {**CLASSIFIER, "classifier_pooling": pooling}
    tensors = classifier_tensors()
    model = models.TextClassifier.from_folder(write_folder(tmp_path / "m", config, tensors))

    def dense(name, x):
        return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    def answered(x):
        hidden = dense("dense", x)
        gelu = hidden * 0.5 * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
        return dense("classifier", gelu)

    x = states_of(config, tensors, IDS)
    logits = {"mean": lambda: answered(x.mean(0)), "bos": lambda: answered(x[0])}.get(
        pooling, lambda: answered(x).mean(0)
    )()
    wanted = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    # Beside a longer text, so that padding is there.
    found = model.predict(["a good film the bad .", "a good film the bad . film film"], verbose=0)[0]
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_gains_do_not_decay_and_lower_blocks_learn_slower(tmp_path):
    model = models.TextClassifier(start=write_folder(tmp_path / "m", EUROBERT, tensors_of(EUROBERT)))
    model.compile(FineTuningAdamW(0.0, rates=model.learning_rates, weight_decay=0.5))
    before = {}
    model.adapt(["good film", "bad film"] * 4, ["+", "-"] * 4)
    before = {weight.path: np.array(weight) for weight in model.core.weights}
    model.fit(["good film", "bad film"] * 4, ["+", "-"] * 4, verbose=0)
    scales = [weight for weight in model.core.weights if weight.path.endswith("/scale")]
    assert len(scales) == 5
    for weight in scales:
        np.testing.assert_array_equal(np.array(weight), before[weight.path])
    assert model.learning_rates["encoder/block_0"] < model.learning_rates["encoder/block_1"]


def test_a_tokenizer_like_that_of_llama_is_read(tmp_path):
    """Without an unknown token, and with padding that is the end of a text."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=True))
    split = pre_tokenizers.Split(tokenizers.Regex(LLAMA_3_WORDS), "isolated")
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([split, letters])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        ["a good film, it's 1234 films\n"] * 4,
        trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False),
    )
    begin, end, mask = names = [f"<|{name}|>" for name in ("begin_of_text", "end_of_text", "mask")]
    made.add_special_tokens([tokenizers.AddedToken(name, special=True, normalized=False) for name in names])
    ends = [(name, made.token_to_id(name)) for name in (begin, end)]
    made.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}", pair=f"{begin} $A {end} $B {end}", special_tokens=ends
    )
    config = {**EUROBERT, "vocab_size": made.get_vocab_size(), "pad_token_id": made.token_to_id(end)}
    tensors = tensors_of(EUROBERT)
    table = np.random.default_rng(3).normal(size=(config["vocab_size"], WIDTH)).astype(np.float32)
    folder = write_folder(
        tmp_path / "m",
        config,
        tensors | {"embed_tokens.weight": table},
        tokenizer__json=json.loads(made.to_str()),
        tokenizer_config__json={
            "tokenizer_class": "PreTrainedTokenizerFast",
            **{f"{name}_token": begin for name in ("bos", "cls")},
            **{f"{name}_token": end for name in ("eos", "sep", "pad")},
            "mask_token": mask,
        },
    )
    model = models.TextEncoder(start=folder)
    texts = ["It's good!\n\n 1234 film", "", f"a {mask}"]
    last = model.tokenizer.written_padding
    ours = model.tokenizer(tf.constant(texts)).to_list()
    for text, found in zip(texts, ours, strict=True):
        theirs = made.encode(text).ids
        assert found == [{config["pad_token_id"]: last, 0: config["pad_token_id"]}.get(i, i) for i in theirs]
        wanted = states_of(config, tensors | {"embed_tokens.weight": table}, theirs).mean(0)
        np.testing.assert_allclose(model.predict([text], verbose=0)[0], wanted, atol=1e-4)
    pieces = models.TokenClassifier(start=folder)
    pieces.adapt([["a", " ", "film"]], [["A", "B", "C"]])
    assert len(pieces.predict([["a", " ", "film"]], verbose=0)[0]) == 3
    masked = models.MaskedTokenModel(start=folder)
    masked.compile()
    masked.fit(["a good film", "it's 1234 films"] * 4, verbose=0)
    assert masked.start.new_head


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (EUROBERT | {"head_dim": 8}, "head_dim is 8 .* It must be hidden_size by num_attention_heads"),
        (EUROBERT | {"mlp_bias": True}, "attention_bias is False .* and mlp_bias True"),
        (EUROBERT | {"num_key_value_heads": 3}, "`num_kv_heads` must divide `num_heads`, 4. Received 3"),
        (EUROBERT | {"rope_scaling": {"type": "yarn"}}, "rope_scaling is .*'yarn'.* Only the rope_type"),
        (EUROBERT | {"pretraining_tp": 2}, "`pretraining_tp` is 2. This cannot be read"),
        (EUROBERT | {"clf_pooling": "bos"}, "`clf_pooling` is 'bos'. This cannot be read"),
        (EUROBERT | {"hidden_act": "swiglu"}, "The activation 'swiglu' of config.json is not known"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_read_is_refused_by_its_name(tmp_path, config, message):
    with pytest.raises(ConfigError, match=message):
        models.TextEncoder(start=write_folder(tmp_path / "m", config, tensors_of(EUROBERT)))


def test_an_unknown_pooling_of_a_classifier_is_refused(tmp_path):
    config = {**CLASSIFIER, "classifier_pooling": "max"}
    with pytest.raises(ConfigError, match="classifier_pooling is 'max' in config.json. It must be bos or"):
        models.TextClassifier.from_folder(write_folder(tmp_path / "m", config, classifier_tensors()))

"""Pretrained encoders beside `transformers` on PyTorch: the same weights, hidden states and gradients.

Needs the extras `backends` and `bench`; elsewhere these tests are skipped.
"""

import copy

import numpy as np
import pytest
import tensorflow as tf
from pretrained_folders import BYTE_PAIRS, MERGES, PIECES, PIECES_OF_MPNET, write_folder
from safetensors.numpy import load_file

from keras_selfattn import layers, models
from keras_selfattn.data.quickstart.sentences import SENTENCES

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

LENGTHS = [[1], [5, 1, 3], [20] * 8, [512, 7]]
SIZES = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 40}
SIZES |= {"vocab_size": len(PIECES), "max_position_embeddings": 512}
PADDED_BY_1 = {**SIZES, "max_position_embeddings": 514}
# Windows of two tokens on either side in two blocks of three.
MODERNBERT = {**SIZES, "num_hidden_layers": 5, "max_position_embeddings": 8192, "local_attention": 4}
MODERNBERT |= {"pad_token_id": 1, "cls_token_id": 0, "bos_token_id": 0, "sep_token_id": 2, "eos_token_id": 2}
PADDING_BY_1 = ("roberta", "xlm-roberta", "mpnet", "modernbert", "gte", "jina_embeddings_v3")
DISTILBERT = {"dim": 24, "n_layers": 3, "n_heads": 4, "hidden_dim": 40, "vocab_size": len(PIECES)}
DEBERTA = {"relative_attention": True, "position_biased_input": False, "pos_att_type": ["p2c", "c2p"]}
DEBERTA |= {"share_att_key": True, "norm_rel_ebd": "layer_norm", "position_buckets": 8}
DEBERTA |= {"max_relative_positions": 40}
CONFIGS = {
    "bert": lambda: transformers.BertConfig(**SIZES),
    "bert, GELU by tanh": lambda: transformers.BertConfig(**SIZES, hidden_act="gelu_new"),
    "electra": lambda: transformers.ElectraConfig(**SIZES, embedding_size=24),
    "electra, narrow": lambda: transformers.ElectraConfig(**SIZES, embedding_size=10),
    "roberta": lambda: transformers.RobertaConfig(**PADDED_BY_1, type_vocab_size=1, layer_norm_eps=1e-5),
    "xlm-roberta": lambda: transformers.XLMRobertaConfig(
        **PADDED_BY_1, type_vocab_size=1, layer_norm_eps=1e-5
    ),
    "mpnet": lambda: transformers.MPNetConfig(**PADDED_BY_1, layer_norm_eps=1e-5),
    "distilbert": lambda: transformers.DistilBertConfig(**DISTILBERT),
    # Of 20 tokens some have a bucket of their own, of 512 most share the last one.
    "deberta-v2": lambda: transformers.DebertaV2Config(**SIZES, **DEBERTA),
    "deberta-v2, of version 3": lambda: transformers.DebertaV2Config(
        **SIZES, **{**DEBERTA, "position_buckets": 256, "max_relative_positions": -1}
    ),
    "modernbert": lambda: transformers.ModernBertConfig(**MODERNBERT),
    "nomic_bert": lambda: transformers.NomicBertConfig(**SIZES),
    "eurobert": lambda: transformers.EuroBertConfig(**SIZES, num_key_value_heads=2, pad_token_id=0),
    "gte": lambda: transformers.GteConfig(**SIZES),
    "gte, without types": lambda: transformers.GteConfig(**SIZES, type_vocab_size=0),
    "jina_embeddings_v3": lambda: transformers.JinaEmbeddingsV3Config(**SIZES),
    "modernbert, odd window, with biases": lambda: transformers.ModernBertConfig(
        **{**MODERNBERT, "local_attention": 5},
        norm_bias=True,
        attention_bias=True,
        mlp_bias=True,
        classifier_bias=True,
        classifier_pooling="mean",
        classifier_activation="relu",
        classifier_dropout=0.2,
    ),
}


def folder_of(model, folder):
    """Writes a model of `transformers`, and a tokenizer."""
    model.save_pretrained(folder)
    config = model.config.to_dict()
    if config["model_type"] not in PADDING_BY_1:
        config["pad_token_id"] = 0
    found = load_file(folder / "model.safetensors")
    return write_folder(folder, {name: value for name, value in config.items() if value is not None}, found)


def random_model(name, kind=transformers.AutoModel, **settings):
    """Returns a model of `transformers`."""
    torch.manual_seed(0)
    config = CONFIGS[name]()
    for setting, value in settings.items():
        setattr(config, setting, value)
    model = kind.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    return model


@pytest.fixture(scope="module", params=CONFIGS)
def pair(request, tmp_path_factory):
    """Ours and theirs, with the same random weights."""
    theirs = random_model(request.param)
    return models.TextEncoder(start=folder_of(theirs, tmp_path_factory.mktemp("peer") / "m")), theirs


def ids_of(lengths):
    random = np.random.default_rng(1)
    found = np.zeros((len(lengths), max(lengths)), "int32")
    for row, length in enumerate(lengths):
        found[row, :length] = random.integers(1, len(PIECES), length)
    return found


def types_of(model, ids):
    return np.random.default_rng(2).integers(0, max(model.config.token_types, 1), ids.shape)


def ours_of(model, ids, types):
    embedding, encoder = model.core.get_layer("embedding"), model.core.get_layer("encoder")
    return encoder(embedding(ids, types=types), mask=ids != 0)


def theirs_of(model, ids, types):
    kind, mask = model.config.model_type, ids != 0
    if kind in PADDING_BY_1:  # theirs pads with 1
        ids = np.select([ids == 0, ids == 1], [1, 0], ids)
    inputs = {"input_ids": torch.tensor(ids).long(), "attention_mask": torch.tensor(mask).long()}
    if kind not in ("distilbert", "eurobert", "mpnet", "modernbert"):
        inputs["token_type_ids"] = torch.tensor(types).long()
    return model(**inputs).last_hidden_state


@pytest.mark.parametrize("lengths", LENGTHS, ids=lambda lengths: f"{len(lengths)}x{max(lengths)}")
def test_hidden_states_are_those_of_transformers(pair, lengths):
    check_hidden_states(*pair, lengths)


def test_hidden_states_of_long_texts_are_those_of_transformers(tmp_path):
    theirs = random_model("modernbert")
    check_hidden_states(models.TextEncoder(start=folder_of(theirs, tmp_path / "m")), theirs, [4096, 3000])


def check_hidden_states(ours, theirs, lengths):
    ids = ids_of(lengths)
    types = types_of(ours, ids)
    with torch.no_grad():
        wanted = theirs_of(theirs, ids, types).numpy()
    found, real = np.asarray(ours_of(ours, ids, types)), ids != 0
    assert np.abs(found - wanted)[real].max() <= 1e-5 * np.abs(wanted[real]).max()
    assert not found[~real].any()


@pytest.mark.parametrize("lengths", [[9, 4, 7], [190, 150]], ids=["padded", "packed"])
def test_gradients_are_those_of_transformers(pair, tmp_path, lengths):
    """Their gradients, saved like weights, are read into a model of ours: that puts them in our layout."""
    ours, theirs = pair
    ids = ids_of(lengths)
    types = types_of(ours, ids)
    direction = np.random.default_rng(3).normal(size=(*ids.shape, 24)).astype("float32")
    direction[ids == 0] = 0
    theirs.zero_grad()
    (theirs_of(theirs, ids, types) * torch.tensor(direction)).sum().backward()
    gradients = copy.deepcopy(theirs)
    with torch.no_grad():
        for weight, of_theirs in zip(gradients.parameters(), theirs.parameters(), strict=True):
            weight.copy_(torch.zeros_like(weight) if of_theirs.grad is None else of_theirs.grad)
    wanted = models.TextEncoder(start=folder_of(gradients, tmp_path / "gradients")).core.weights
    variables = [weight.value for weight in ours.core.weights]
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(ours_of(ours, ids, types) * direction)
    found = tape.gradient(total, variables)
    found = [np.asarray(tf.convert_to_tensor(gradient)) for gradient in found]
    # The gradient of the weights that their layers share is the sum of those of our copies.
    shared = {}
    for gradient, weight in zip(found, wanted, strict=True):
        if weight.name.startswith("relative_"):
            shared[weight.name] = shared.get(weight.name, 0) + gradient
    # Biases that GTE does not have are zeros here, which can move.
    of_ours = (
        ("feed_forward/hidden/bias", "feed_forward/gate/bias") if theirs.config.model_type == "gte" else ()
    )
    for variable, gradient, weight in zip(variables, found, wanted, strict=True):
        if weight.path.endswith(of_ours) and of_ours:
            assert not np.asarray(weight).any()
            continue
        value = shared.get(weight.name, gradient)
        largest = np.abs(weight).max()
        np.testing.assert_allclose(
            value, np.asarray(weight), atol=1e-4 * largest + 1e-6, err_msg=variable.name
        )


def test_mpnets_vectors_are_those_of_transformers_from_its_own_files(tmp_path):
    """A folder as transformers writes it, with its tokenizer; the mean of the tokens' hidden states."""
    theirs = random_model("mpnet")
    tokenizer = transformers.MPNetTokenizer({piece: number for number, piece in enumerate(PIECES_OF_MPNET)})
    theirs.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    texts = ["a good film.", "", "badly <mask> the films", "the </s> bad", "zebra", "good " * 600]
    texts += ["good <pad> films", "<pad>"]
    inputs = tokenizer(texts, padding=True, truncation=True, max_length=512, return_tensors="pt")
    with torch.no_grad():
        hidden = theirs(**inputs).last_hidden_state
    real = inputs["attention_mask"][..., None]
    wanted = ((hidden * real).sum(1) / real.sum(1)).numpy()
    ours = models.TextEncoder(start=tmp_path)
    assert ours.tokenizer.rows(texts)[0][0].tolist() == [1, 5, 6, 8, 11, 2]
    with pytest.warns(UserWarning, match="1 of 8 texts are longer than max_tokens=512"):
        found = ours.predict(texts, verbose=0)
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("problem", ["single_label_classification", "multi_label_classification"])
@pytest.mark.parametrize("name", CONFIGS)
def test_probabilities_are_those_of_their_classifiers(tmp_path, name, problem):
    labels = {0: "sad", 1: "glad", 2: "mixed"}
    kind = transformers.AutoModelForSequenceClassification
    theirs = random_model(name, kind, id2label=labels, problem_type=problem)
    several = problem.startswith("multi")
    folder = folder_of(theirs, tmp_path / "m")
    ours = models.TextClassifier.from_folder(folder)
    assert ours.labels == ["sad", "glad", "mixed"]
    texts = ["a good film.", "", "badly the films", "good " * 30, "zebra bad"]
    rows = ours.tokenizer.rows(texts)[0]
    ids = np.zeros((len(rows), max(map(len, rows))), "int32")
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
    mask, theirs_ids = ids != 0, ids
    if theirs.config.model_type in PADDING_BY_1:
        theirs_ids = np.select([ids == 0, ids == 1], [1, 0], ids)
    with torch.no_grad():
        logits = theirs(
            input_ids=torch.tensor(theirs_ids).long(), attention_mask=torch.tensor(mask).long()
        ).logits
    wanted = (torch.sigmoid(logits) if several else torch.softmax(logits, dim=-1)).numpy()
    assert np.ptp(wanted, axis=0).max() > 0.01  # the texts are told apart
    np.testing.assert_allclose(ours.predict(texts, verbose=0), wanted, atol=1e-5)


@pytest.mark.parametrize("prefixed", [False, True])
def test_robertas_vectors_are_those_of_transformers_from_its_own_files(tmp_path, prefixed):
    """A folder as transformers writes it, with byte pairs; the mean of the tokens' hidden states."""
    ids = {piece: number for number, piece in enumerate(BYTE_PAIRS)}
    merges = [tuple(merge.split(" ")) for merge in MERGES]
    tokenizer = transformers.RobertaTokenizerFast(vocab=ids, merges=merges, add_prefix_space=prefixed)
    torch.manual_seed(0)
    sizes = {**PADDED_BY_1, "vocab_size": len(ids), "type_vocab_size": 1, "layer_norm_eps": 1e-5}
    theirs = transformers.RobertaModel(transformers.RobertaConfig(**sizes)).eval()
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    theirs.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    texts = [
        *SENTENCES.values(),
        "",
        " bad  films\n",
        "good <mask> film's </s>",
        "It's a\u00a0film",
        "<pad> good<pad><pad> film",
        "<pad>",
        "bad " * 600,
    ]
    inputs = tokenizer(texts, padding=True, truncation=True, max_length=512, return_tensors="pt")
    with torch.no_grad():
        hidden = theirs(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]
        ).last_hidden_state
    real = inputs["attention_mask"][..., None]
    wanted = ((hidden * real).sum(1) / real.sum(1)).numpy()
    ours = models.TextEncoder(start=tmp_path)
    with pytest.warns(UserWarning, match="texts are longer than max_tokens=512"):
        found = ours.predict(texts, verbose=0)
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()
    words = ["good", "film", "", "it's"]
    if prefixed:
        known = tokenizer([[word] for word in words], is_split_into_words=True, add_special_tokens=False)
        swapped = [[{0: 1, 1: 0}.get(each, each) for each in row] for row in known["input_ids"]]
        assert ours.tokenizer.word_pieces(tf.constant(words)).to_list() == swapped


def test_the_buckets_of_distances_are_those_of_mpnet():
    bias, distances = layers.BucketedBias(), np.arange(-511, 512)
    bucket = transformers.models.mpnet.modeling_mpnet.MPNetEncoder.relative_position_bucket
    wanted = bucket(torch.tensor(distances)).tolist()
    assert [bias.bucket(max(-128, min(128, int(each))), causal=False) for each in distances] == wanted


def test_the_buckets_of_distances_are_those_of_deberta():
    from transformers.models.deberta_v2 import modeling_deberta_v2

    distances = np.arange(-1100, 1101)
    for buckets, far in [(256, 512), (8, 40), (32, 128), (256, 1024), (4, 5), (64, 999)]:
        positions = layers.DisentangledPositions(buckets, far)
        wanted = modeling_deberta_v2.make_log_bucket_position(torch.tensor(distances), buckets, far)
        wanted = torch.clamp(wanted, -buckets, buckets).long().tolist()
        assert [positions.bucket(int(each)) for each in distances] == wanted


@pytest.mark.parametrize(
    "name", ["bert", "deberta-v2", "distilbert", "eurobert", "gte", "mpnet", "nomic_bert", "roberta"]
)
def test_labels_of_tokens_are_those_of_transformers(name, tmp_path):
    """The logits of their model for labelled tokens at each first piece, with the words split beforehand."""
    theirs = random_model(name, transformers.AutoModelForTokenClassification, num_labels=4)
    folder = folder_of(theirs, tmp_path / "m")
    tokenizer = tokenizer_of(theirs, folder)
    rows = [["The", "goods", "badly."], ["film"], ["a-film", "x", "films", "bad", "the"] * 20]
    # Tokens that are special to the tokenizer are tokens all the same.
    rows += [[tokenizer.pad_token, "films", tokenizer.pad_token, "bad"], [tokenizer.pad_token]]
    rows += [["the", tokenizer.mask_token, tokenizer.cls_token, tokenizer.sep_token, tokenizer.unk_token]]
    inputs = tokenizer(rows, is_split_into_words=True, padding=True, return_tensors="pt")
    with torch.no_grad():
        found = theirs(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits
    model = models.TokenClassifier(start=folder)
    model.adapt(rows[:3], [["A", "B", "C"], ["D"], ["A"] * 100])
    kernel, bias = (weight.detach().numpy() for weight in theirs.classifier.parameters())
    model.core.get_layer("logits").set_weights([kernel.T, bias])
    ours = model.predict(rows, verbose=0)
    assert [len(answer) for answer in ours] == [len(row) for row in rows]
    for row, answer in enumerate(ours):
        words = inputs.word_ids(row)
        firsts = [words.index(word) for word in range(len(rows[row]))]
        wanted = torch.softmax(found[row, firsts], dim=-1).numpy()
        np.testing.assert_allclose(answer, wanted, atol=2e-5)


def tokenizer_of(theirs, folder):
    """The tokenizer of `transformers` for a folder with `vocab.txt`."""
    if theirs.config.model_type == "mpnet":
        return transformers.MPNetTokenizerFast.from_pretrained(folder, unk_token="[UNK]")
    return transformers.BertTokenizerFast.from_pretrained(folder)


def with_special_tokens(tokenizer):
    """Texts with special tokens in them: padding at each place and alone, beside shorter and longer ones."""
    pad, others = tokenizer.pad_token, (tokenizer.cls_token, tokenizer.sep_token, tokenizer.mask_token)
    texts = [f"a good {pad} film", f"{pad} film", f"bad film {pad}", pad, f"{pad}{pad} a {pad}", "a", ""]
    texts += ["the good film " * 5, f"the {pad} film " * 6, " ".join([*others, tokenizer.unk_token])]
    return [*texts, f"good{others[1]}film", f"{others[2]} {pad} {others[1]} bad"]


FAMILIES = [
    "bert",
    "eurobert",
    "gte",
    "jina_embeddings_v3",
    "nomic_bert",
    "deberta-v2",
    "electra",
    "electra, narrow",
    "distilbert",
    "mpnet",
    "roberta",
    "xlm-roberta",
    "modernbert",
]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_special_token_of_a_text_is_read_as_by_transformers(tmp_path, name):
    """Hidden states; the mask is that of their tokenizer, which knows what padding is and what a text has."""
    theirs = random_model(name)
    ours = models.TextEncoder(start=folder_of(theirs, tmp_path / "m"))
    tokenizer = tokenizer_of(theirs, tmp_path / "m")
    texts = with_special_tokens(tokenizer)
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    mask = inputs["attention_mask"].numpy() == 1
    with torch.no_grad():
        wanted = theirs(**{each: inputs[each] for each in ("input_ids", "attention_mask")})[0].numpy()
    ids = ours.tokenizer.padded(tf.constant(texts)).numpy()
    np.testing.assert_array_equal(ids != 0, mask)
    found = ours.core.get_layer("encoder")(ours.core.get_layer("embedding")(ids), mask=mask)
    np.testing.assert_allclose(np.asarray(found)[mask], wanted[mask], atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("name", ["bert", "mpnet", "roberta", "modernbert"])
def test_vectors_of_texts_with_special_tokens_are_those_of_sentence_transformers(tmp_path, name, pooling):
    """From the folder that it writes. Its pooling has the tokenizer's mask, and leaves no token out."""
    sentences = pytest.importorskip("sentence_transformers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    theirs = random_model(name)
    tokenizer = tokenizer_of(theirs, folder_of(theirs, tmp_path / "m"))
    tokenizer.save_pretrained(tmp_path / "m")
    parts = [modules.Transformer(str(tmp_path / "m")), modules.Pooling(24, pooling)]
    encoder = sentences.SentenceTransformer(modules=parts, device="cpu")
    encoder.save(str(tmp_path / "whole"))
    texts = with_special_tokens(tokenizer)
    ours = models.TextEncoder(start=tmp_path / "whole")
    assert ours.config.pooling == {"cls": "first"}.get(pooling, pooling)
    np.testing.assert_allclose(ours.predict(texts, verbose=0), encoder.encode(texts), atol=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_probabilities_of_texts_with_special_tokens_are_those_of_transformers(tmp_path, name):
    labels = {0: "sad", 1: "glad", 2: "mixed"}
    theirs = random_model(name, transformers.AutoModelForSequenceClassification, id2label=labels)
    folder = folder_of(theirs, tmp_path / "m")
    tokenizer = tokenizer_of(theirs, folder)
    texts = with_special_tokens(tokenizer)
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = theirs(**{each: inputs[each] for each in ("input_ids", "attention_mask")}).logits
    found = models.TextClassifier.from_folder(folder).predict(texts, verbose=0)
    np.testing.assert_allclose(found, torch.softmax(logits, dim=-1).numpy(), atol=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_probabilities_of_pairs_are_those_of_transformers(tmp_path, name):
    """A cross-encoder of labels, with the ids and types of their tokenizer; lengths differ in the batch."""
    labels = {0: "no", 1: "yes", 2: "maybe"}
    theirs = random_model(name, transformers.AutoModelForSequenceClassification, id2label=labels)
    folder = folder_of(theirs, tmp_path / "m")
    tokenizer = tokenizer_of(theirs, folder)
    pairs = [("a good film.", "badly the films"), ("", "good"), ("zebra bad", ""), ("the film " * 4, "a.")]
    inputs = tokenizer(*map(list, zip(*pairs, strict=True)), padding=True, return_tensors="pt")
    taken = [each for each in ("input_ids", "attention_mask", "token_type_ids") if each in inputs]
    if theirs.config.model_type not in ("bert", "electra", "nomic_bert"):  # no types, or one
        taken = taken[:2]
    with torch.no_grad():
        logits = theirs(**{each: inputs[each] for each in taken}).logits
    found = models.TextClassifier.from_folder(folder, text_pairs=True).predict(pairs, verbose=0)
    np.testing.assert_allclose(found, torch.softmax(logits, dim=-1).numpy(), atol=1e-5)


GUESSERS = {"bert": "bert", "electra, narrow": "electra generator", "roberta": "roberta", "mpnet": "mpnet"}
GUESSERS |= {"distilbert": "distilbert", "modernbert": "modernbert", "xlm-roberta": "xlm-roberta"}
GUESSERS |= dict(zip(*[["deberta-v2", "gte", "jina_embeddings_v3", "nomic_bert"]] * 2, strict=True))
GUESSERS |= {"modernbert, odd window, with biases": "modernbert with biases"}


@pytest.mark.parametrize("name", GUESSERS, ids=GUESSERS.get)
def test_logits_of_hidden_pieces_are_those_of_transformers(tmp_path, name):
    """From the folder that transformers writes, and with it the loss before the first step."""
    torch.manual_seed(0)
    theirs = transformers.AutoModelForMaskedLM.from_config(CONFIGS[name]()).eval()
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    ours = models.MaskedTokenModel(start=folder_of(theirs, tmp_path / "m"))
    pad = tokenizer_of(theirs, tmp_path / "m").pad_token
    texts = ["a good film.", "the bad films are badly bad", "good film. " * 60]
    texts.append(f"{pad} good films, {pad} the film")
    ours.adapt(texts, None)
    ours.compile()
    assert not ours.start.new_head
    written = ours.tokenizer.written_padding
    batches = list(ours.hidden_batches(texts))
    found = np.concatenate([np.asarray(ours.core(list(inputs))) for inputs, _ in batches])
    padded_by_1 = theirs.config.model_type in PADDING_BY_1
    order = [1, 0, *range(2, len(PIECES))] if padded_by_1 else list(range(len(PIECES)))
    rows = []
    assert any(written in ids for (_, ids), _ in batches)
    for (places, ids), _ in batches:
        inputs = {
            "input_ids": torch.tensor(np.array(order)[np.where(ids == written, 0, ids)]).long(),
            "attention_mask": torch.tensor(ids != 0).long(),
        }
        with torch.no_grad():
            rows.append(theirs(**inputs).logits.numpy().reshape(-1, len(PIECES))[places][:, order])
    wanted = np.concatenate(rows)
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()
    targets = torch.tensor(np.concatenate([ids for _, ids in batches])).long()
    loss = torch.nn.functional.cross_entropy(torch.tensor(wanted), targets)
    assert ours.evaluate(texts, verbose=0)[0] == pytest.approx(float(loss), rel=1e-5)

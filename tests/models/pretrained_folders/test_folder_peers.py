"""Folders of pretrained encoders as `transformers` and `sentence-transformers` save and read them.

Needs the extras `backends` and `bench`; elsewhere these tests are skipped.
"""

import itertools
import json

import keras
import numpy as np
import pytest
from pretrained_folders import PIECES, usual_class

from keras_selfattn import models
from keras_selfattn.errors import ConfigError
from keras_selfattn.models.subwords.wordpiece import WordPiece

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

VOCABULARY = [*PIECES, "Good", "É", "e", "é", "東", "京", "東京", "x", "##x", "<", "##<", ">", "##>", "y"]
TEXTS = ["good new Film <x> a", "New É é 東京", "[MASK] good[SEP]film <y>", "the <b> <z>new", "xxxxxxxxxxxx"]
UNSET = object()
ROWS = 64


def tokenizer_file(added=(), special=PIECES[:5], normal=(), **model):
    """Returns `tokenizer.json` of the package, with other settings than the defaults of any class."""
    ids = {piece: number for number, piece in enumerate(VOCABULARY)}
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(ids, unk_token="[UNK]", **model))
    made.normalizer = tokenizers.normalizers.BertNormalizer(**dict(normal))
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.add_special_tokens(list(special))
    made.add_tokens(list(added))
    return json.loads(made.to_str())


def token(content="new", **flags):
    return {
        "content": content,
        **dict.fromkeys(("lstrip", "rstrip", "single_word", "special"), False),
        "normalized": True,
        **flags,
    }


def write(folder, tokenizer, config, family="bert", **files):
    """Writes the tokenizer of a folder; without `tokenizer.json` if it is None."""
    folder.mkdir()
    files["config.json"] = {"model_type": family, "vocab_size": ROWS}
    files["tokenizer_config.json"] = config
    if tokenizer is None:
        (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in VOCABULARY), encoding="utf-8")
    else:
        files["tokenizer.json"] = tokenizer
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def check_ids(folder, note):
    """Compare our ids with those of AutoTokenizer; both refuse a folder, or none does."""
    try:
        theirs = transformers.AutoTokenizer.from_pretrained(folder)
    except TypeError:
        with pytest.raises(ConfigError):
            WordPiece.from_folder(folder, 100, usual_class(folder))
        return
    ours = WordPiece.from_folder(folder, 100, usual_class(folder))
    # Padding that a text has is a token, with an id of its own.
    found = [np.where(row == ours.written_padding, 0, row).tolist() for row in ours.rows(TEXTS)[0]]
    assert found == theirs(TEXTS)["input_ids"], note


CLASSES = [None, "BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "ElectraTokenizerFast"]
CLASSES += ["PreTrainedTokenizerFast", "TokenizersBackend"]
OTHER = {"lowercase": False, "strip_accents": True, "handle_chinese_chars": False, "clean_text": False}


@pytest.mark.parametrize(
    ("family", "name"),
    [
        *(("bert", name) for name in CLASSES),
        *itertools.product(
            ["distilbert", "electra", "modernbert", "mpnet"], [None, "PreTrainedTokenizerFast"]
        ),
        ("modernbert", "BertTokenizer"),
    ],
)
def test_the_flags_of_either_file_win_as_in_transformers(tmp_path, family, name):
    flags = ([UNSET, True, False, None], [UNSET, True, None], [UNSET, False])
    for number, (case, accents, ideographs) in enumerate(itertools.product(*flags)):
        config = {"do_lower_case": case, "strip_accents": accents, "tokenize_chinese_chars": ideographs}
        config = {key: value for key, value in config.items() if value is not UNSET}
        config |= {} if name is None else {"tokenizer_class": name}
        for other in ({}, OTHER):
            folder = tmp_path / f"{number}-{len(other)}"
            check_ids(write(folder, tokenizer_file(normal=other), config, family), (config, other))


DECODER = {str(place): token(each, normalized=False, special=True) for place, each in enumerate(PIECES[:5])}
NEXT = len(VOCABULARY)
TYPED = {"__type": "AddedToken", **token("<x>", normalized=False, special=True, lstrip=True)}
CONFIGS = {
    "nothing": {},
    "all in the decoder": {"added_tokens_decoder": DECODER},
    "one more in the decoder": {"added_tokens_decoder": {**DECODER, str(NEXT): token()}},
    "other flags": {"added_tokens_decoder": {**DECODER, str(NEXT): token(lstrip=True, normalized=False)}},
    "a piece": {"added_tokens_decoder": {**DECODER, "6": token("good")}},
    "two": {"added_tokens_decoder": {**DECODER, str(NEXT + 1): token("<x>"), str(NEXT): token()}},
    "without flags": {"added_tokens_decoder": {"0": {"content": "[PAD]"}, str(NEXT): {"content": "new"}}},
    "additional": {"additional_special_tokens": ["<x>"]},
    "extra": {"extra_special_tokens": ["<x>"]},
    "extra by name": {"extra_special_tokens": {"image_token": "<x>"}},
    "extra before additional": {"extra_special_tokens": ["<x>"], "additional_special_tokens": ["<y>"]},
    "no extra, additional": {"extra_special_tokens": [], "additional_special_tokens": ["<x>"]},
    "any name": {"foo_token": "<x>"},
    "beginning": {"bos_token": "<x>"},
    "typed": {"additional_special_tokens": [TYPED]},
    "another mask": {"mask_token": "<x>"},
    "a typed mask": {"mask_token": TYPED},
    "no mask": {"mask_token": None},
    "another unknown one": {"unk_token": "film"},
    "other ends": {"cls_token": "film", "sep_token": "bad"},
    "several": {"bos_token": "<b>", "foo_token": "<x>", "additional_special_tokens": ["<z>", "<y>"]},
}
NEW = tokenizers.AddedToken("new")


@pytest.mark.parametrize("name", [None, "BertTokenizer", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("case", CONFIGS)
def test_added_tokens_of_the_config_are_those_of_transformers(tmp_path, name, case):
    config = {**CONFIGS[case], **({} if name is None else {"tokenizer_class": name})}
    files = {
        "plain": tokenizer_file(),
        "added": tokenizer_file([NEW]),
        "none": tokenizer_file(special=()),
        "long": tokenizer_file(max_input_chars_per_word=5),
    }
    if name != "PreTrainedTokenizerFast":
        files["vocabulary"] = None
    for kind, file in files.items():
        if kind == "added" and "<x>" in str(config.get("added_tokens_decoder")):
            continue
        check_ids(write(tmp_path / kind, file, config), (config, kind))


MAPPED = {"mask_token": token("good", lstrip=True, normalized=False), "unk_token": "[PAD]"}
FILES = {
    "added": ({}, {"added_tokens.json": {"new": NEXT}}),
    "added, special": ({"bos_token": "<b>"}, {"added_tokens.json": {"new": NEXT, "<b>": NEXT + 1}}),
    "added, but a decoder": ({"added_tokens_decoder": DECODER}, {"added_tokens.json": {"new": NEXT}}),
    "additional": ({}, {"special_tokens_map.json": {"additional_special_tokens": ["<x>"]}}),
    "additional, and the config's": (
        {"additional_special_tokens": ["<y>"]},
        {"special_tokens_map.json": {"additional_special_tokens": ["<x>"]}},
    ),
    "extra": ({}, {"special_tokens_map.json": {"extra_special_tokens": ["<x>"]}}),
    "extra, and the config's": (
        {"extra_special_tokens": ["<y>"]},
        {"special_tokens_map.json": {"extra_special_tokens": ["<x>"]}},
    ),
    "map, but a decoder": (
        {"added_tokens_decoder": DECODER},
        {"special_tokens_map.json": {"additional_special_tokens": ["<x>"]}},
    ),
    "other special ones": ({}, {"special_tokens_map.json": MAPPED}),
    "any name": ({}, {"special_tokens_map.json": {"foo_token": "<x>", "bos_token": "<b>"}}),
}


@pytest.mark.parametrize("name", ["BertTokenizer", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("case", FILES)
def test_added_tokens_of_older_files_are_those_of_transformers(tmp_path, name, case):
    config, files = FILES[case]
    check_ids(write(tmp_path / "m", tokenizer_file(), {**config, "tokenizer_class": name}, **files), case)


def test_tokens_added_to_a_tokenizer_of_transformers_are_read(tmp_path):
    made = transformers.BertTokenizer({piece: number for number, piece in enumerate(VOCABULARY)})
    made.add_tokens(["New York", "東京", "ood"])
    made.add_special_tokens({"additional_special_tokens": ["<X>"]})
    made.save_pretrained(tmp_path / "m")
    (tmp_path / "m" / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": ROWS}))
    texts = [*TEXTS, "new york NEW\nYORK", "東京に 東 京", "food", "<x> <X>"]
    ours = WordPiece.from_folder(tmp_path / "m", 100, usual_class(tmp_path / "m"))
    assert [row.tolist() for row in ours.rows(texts)[0]] == made(texts)["input_ids"]


# As in sentence-transformers: its own folders, with modules that this package reads.
torch = pytest.importorskip("torch")
SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40}
OF_FAMILIES = {
    "bert": ("BertConfig", {**SIZES, "max_position_embeddings": 64, "hidden_act": "silu"}),
    "distilbert": ("DistilBertConfig", {"dim": 24, "n_layers": 2, "n_heads": 4, "hidden_dim": 40}),
    "electra": ("ElectraConfig", {**SIZES, "embedding_size": 10}),
}
ENDS = {"pad_token_id": 0, "cls_token_id": 2, "bos_token_id": 2, "sep_token_id": 3, "eos_token_id": 3}
OF_CROSS_ENCODERS = {
    "roberta": ("RobertaConfig", {**SIZES, **ENDS, "max_position_embeddings": 64}),
    "modernbert": ("ModernBertConfig", {**SIZES, **ENDS, "max_position_embeddings": 64}),
}
SENTENCES = ["a good film.", "", "Badly the FILMS", "good new " * 80, "élan 東京 [MASK] bad"]


def saved_model(folder, family="bert", kind="AutoModel", **settings):
    """Writes a model of transformers with its tokenizer."""
    torch.manual_seed(0)
    name, sizes = {**OF_FAMILIES, **OF_CROSS_ENCODERS}[family]
    config = getattr(transformers, name)(**sizes, vocab_size=ROWS, **settings)
    model = getattr(transformers, kind).from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    model.save_pretrained(folder)
    tokenizer = transformers.BertTokenizer({piece: number for number, piece in enumerate(VOCABULARY)})
    tokenizer.add_tokens(["New"])
    tokenizer.save_pretrained(folder)
    return folder


def check_vectors(folder, theirs=None):
    """Compare our vectors with those of sentence-transformers, and return ours."""
    peer = pytest.importorskip("sentence_transformers")
    theirs = theirs or peer.SentenceTransformer(str(folder), device="cpu")
    wanted = theirs.encode(SENTENCES)
    found = models.TextEncoder(start=folder).predict(SENTENCES, verbose=0)
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()
    return found


@pytest.mark.parametrize("family", OF_FAMILIES)
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_vectors_are_those_of_sentence_transformers_from_its_folder(tmp_path, family, pooling):
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    peer = pytest.importorskip("sentence_transformers")
    base = modules.Transformer(str(saved_model(tmp_path / "base", family)))
    parts = [
        base,
        modules.Pooling(24, pooling),
        modules.Normalize(),
        modules.Dropout(0.3),
        modules.Normalize(),
    ]
    parts = parts if pooling == "mean" else parts[:2]
    peer.SentenceTransformer(modules=parts, device="cpu").save(str(tmp_path / "m"))
    check_vectors(tmp_path / "m")


@pytest.mark.parametrize(
    "files",
    [
        {"sentence_bert_config.json": {"max_seq_length": 7, "do_lower_case": False}},
        {"sentence_bert_config.json": {"max_seq_length": None, "do_lower_case": True}},
        {"tokenizer_config.json": {"model_max_length": 9}},
        {"tokenizer_config.json": {"max_len": 9}},
        {"tokenizer_config.json": {"do_lower_case": False, "strip_accents": True}},
        {"config_sentence_transformers.json": {"default_prompt_name": "query", "prompts": {"query": ""}}},
        {"config_sentence_transformers.json": {"default_prompt_name": "document"}},
        {"1_Pooling/config.json": {"word_embedding_dimension": 24, "pooling_mode_cls_token": True}},
        {
            "1_Pooling/config.json": {
                "word_embedding_dimension": 24,
                "pooling_mode": "max",
                "pooling_mode_mean_tokens": True,
            }
        },
    ],
    ids=lambda files: " ".join(json.dumps(files).split()[:4]),
)
def test_fields_are_read_as_sentence_transformers_reads_them(tmp_path, files):
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    peer = pytest.importorskip("sentence_transformers")
    base = modules.Transformer(str(saved_model(tmp_path / "base")))
    peer.SentenceTransformer(modules=[base, modules.Pooling(24)], device="cpu").save(str(tmp_path / "m"))
    for name, content in files.items():
        held = json.loads((tmp_path / "m" / name).read_text()) if name == "tokenizer_config.json" else {}
        held.pop("model_max_length", None)
        (tmp_path / "m" / name).write_text(json.dumps({**held, **content}))
    check_vectors(tmp_path / "m")


@pytest.mark.parametrize(
    "pooling",
    [
        ["max", "mean"],
        ("cls", "mean", "max"),
        {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
    ],
    ids=["two", "three", "older flags"],
)
def test_several_poolings_stand_side_by_side_as_in_sentence_transformers(tmp_path, pooling):
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    peer = pytest.importorskip("sentence_transformers")
    base = modules.Transformer(str(saved_model(tmp_path / "base")))
    older = isinstance(pooling, dict)
    parts = [base, modules.Pooling(24, "mean" if older else pooling)]
    peer.SentenceTransformer(modules=parts, device="cpu").save(str(tmp_path / "m"))
    if older:
        config = {"word_embedding_dimension": 24, **pooling}
        (tmp_path / "m" / "1_Pooling" / "config.json").write_text(json.dumps(config))
    assert check_vectors(tmp_path / "m").shape[1] == 24 * len(pooling)


@pytest.mark.parametrize("kind", ["LaBSE", "distiluse", "EmbeddingGemma", "of several poolings", "cut"])
def test_layers_after_the_pooling_are_those_of_sentence_transformers(tmp_path, kind):
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    base_modules = pytest.importorskip("sentence_transformers.base.modules")
    peer = pytest.importorskip("sentence_transformers")
    torch.manual_seed(1)
    dense, normal = base_modules.Dense, modules.Normalize
    linear = {"activation_function": torch.nn.Identity(), "bias": False}
    gelu = {"activation_function": torch.nn.GELU()}
    parts = {
        "LaBSE": lambda: [modules.Pooling(24, "cls"), dense(24, 24), normal()],
        "distiluse": lambda: [modules.Pooling(24), dense(24, 10)],
        "EmbeddingGemma": lambda: [
            modules.Pooling(24),
            dense(24, 40, **linear),
            dense(40, 24, **linear),
            normal(),
        ],
        "of several poolings": lambda: [
            modules.Pooling(24, ("mean", "max")),
            modules.Dropout(0.2),
            dense(48, 7, **gelu),
        ],
        "cut": lambda: [modules.Pooling(24), dense(24, 12), normal()],
    }[kind]()
    made = [modules.Transformer(str(saved_model(tmp_path / "base"))), *parts]
    cut = {"truncate_dim": 5} if kind == "cut" else {}
    peer.SentenceTransformer(modules=made, device="cpu", **cut).save(str(tmp_path / "m"))
    width = {"LaBSE": 24, "distiluse": 10, "EmbeddingGemma": 24, "of several poolings": 7, "cut": 5}[kind]
    assert check_vectors(tmp_path / "m").shape[1] == width


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", ("mean", "max")])
@pytest.mark.parametrize("included", [True, False])
def test_a_default_prompt_is_that_of_sentence_transformers(tmp_path, pooling, included):
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    peer = pytest.importorskip("sentence_transformers")
    base = modules.Transformer(str(saved_model(tmp_path / "base")))
    parts = [base, modules.Pooling(24, pooling, include_prompt=included)]
    prompts = {"prompts": {"film": "the bad films: "}, "default_prompt_name": "film"}
    whole = peer.SentenceTransformer(modules=parts, device="cpu", **prompts)
    whole.save(str(tmp_path / "m"))
    check_vectors(tmp_path / "m")
    assert models.TextEncoder(start=tmp_path / "m").config.pools_prompt is included


@pytest.mark.parametrize("cut", [8, 24, 30])
def test_vectors_are_cut_as_by_sentence_transformers(tmp_path, cut):
    peer = pytest.importorskip("sentence_transformers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    base = modules.Transformer(str(saved_model(tmp_path / "base")))
    whole = peer.SentenceTransformer(
        modules=[base, modules.Pooling(24), modules.Normalize()], truncate_dim=cut, device="cpu"
    )
    whole.save(str(tmp_path / "cut"))
    assert check_vectors(tmp_path / "cut").shape[1] == min(cut, 24)


def test_a_cross_encoder_is_refused(tmp_path):
    """It is a folder that sentence-transformers writes, with scores as outputs."""
    peer = pytest.importorskip("sentence_transformers")
    base = str(saved_model(tmp_path / "base"))
    peer.CrossEncoder(base, device="cpu").save(str(tmp_path / "cross"))
    with pytest.raises(ConfigError, match="`model_type` is 'CrossEncoder'|`transformer_task` is 'sequence"):
        models.TextEncoder(start=tmp_path / "cross")


def test_distilberts_other_names_of_its_sizes_are_read(tmp_path):
    folder = saved_model(tmp_path / "m", "distilbert")
    config = json.loads((folder / "config.json").read_text())
    other = {"dim": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads"}
    config = {other.get(name, name): value for name, value in config.items()}
    (folder / "config.json").write_text(json.dumps(config))
    check_vectors(folder)


@pytest.mark.parametrize("activation", ["silu", "gelu_pytorch_tanh"])
def test_activations_of_a_head_are_those_of_transformers(tmp_path, activation):
    torch.manual_seed(0)
    labels = {0: "sad", 1: "glad", 2: "mixed"}
    ends = {"pad_token_id": 0, "cls_token_id": 2, "bos_token_id": 2, "sep_token_id": 3, "eos_token_id": 3}
    config = transformers.ModernBertConfig(
        **SIZES, **ends, vocab_size=ROWS, classifier_activation=activation, id2label=labels
    )
    theirs = transformers.ModernBertForSequenceClassification(config).eval()
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    theirs.save_pretrained(tmp_path)
    tokenizer = transformers.BertTokenizer({piece: number for number, piece in enumerate(VOCABULARY)})
    tokenizer.save_pretrained(tmp_path)
    texts = ["a good film.", "bad", "the films badly"]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = theirs(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits
    found = models.TextClassifier.from_folder(tmp_path).predict(texts, verbose=0)
    np.testing.assert_allclose(found, torch.softmax(logits, dim=-1).numpy(), atol=1e-5)


PAIRS = [("a good film.", "bad"), ("", "the films"), ("bad", ""), ("good new " * 30, "the film is bad " * 25)]


@pytest.mark.parametrize(
    ("family", "outputs", "activation"),
    [
        ("bert", 1, "Sigmoid"),
        ("bert", 3, "Identity"),
        ("electra", 1, "Identity"),
        ("roberta", 1, None),
        ("modernbert", 1, "Identity"),
    ],
)
def test_scores_of_a_cross_encoder_are_those_of_sentence_transformers(tmp_path, family, outputs, activation):
    peer = pytest.importorskip("sentence_transformers")
    base = saved_model(tmp_path / "base", family, "AutoModelForSequenceClassification", num_labels=outputs)
    function = None if activation is None else getattr(torch.nn, activation)()
    # Shorter than RoBERTa's positions, of which two are of no token; the last pair is cut.
    theirs = peer.CrossEncoder(str(base), device="cpu", activation_fn=function, max_length=40)
    theirs.save(str(tmp_path / "m"))
    # Labels have probabilities here; sentence-transformers gives them where it is asked.
    wanted = theirs.predict(PAIRS, apply_softmax=outputs > 1).reshape(len(PAIRS), outputs)
    model = models.load(tmp_path / "m")
    assert model.text_pairs
    found = model.predict(PAIRS, verbose=0)
    np.testing.assert_allclose(found, wanted, atol=1e-5, rtol=1e-5)
    if outputs == 1:
        documents = [text for pair in PAIRS for text in pair]
        ranked = theirs.rank("a good film", documents)
        scores = model.predict([("a good film", each) for each in documents], verbose=0)[:, 0]
        # In their order: two scores may be alike but for rounding.
        in_turn = scores[[each["corpus_id"] for each in ranked]]
        assert sorted(each["corpus_id"] for each in ranked) == list(range(len(documents)))
        np.testing.assert_allclose(in_turn, [each["score"] for each in ranked], atol=1e-5)


@pytest.mark.parametrize(
    ("family", "activation", "loss"),
    [("bert", "Identity", "MSELoss"), ("roberta", "Sigmoid", "BinaryCrossEntropyLoss")],
)
def test_a_training_step_of_a_cross_encoder_is_that_of_sentence_transformers(
    tmp_path, family, activation, loss
):
    peer = pytest.importorskip("sentence_transformers")
    still = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"), 0.0)
    base = saved_model(tmp_path / "base", family, "AutoModelForSequenceClassification", num_labels=1, **still)
    function = getattr(torch.nn, activation)()
    theirs = peer.CrossEncoder(str(base), device="cpu", activation_fn=function, max_length=40)
    theirs.save(str(tmp_path / "m"))
    rows, scores, rate = PAIRS[:3], [0.9, 0.1, 0.5], 0.1
    ours = models.load(tmp_path / "m")
    before = ours.predict(rows, verbose=0)
    wanted = getattr(peer.cross_encoder.losses, loss)(theirs.train())(
        [list(texts) for texts in zip(*rows, strict=True)], torch.tensor(scores)
    )
    step = torch.optim.SGD(theirs.parameters(), rate)
    wanted.backward()
    step.step()
    ours.compile(keras.optimizers.SGD(rate), ours.head.loss())
    assert ours.train_on_batch(rows, scores)[0] == pytest.approx(float(wanted.detach()), rel=1e-5)
    after = theirs.eval().predict(rows).reshape(-1, 1)
    assert np.abs(after - before).max() > 1e-3, "a step that changes nothing would tell nothing"
    np.testing.assert_allclose(ours.predict(rows, verbose=0), after, atol=1e-5 * max(1, np.abs(after).max()))

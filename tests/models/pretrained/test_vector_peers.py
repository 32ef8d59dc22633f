"""The training of vectors beside sentence-transformers: the same losses, and the same weights after a step.

Needs the extras `backends` and `bench`; elsewhere these tests are skipped.
"""

import keras
import numpy as np
import pytest
from pretrained_folders import BERT, write_folder

from keras_selfattn import models

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch")
peer = pytest.importorskip("sentence_transformers")

STILL = {**BERT, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
MODULES = [
    {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
    for place, (path, kind) in enumerate(
        [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    )
]
TRIPLETS = [
    ("a good film .", "the good film", "badly"),
    ("the films", "films badly", "good"),
    ("bad", "a bad film", "goods"),
    ("the", "a", "films ."),
]
SCORES = [0.9, 0.1, 1.0, 0.5]
TEXTS = [text for texts in TRIPLETS for text in texts]
CASES = {
    "order": ("CoSENTLoss", 2, SCORES, {}),
    "cosine": ("CosineSimilarityLoss", 2, SCORES, {"score_loss": "cosine"}),
    "pairs that belong together": ("MultipleNegativesRankingLoss", 2, None, {}),
    "triplets": ("MultipleNegativesRankingLoss", 3, None, {}),
}


def folder_of(place, pooling):
    """Writes a folder with sentence-transformers' modules."""
    mean = pooling == "mean, of length 1"
    pooled = {
        "word_embedding_dimension": 8,
        "pooling_mode_mean_tokens": mean,
        "pooling_mode_cls_token": not mean,
    }
    files = {"modules__json": MODULES[: 2 + mean], "1_Pooling/config__json": pooled}
    files["tokenizer_config__json"] = {"tokenizer_class": "BertTokenizer"}
    return write_folder(place / "m", STILL, **files)


@pytest.mark.parametrize(
    ("case", "pooling"), [*((case, "mean, of length 1") for case in CASES), ("triplets", "first")]
)
def test_a_step_is_that_of_sentence_transformers(tmp_path, case, pooling):
    name, texts, scores, settings = CASES[case]
    rows, rate, folder = [row[:texts] for row in TRIPLETS], 0.5, folder_of(tmp_path, pooling)
    theirs = peer.SentenceTransformer(str(folder), device="cpu").train()
    ours = models.TextEncoder(settings, start=folder)
    before = ours.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(before, theirs.encode(TEXTS), atol=1e-5)
    loss = getattr(peer.sentence_transformer.losses, name)(theirs)
    columns = [theirs.preprocess(list(column)) for column in zip(*rows, strict=True)]
    step = torch.optim.SGD(theirs.parameters(), rate)
    wanted = loss(columns, None if scores is None else torch.tensor(scores))
    wanted.backward()
    step.step()
    ours.compile(keras.optimizers.SGD(rate))
    assert ours.train_on_batch(rows, scores) == pytest.approx(float(wanted.detach()), rel=1e-5)
    after = theirs.eval().encode(TEXTS)
    assert np.abs(after - before).max() > 1e-3, "a step that changes nothing would tell nothing"
    np.testing.assert_allclose(ours.predict(TEXTS, verbose=0), after, atol=1e-5 * max(1, np.abs(after).max()))

"""The graph side of a kind of rows is its front: what it declares is exported; nothing names its class."""

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import keras_selfattn.export as exporting
from keras_selfattn import models
from keras_selfattn.errors import ExportError
from keras_selfattn.export.contract import contract_for
from keras_selfattn.export.portable.number_contract import number_contract
from keras_selfattn.export.saved_weights import Weights
from keras_selfattn.export.signatures.model_signatures import Signature
from keras_selfattn.export.signatures.raw_front import RawFront, front_of
from keras_selfattn.export.signatures.raw_models import raw_front
from keras_selfattn.rows.texts import TextRows

SMALL = {"width": 8, "num_layers": 1, "num_heads": 2, "wide": False}


class Telegrams(TextRows):
    """Texts in capitals: a kind of rows that export knows nothing of."""

    subject = "telegram"


class TelegramClassifier(models.TextClassifier):
    row_kind = Telegrams()


class TelegramFront(RawFront):
    """Reads one text a row under another name, and has a signature of its own, of the words' number."""

    number_input = "words"

    def __init__(self, model):
        super().__init__(model)
        self._tokenizer = model.tokenizer
        self.specs = {"telegram": tf.TensorSpec([None], tf.string, name="telegram")}
        self.tracked = [self._tokenizer.table]

    def __call__(self, *raw):
        return self._tokenizer(tf.strings.lower(raw[0]))

    def requests(self):
        return [self.asked("GOOD STOP"), {"telegram": np.array([b"BAD", b"GOOD BAD"], dtype=object)}]

    def asked(self, row):
        return {"telegram": np.array([row.encode()], dtype=object)}

    def more_requests(self):
        return [self.asked("STOP " * 9)]

    def more_signatures(self, graphs, requests, *, real):
        words = graphs.beside_answers(lambda texts: {"words": tf.strings.length(texts)})
        return {"words": Signature(words, requests), **super().more_signatures(graphs, requests, real=real)}

    def check_portable(self):
        raise ExportError("Telegrams stay here.")


@pytest.fixture(scope="module")
def model():
    front_of(TelegramClassifier)(TelegramFront)
    return TelegramClassifier(SMALL, vocabulary=["good", "bad"], labels=["+", "-"])


def test_a_front_declares_its_signatures_requests_and_subject(model):
    found = contract_for(model, Weights(model), example="BAD STOP")
    assert list(found.signatures) == ["serving_default", "classify", "words", "explain"]
    assert found.task == "telegram-classification"
    asked = found.signatures["serving_default"].requests
    assert [request["telegram"][0] for request in asked] == [b"BAD STOP", b"BAD", b"STOP " * 9]
    assert len(found.signatures["words"].requests) == len(found.signatures["classify"].requests) == 2
    answer = found.signatures["words"].function(tf.constant(["BAD"]))
    assert answer["words"].numpy().tolist() == [3]
    assert found.named(["GOOD"]) == {"telegram": ["GOOD"]}


def test_a_front_says_what_no_other_runtime_can_compute_and_which_files_make_its_ids(model):
    with pytest.raises(ExportError, match="Telegrams stay here"):
        number_contract(model)
    assert raw_front(model).id_files() == {}
    known = raw_front(models.TextClassifier(SMALL, vocabulary=["good", "bad"], labels=["+", "-"]))
    assert sorted(known.id_files()) == ["tokenizer.json", "tokenizer_examples.json"]


def test_a_model_without_a_front_of_its_own_has_that_of_the_class_it_is_derived_from():
    class Derived(TelegramClassifier):
        pass

    front_of(TelegramClassifier)(TelegramFront)
    assert type(raw_front(Derived(SMALL, vocabulary=["good"], labels=["+", "-"]))) is TelegramFront


def test_the_classes_of_models_fronts_and_heads_are_named_beside_them_alone():
    """A further kind of rows needs no line in the contract, the portable files or the precision."""
    kinds = r"(Text|Token|Image|Series|Piece)\w*(Classifier|Front|Encoder|Regressor|Forecaster)|PositionHead"
    folder = Path(exporting.__file__).parent
    above = [*folder.glob("*.py"), *folder.glob("portable/*.py"), folder / "signatures/model_signatures.py"]
    code = {path.name: re.sub(r'"""[\s\S]*?"""', "", path.read_text("utf-8")) for path in above}
    named = {name for name, text in code.items() if re.search(rf"(import|isinstance)\b.*\b({kinds})\b", text)}
    assert {"contract.py", "number_contract.py", "precision.py", "model_signatures.py"} <= set(code)
    assert named == set()

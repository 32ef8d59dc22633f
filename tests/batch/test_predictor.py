"""The callable for jobs of one's own: columns in and out, light to import, a pickle without the model."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from keras_selfattn import batch
from keras_selfattn.errors import ConfigError, DataError


def test_the_answers_stand_beside_the_columns_in_the_order_of_the_rows(model):
    texts = ["a" * (n * 7 % 30) for n in range(50)]
    answered = batch.predictor(model, batch_size=8)({"id": np.arange(50), "text": np.array(texts, object)})
    assert list(answered) == ["id", "text", "predicted_label", "score"]
    assert answered["id"].tolist() == list(range(50))
    assert answered["predicted_label"].tolist() == ["long" if len(text) > 3 else "short" for text in texts]
    np.testing.assert_allclose(answered["score"], [len(text) / 10 for text in texts], rtol=1e-6)


def test_columns_may_be_series_and_no_rows_give_empty_columns(model):
    answered = batch.predictor(model, outputs=["halves"])({"text": pd.Series(["ab"], index=[7])})
    assert answered["halves"].tolist() == [[1.0, -2.0]]
    assert batch.predictor(model)({"text": []})["score"].shape == (0,)


def test_columns_of_no_rows_have_the_types_of_the_answers(model):
    answered = batch.predictor(model)({"text": []})
    assert (answered["predicted_label"].dtype, answered["score"].dtype) == (object, np.float32)


def test_a_column_with_the_name_of_an_answer_is_not_replaced(model):
    with pytest.raises(DataError, match="has a column 'predicted_label' already"):
        batch.predictor(model)({"text": ["a"], "predicted_label": ["mine"]})


def test_an_unknown_output_is_told_with_those_there_are(model):
    with pytest.raises(ConfigError, match="The model has no output 'nope'. It has .*score"):
        batch.predictor(model, outputs=["nope"])({"text": ["a"]})


def test_a_missing_text_is_answered_as_an_empty_one(model):
    for missing in (None, np.nan, pd.NA):
        assert batch.predictor(model)({"text": ["ab", missing, ""]})["score"].tolist() == pytest.approx(
            [0.2, 0, 0]
        )


def test_a_row_that_is_no_input_is_named(model):
    with pytest.raises(DataError, match=r"row 2 of 3 \(counted from 0\): .*a text is FAIL"):
        batch.predictor(model)({"text": ["a", "b", "FAIL"]})


def test_a_missing_model_is_told_before_any_batch(tmp_path):
    with pytest.raises(DataError, match="There is no model at"):
        batch.predictor(tmp_path / "none")


@pytest.mark.process
def test_its_pickle_is_small_and_answers_in_another_process_that_loads_once(model):
    made = pickle.dumps(batch.predictor(model))
    assert len(made) < 1000
    program = (
        "import pickle, sys\n"
        "from keras_selfattn.batch import model_graph, predictor\n"
        "loads = []\n"
        "real = model_graph.LoadedGraph.__init__\n"
        "model_graph.LoadedGraph.__init__ = lambda *given: (loads.append(1), real(*given))[1]\n"
        "made = sys.stdin.buffer.read()\n"
        "for text in ('abcd', 'ab'):\n"
        "    print(pickle.loads(made)({'text': [text]})['predicted_label'][0])\n"
        "print(len(loads))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=made, capture_output=True, check=True, timeout=120
    )
    assert done.stdout.split() == [b"long", b"short", b"1"]

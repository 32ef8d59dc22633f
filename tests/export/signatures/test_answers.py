"""Answers in the graph: spans of raw texts are those that the model finds, whatever the labels are."""

import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn.export.signatures import model_signatures
from keras_selfattn.export.signatures.answers import Labelling
from keras_selfattn.models.tokens.raw_texts import text_tokens
from keras_selfattn.models.tokens.text_spans import SpanMarks
from keras_selfattn.rows.text_tokens import token_places

TEXTS = ["Ada saw it. 猫 x", " ", "", "a", "\r\nb c 😀d"]


@pytest.mark.parametrize("labels", ["B-A I-A O", "B_A I_A E_A S_A O", "N V O", "N V"])
def test_labels_of_tokens_are_the_same_spans_in_the_graph_as_in_numpy(labels):
    labels, random = labels.split(), np.random.default_rng(0)
    marks, answers = SpanMarks(labels), Labelling(labels)

    @tf.function(
        autograph=False,
        input_signature=[*[tf.TensorSpec([None], tf.string)] * 2, tf.TensorSpec([None], tf.float32)],
    )
    def graph(texts, label, score):
        return answers.spans(label, score, text_tokens(texts))

    for count in (*range(6), *[5] * 30):
        texts = [TEXTS[place] for place in random.permutation(5)[:count]]
        places = list(map(token_places, texts))
        ends = np.cumsum([0, *map(len, places)])
        chosen, scores = random.integers(0, len(labels), ends[-1]), random.random(ends[-1], np.float32)
        names = tf.constant([labels[place] for place in chosen], tf.string)
        answer = {
            name: each.numpy() for name, each in graph(tf.constant(texts, tf.string), names, scores).items()
        }
        wanted = [
            marks.spans(text, each, chosen[start:end], scores[start:end])
            for text, each, start, end in zip(texts, places, ends[:-1], ends[1:], strict=True)
        ]
        most = max(map(len, wanted), default=0)
        assert answer["count"].tolist() == list(map(len, wanted))
        for name, padding in (("label", ""), ("start", 0), ("end", 0), ("score", 0.0)):
            expected = [
                [getattr(span, name) for span in row] + [padding] * (most - len(row)) for row in wanted
            ]
            found = answer[name].astype(str if name == "label" else None)
            assert (found.shape, found.tolist()) == ((count, most), expected)


@pytest.mark.parametrize(("padding", "groups"), [(2**14, 1), (0, 5)])
def test_labels_come_back_to_their_tokens_whatever_groups_their_rows_are_in(monkeypatch, padding, groups):
    monkeypatch.setattr(model_signatures, "_PADDING", padding)
    seen = []

    def answers(tokens):
        tf.py_function(lambda each: seen.append(tuple(each.shape)), [tokens], [])
        return {"label": tokens + "!", "score": tf.strings.to_number(tf.where(tokens == "", "0", tokens))}

    @tf.function(
        autograph=False, input_signature=[tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int64)]
    )
    def graph(values, splits):
        ragged = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
        return model_signatures.at_tokens(ragged, answers)

    random = np.random.default_rng(0)
    for lengths in ([], [0], [0, 0], [3], [40, 0, 100, 1, 3, 1, 41, 99]):
        seen.clear()
        values = random.integers(0, 1000, sum(lengths)).astype(str).tolist()
        label, score = graph(tf.constant(values, tf.string), np.cumsum([0, *lengths]))
        assert label.numpy().astype(str).tolist() == [each + "!" for each in values]
        assert score.numpy().tolist() == list(map(float, values))
    assert len(seen) == groups
    assert all(rows * length <= 2 * 285 + padding for rows, length in seen)

"""Writes a SavedModel of each task, front end and precision, with the requests and answers of its check.

`python tests/export/many.py FOLDER` makes FOLDER/<name>/1 and FOLDER/<name>.json, which `check.py` takes; so
another TensorFlow than the one that wrote them can be asked.
"""

import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
from film_model import make_model

from keras_selfattn import layers, models
from keras_selfattn.export import export_saved_model, saved_model, trial

sys.path.append(str(Path(__file__).parents[1]))
from pretrained_folders import (
    BERT,
    DEBERTA,
    ELECTRA,
    MODERNBERT,
    MPNET,
    write_byte_pairs,
    write_classifier,
    write_folder,
    write_unigram,
)


def series(units, activation=None, pooled=True, **encoder):
    values = keras.Input((None, 16), name="values")
    x = layers.Encoder(num_layers=1, num_heads=2, feed_forward_dim=128, seed=0, **encoder)(
        keras.layers.Masking()(values)
    )
    x = layers.AveragePooling()(x) if pooled else x
    return keras.Model(values, keras.layers.Dense(units, activation=activation)(x))


def vectorized():
    vectorize = keras.layers.TextVectorization(max_tokens=30)
    vectorize.adapt(["good film", "bad film", "a bore"])
    ids = keras.Input((None,), dtype="int64", name="ids")
    x = keras.layers.Embedding(30, 8, mask_zero=True)(ids)
    x = layers.SinusoidalPositionEncoding()(x)
    x = layers.AttentionPooling()(layers.AdditiveSelfAttention(2, seed=0)(x))
    return keras.Model(ids, keras.layers.Dense(2, activation="softmax")(x)), vectorize


def main(folder):
    def kept(draft, cases, tolerance):
        # The check itself is for the other TensorFlow.
        trial.write_cases(folder / f"{draft.parent.name}.json", cases, tolerance)
        return {"load_seconds": 0.0, "request_ms": 0.0}

    saved_model.try_saved_model = kept
    for precision in (None, "bfloat16", "float16-weights", "int8-weights"):
        export_saved_model(make_model(), folder / f"text-{precision}", precision=precision)
    labels = ["a", "b", "c"]
    windowed = series(3, "softmax", window=4, position=layers.RotaryPositions(), norm="rms", gated=True)
    export_saved_model(windowed, folder / "windowed", labels=labels)
    export_saved_model(series(3, "softmax"), folder / "int8", labels=labels, precision="int8-weights")
    export_saved_model(series(3, "softmax", pooled=False), folder / "labelling", labels=labels)
    export_saved_model(series(1), folder / "regression")
    with tempfile.TemporaryDirectory() as pretrained:
        encoder = models.TextEncoder(start=write_folder(Path(pretrained, "tiny")))
        mpnet = models.TextEncoder(start=write_folder(Path(pretrained, "mpnet"), MPNET))
        roberta = models.TextEncoder(start=write_byte_pairs(Path(pretrained, "roberta")))
        multilingual = models.TextEncoder(start=write_unigram(Path(pretrained, "xlm-roberta")))
        distances = models.TextEncoder(start=write_folder(Path(pretrained, "deberta"), DEBERTA))
        large = {**BERT, "vocab_size": 400, "hidden_size": 40, "intermediate_size": 64}
        narrowed = models.TextEncoder(start=write_folder(Path(pretrained, "large"), large))
        modernbert = write_folder(Path(pretrained, "modernbert"), MODERNBERT)
        near_and_far = models.TextEncoder(start=modernbert)
        imported = models.load(write_classifier(Path(pretrained, "electra"), ["-", "+", "?"], ELECTRA))
        tuned = {name: models.TextClassifier(start=Path(pretrained, name)) for name in ("tiny", "modernbert")}
        for model in tuned.values():
            model.adapt(["good film", "a film", "bad", "badly bad"] * 3, ["+", "+", "-", "-"] * 3)
        scores = models.TextRegressor({"width": 8, "num_heads": 2})
        scores.adapt(["good film", "a film", "bad", "badly bad"] * 3, [[5, 1], [4, 2], [2, 6], [1, 7]] * 3)
        labeller = models.TokenClassifier({"max_tokens": 9}, start=Path(pretrained, "tiny"))
        labeller.adapt([["a", "goods", "film"], ["badly", "."]] * 6, [["O", "B-X", "I-X"], ["O", "O"]] * 6)
        of_pairs = models.TextClassifier.from_folder(Path(pretrained, "electra"), text_pairs=True)
    words = models.TextClassifier(models.TextConfig(width=8, num_heads=2, ngram_buckets=64))
    words.adapt([("a good film", "it is good"), ("a good film", "it is bad")] * 4, ["+", "-"] * 4)
    export_saved_model(words, folder / "pairs")
    export_saved_model(of_pairs, folder / "imported-pairs")
    export_saved_model(scores, folder / "scores")
    export_saved_model(labeller, folder / "fine-tuned-tokens")
    export_saved_model(mpnet, folder / "encoder-mpnet")
    export_saved_model(imported, folder / "imported")
    export_saved_model(near_and_far, folder / "encoder-modernbert")
    export_saved_model(tuned["tiny"], folder / "fine-tuned")
    export_saved_model(tuned["modernbert"], folder / "fine-tuned-modernbert")
    export_saved_model(roberta, folder / "encoder-byte-pairs")
    export_saved_model(multilingual, folder / "encoder-unigram")
    export_saved_model(distances, folder / "encoder-distances")
    export_saved_model(narrowed, folder / "encoder-narrow-table", precision="int8-weights")
    for precision in (None, "bfloat16", "int8-weights"):
        export_saved_model(encoder, folder / f"encoder-{precision}", precision=precision)
    texts = ["a good film", "bad", "two films"] * 4, ["ein guter Film", "schlecht", "zwei Filme"] * 4
    for beams, tokens, precision in ((1, "characters", None), (4, "pieces", None), (2, "words", "bfloat16")):
        bounds = {"max_new_tokens": 9, "beams": beams, "tokens": tokens, "min_count": 1}
        written = models.SequenceToSequence({"width": 8, "num_layers": 1, "num_heads": 2, **bounds})
        written.adapt(*texts)
        export_saved_model(written, folder / f"to-text-{tokens}", precision=precision)
    sound = models.AudioClassifier(
        {"width": 8, "num_layers": 1, "num_heads": 2, "channels": 4, "kernels": 20}
    )
    sound.adapt([(np.sin(np.arange(800) / step), 8000) for step in range(1, 9)], ["a", "b"] * 4)
    export_saved_model(sound, folder / "sound")
    model, vectorize = vectorized()
    export_saved_model(model, folder / "vectorized", preprocess=vectorize, labels=["-", "+"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))

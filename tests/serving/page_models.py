"""Small models of every kind for the tests of the page: plain TensorFlow, with cards as exports have them.

A kind is an entry of `MODELS`. Its functions get TensorFlow, which is imported when models are saved.
"""

import base64
import io
import json
import math
import os
import shutil
import struct
import wave
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

HOSTILE = "<img src=x onerror=document.title='owned'>"
REVIEWS = ["pos", "neg", HOSTILE]
LANGUAGES = [f"language {number:03}" for number in range(149)] + ["לשון"]
TAGS = ["O", "NAME"]
PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFXAAAAF0lEQVR4"
    "nGOcxgsBTBn/IIDpH0kMqDYA8hc3ZWeQoRMAAAAASUVORK5CYII="
)


def texts(tf, labels, shift):
    names = tf.constant(labels)

    def serve(text):
        ids = tf.strings.to_hash_bucket_fast(text, len(labels))
        ids = tf.where(tf.strings.regex_full_match(text, "(?s).*good.*"), tf.cast(shift, tf.int64), ids)
        probabilities = tf.one_hot(ids, len(labels), 0.9, 0.1 / (len(labels) - 1))
        label = tf.gather(names, ids)
        return {"probabilities": probabilities, "label": label, "score": tf.reduce_max(probabilities, -1)}

    def explain(text):
        tokens = tf.strings.split(text).to_tensor("")
        length = tf.shape(tokens)[1]
        weights = tf.ones([tf.shape(text)[0], 2, 2, length, length]) / tf.cast(length, tf.float32)
        return {"tokens": tokens, "weights": weights}

    spec = [tf.TensorSpec([None], tf.string, name="text")]
    return {"serving_default": (serve, spec), "explain": (explain, spec)}


def pairs(tf):
    def alike(text, text_pair):
        same = tf.where(text == text_pair, 0.75, 0.25)
        label = tf.where(text == text_pair, "same", "other")
        return {"probabilities": tf.stack([1 - same, same], -1), "label": label, "score": same}

    def explain(text, text_pair):
        tokens = tf.strings.split(tf.strings.join([text, text_pair], " [SEP] ")).to_tensor("")
        length = tf.shape(tokens)[1]
        return {"tokens": tokens, "weights": tf.ones([tf.shape(text)[0], 1, 1, length, length]) / 5}

    spec = [tf.TensorSpec([None], tf.string, name=name) for name in ("text", "text_pair")]
    return {"serving_default": (alike, spec), "explain": (explain, spec)}


def scores(tf):
    """The length of a text, and its half."""

    def lengths(text):
        length = tf.cast(tf.strings.length(text), tf.float32)
        return {"predictions": tf.stack([length, length / 2], -1)}

    return {"serving_default": (lengths, [tf.TensorSpec([None], tf.string, name="text")])}


def tags(tf):
    def tagger(tokens):
        isname = tf.strings.regex_full_match(tokens, "[A-Z].*")
        score = tf.where(tokens == "", 0.0, 0.75)
        label = tf.where(tokens == "", "", tf.where(isname, "NAME", "O"))
        probabilities = tf.stack([tf.where(isname, 0.25, 0.75), tf.where(isname, 0.75, 0.25)], -1)
        return {"probabilities": probabilities, "label": label, "score": score}

    return {"serving_default": (tagger, [tf.TensorSpec([None, None], tf.string, name="tokens")])}


def names(tf):
    def spans(text):
        """Words in capitals; what stands behind the last span of a text means nothing."""
        codes = tf.strings.unicode_decode(text, "UTF-8").to_tensor()
        inside = (codes >= ord("A")) & (codes <= ord("Z"))
        beside = tf.pad(inside, [[0, 0], [1, 1]])
        places = tf.zeros_like(codes) + tf.range(tf.shape(codes)[1])
        start = tf.ragged.boolean_mask(places, inside & ~beside[:, :-2])
        end = tf.ragged.boolean_mask(places + 1, inside & ~beside[:, 2:])
        lengths = (end - start).to_tensor()
        label = tf.where(lengths > 2, "NAME", HOSTILE)
        found = {"start": start.to_tensor(7), "end": end.to_tensor(9), "label": label}
        return found | {
            "score": tf.fill(tf.shape(label), 0.75),
            "count": tf.cast(start.row_lengths(), tf.int32),
        }

    return {**tags(tf), "spans": (spans, [tf.TensorSpec([None], tf.string, name="text")])}


def traces(tf):
    def rises(values):
        gap = tf.reduce_max(tf.where(tf.math.is_nan(values), 0.0, values)[:, -1, :] - values[:, 0, :], -1)
        probabilities = tf.nn.softmax(tf.stack([gap, -gap], -1))
        label = tf.gather(tf.constant(["rises", "falls"]), tf.argmax(probabilities, -1))
        return {"probabilities": probabilities, "label": label, "score": tf.reduce_max(probabilities, -1)}

    return {"serving_default": (rises, [tf.TensorSpec([None, None, 1], tf.float32, name="values")])}


def pictures(tf):
    def brightness(encoded):
        def one(file):
            image = tf.io.decode_image(file, channels=1, expand_animations=False)
            return tf.reduce_mean(tf.cast(image, tf.float32)) / 255

        bright = tf.map_fn(one, encoded, fn_output_signature=tf.float32)
        probabilities = tf.stack([1 - bright, bright], -1)
        label = tf.gather(tf.constant(["dark", "bright"]), tf.argmax(probabilities, -1))
        return {"probabilities": probabilities, "label": label, "score": tf.reduce_max(probabilities, -1)}

    def explain(image):
        rows = tf.shape(image)[0]
        halves = tf.constant([[0.0, 0.0, 1.0, 0.5], [0.0, 0.5, 1.0, 1.0]])
        return {
            "weights": tf.ones([rows, 1, 1, 2, 2]) / 2,
            "patches": tf.tile(halves[tf.newaxis], [rows, 1, 1]),
        }

    files = [tf.TensorSpec([None], tf.string, name="encoded")]
    pixels = [tf.TensorSpec([None, None, None, 1], tf.float32, name="image")]
    by_pixels = (lambda image: {"mean": tf.reduce_mean(image, [1, 2, 3])}, pixels)
    return {"serving_default": by_pixels, "encoded": (brightness, files), "explain": (explain, pixels)}


def tone(hertz, seconds, rate=8000):
    """A WAV file of 16 bits in one channel."""
    values = [
        round(16_000 * math.sin(2 * math.pi * hertz * at / rate)) for at in range(round(seconds * rate))
    ]
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(rate)
        written.writeframes(struct.pack(f"<{len(values)}h", *values))
    return file.getvalue()


def sounds(tf):
    """Tells a low tone from a high one by how often it crosses zero."""

    def decoded(file):
        samples, rate = tf.audio.decode_wav(file, desired_channels=1)
        return samples[:, 0], tf.cast(rate, tf.float32)

    def pitch(audio):
        def one(file):
            samples, rate = decoded(file)
            upwards = tf.reduce_sum(tf.cast((samples[1:] > 0) & (samples[:-1] <= 0), tf.float32))
            return upwards * rate / tf.cast(tf.size(samples), tf.float32)

        high = tf.sigmoid((tf.map_fn(one, audio, fn_output_signature=tf.float32) - 500) / 100)
        probabilities = tf.stack([1 - high, high], -1)
        label = tf.gather(tf.constant(["low", "high"]), tf.argmax(probabilities, -1))
        return {"probabilities": probabilities, "label": label, "score": tf.reduce_max(probabilities, -1)}

    def explain(audio):
        """Positions of 0.25 s, and one of padding; those later in the first recording get more weight."""
        samples, rate = decoded(audio[0])
        count = tf.cast(tf.math.ceil(tf.cast(tf.size(samples), tf.float32) / rate * 4), tf.int32)
        weights = tf.cast(tf.range(1, count + 1), tf.float32)
        weights = tf.pad(weights / tf.reduce_sum(weights), [[0, 1]])
        starts = tf.cast(tf.range(count + 1), tf.float32) / 4
        rows = tf.shape(audio)[0]
        return {
            "weights": tf.tile(weights[None, None, None, None], [rows, 1, 2, count + 1, 1]),
            "seconds": tf.tile(tf.stack([starts, starts + 0.25], -1)[None], [rows, 1, 1]),
        }

    spec = [tf.TensorSpec([None], tf.string, name="audio")]
    return {"serving_default": (pitch, spec), "explain": (explain, spec)}


def backwards(tf):
    """Writes a text backwards, 8 characters at most, and tells of each from which one it was written."""

    def characters(text):
        return tf.strings.unicode_split(text, "UTF-8")

    def reversed_texts(text):
        written = tf.strings.reduce_join(characters(text)[:, ::-1][:, :8], 1)
        scores = tf.tile([[-0.25, -0.5, -1.5]], [tf.shape(text)[0], 1])
        return {
            "text": written,
            "score": scores[:, 0],
            "ended": characters(text).row_lengths() <= 8,
            "candidates": tf.stack([written, tf.strings.upper(written), written + HOSTILE], 1),
            "candidate_scores": scores,
        }

    def explain(text):
        found = characters(text)
        tokens, targets = found.to_tensor(""), found[:, ::-1][:, :8].to_tensor("")
        places = found.row_lengths()[:, None] - 1 - tf.range(tf.shape(targets)[1], dtype=tf.int64)
        alike = tf.one_hot(places, tf.shape(tokens)[1], 0.8, 0.05)
        weights = tf.tile(alike[:, None, None], [1, 2, 2, 1, 1])  # two layers of two heads
        return {"tokens": tokens, "target_tokens": targets, "weights": weights}

    spec = [tf.TensorSpec([None], tf.string, name="text")]
    return {"serving_default": (reversed_texts, spec), "explain": (explain, spec)}


def half(tf):
    return {"serving_default": (lambda x: {"y": 0.5 * x + 2}, [tf.TensorSpec([None], tf.float32, name="x")])}


@dataclass(frozen=True)
class Kind:
    """A model, and its card.

    Args:
        functions: from TensorFlow and the number of a version to functions and their inputs by signature.
        card: what its card says besides that of all; None for a model without a card.
        example: the request of the card's examples.
        versions: the numbers of its versions.
        policy: which of them are served, and by which labels; "" for the newest.
    """

    functions: Callable[[Any, int], dict[str, Any]]
    card: dict[str, Any] | None = None
    example: dict[str, Any] = field(default_factory=dict)
    versions: tuple[int, ...] = (1,)
    policy: str = ""


def card(task, labels):
    return {"task": task, "labels": labels}


MODELS = {
    "reviews": Kind(
        lambda tf, version: texts(tf, REVIEWS, version - 1),
        card("text-classification", REVIEWS),
        {"text": ["a good film"]},
        versions=(1, 2),
        policy="""
    model_version_policy { specific { versions: 1 versions: 2 } }
    version_labels { key: "stable" value: 1 } version_labels { key: "canary" value: 2 }
""",
    ),
    "languages": Kind(
        lambda tf, _: texts(tf, LANGUAGES, 5),
        card("text-classification", LANGUAGES),
        {"text": ["good day"]},
        versions=(7,),
    ),
    "tags": Kind(lambda tf, _: tags(tf), card("token-labelling", TAGS), {"tokens": [["Ada", "is"]]}),
    "names": Kind(lambda tf, _: names(tf), card("token-labelling", TAGS), {"text": ["ADA wrote to ROME."]}),
    "traces": Kind(
        lambda tf, _: traces(tf),
        card("series-classification", ["rises", "falls"]),
        {"values": [[[0.0], [0.5], ["nan"], [2.0]]]},
    ),
    "pictures": Kind(
        lambda tf, _: pictures(tf),
        card("image-classification", ["dark", "bright"]),
        {"encoded": [{"b64": PICTURE}]},
    ),
    "sounds": Kind(
        lambda tf, _: sounds(tf),
        card("sound-classification", ["low", "high"]),
        {"audio": [{"b64": base64.b64encode(tone(200, 0.6)).decode()}]},
    ),
    "pairs": Kind(
        lambda tf, _: pairs(tf),
        card("text-pair-classification", ["other", "same"]),
        {"text": ["is it?"], "text_pair": ["it is"]},
    ),
    "essays": Kind(
        lambda tf, _: scores(tf),
        {**card("text-regression", None), "scores": [HOSTILE, "half"]},
        {"text": ["a fine essay"]},
    ),
    "backwards": Kind(lambda tf, _: backwards(tf), card("text-to-text", None), {"text": ["abcdef"]}),
    "half": Kind(lambda tf, _: half(tf), versions=(3,)),
}
"""The models by name; "broken" is a copy of the last, without a graph."""


def save_all(folder):
    """Save the models, their cards and the list `models.conf`."""
    import tensorflow as tf

    folder = Path(folder).absolute()
    for name, kind in MODELS.items():
        for version in kind.versions:
            save(tf, folder / name / str(version), kind, name, version)
    broken = shutil.copytree(folder / "half" / "3", folder / "broken" / "1")
    (broken / "saved_model.pb").write_bytes(b"no model")
    policies = {name: kind.policy for name, kind in MODELS.items()} | {"broken": ""}
    listed = "".join(
        f'config {{ name: "{name}" base_path: "{folder / name}" model_platform: "tensorflow" {policy} }}\n'
        for name, policy in policies.items()
    )
    (folder / "models.conf").write_text(f"model_config_list {{\n{listed}}}\n", encoding="utf-8")


def save(tf, path, kind, name, version):
    """Save a version of a model, and its card if it has one."""
    module, functions = tf.Module(), kind.functions(tf, version)
    module.functions = {
        key: tf.function(each, input_signature=spec) for key, (each, spec) in functions.items()
    }
    tf.saved_model.save(module, str(path), signatures=module.functions)
    if kind.card is None:
        return
    inputs = next(iter(kind.example))
    described = {
        key: {"example": {"request": kind.example, "answer": {}, "made_up": name == "traces"}}
        for key, (_, spec) in functions.items()
        if spec[0].name == inputs
    }
    content = {
        "format": 1,
        **kind.card,
        "signatures": described,
        "metrics": {"accuracy": 0.91, "calibration_error": 0.023, "rows": 200, "split": "test"},
        "training": {"data": {"train": {"source": f"{name}.csv", "rows": 1000}}, "settings": {}},
        "created": "2026-01-02T03:04:05+00:00",
        "versions": {"keras-selfattn": "0.1.0"},
        "files": {"bytes": 4000 + version, "digest": "sha256:" + 64 * "0"},
    }
    place = path / "assets.extra"
    place.mkdir(exist_ok=True)
    (place / "model_card.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")

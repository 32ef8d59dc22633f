"""Small models of every kind for the tests of the page: plain TensorFlow, with cards as exports have them."""

import json
import os
import shutil
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

HOSTILE = "<img src=x onerror=document.title='owned'>"
REVIEWS = ["pos", "neg", HOSTILE]
LANGUAGES = [f"language {number:03}" for number in range(149)] + ["לשון"]
TAGS = ["O", "NAME"]
PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFXAAAAF0lEQVR4"
    "nGOcxgsBTBn/IIDpH0kMqDYA8hc3ZWeQoRMAAAAASUVORK5CYII="
)

CONFIG = """model_config_list {{
  config {{
    name: "reviews" base_path: "{folder}/reviews" model_platform: "tensorflow"
    model_version_policy {{ specific {{ versions: 1 versions: 2 }} }}
    version_labels {{ key: "stable" value: 1 }} version_labels {{ key: "canary" value: 2 }}
  }}
  config {{ name: "languages" base_path: "{folder}/languages" model_platform: "tensorflow" }}
  config {{ name: "tags" base_path: "{folder}/tags" model_platform: "tensorflow" }}
  config {{ name: "names" base_path: "{folder}/names" model_platform: "tensorflow" }}
  config {{ name: "traces" base_path: "{folder}/traces" model_platform: "tensorflow" }}
  config {{ name: "pictures" base_path: "{folder}/pictures" model_platform: "tensorflow" }}
  config {{ name: "pairs" base_path: "{folder}/pairs" model_platform: "tensorflow" }}
  config {{ name: "half" base_path: "{folder}/half" model_platform: "tensorflow" }}
  config {{ name: "broken" base_path: "{folder}/broken" model_platform: "tensorflow" }}
}}
"""


def save_all(folder):
    """Save the models, their cards and the list `models.conf`."""
    import tensorflow as tf

    def text_model(labels, shift):
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

    def pair_model():
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

    def tagger(tokens):
        isname = tf.strings.regex_full_match(tokens, "[A-Z].*")
        score = tf.where(tokens == "", 0.0, 0.75)
        label = tf.where(tokens == "", "", tf.where(isname, "NAME", "O"))
        probabilities = tf.stack([tf.where(isname, 0.25, 0.75), tf.where(isname, 0.75, 0.25)], -1)
        return {"probabilities": probabilities, "label": label, "score": score}

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

    def rises(values):
        gap = tf.reduce_max(tf.where(tf.math.is_nan(values), 0.0, values)[:, -1, :] - values[:, 0, :], -1)
        probabilities = tf.nn.softmax(tf.stack([gap, -gap], -1))
        names = tf.constant(["rises", "falls"])
        label = tf.gather(names, tf.argmax(probabilities, -1))
        return {"probabilities": probabilities, "label": label, "score": tf.reduce_max(probabilities, -1)}

    def brightness(encoded):
        def one(file):
            image = tf.io.decode_image(file, channels=1, expand_animations=False)
            return tf.reduce_mean(tf.cast(image, tf.float32)) / 255

        bright = tf.map_fn(one, encoded, fn_output_signature=tf.float32)
        probabilities = tf.stack([1 - bright, bright], -1)
        label = tf.gather(tf.constant(["dark", "bright"]), tf.argmax(probabilities, -1))
        return {"probabilities": probabilities, "label": label, "score": tf.reduce_max(probabilities, -1)}

    def explain_pixels(image):
        rows = tf.shape(image)[0]
        halves = tf.constant([[0.0, 0.0, 1.0, 0.5], [0.0, 0.5, 1.0, 1.0]])
        return {
            "weights": tf.ones([rows, 1, 1, 2, 2]) / 2,
            "patches": tf.tile(halves[tf.newaxis], [rows, 1, 1]),
        }

    strings, floats = tf.string, tf.float32
    examples = {"text": ["a good film"]}
    save = Saver(Path(folder), tf)
    save("reviews", 1, text_model(REVIEWS, 0), "text-classification", REVIEWS, examples)
    save("reviews", 2, text_model(REVIEWS, 1), "text-classification", REVIEWS, examples)
    pair = {"text": ["is it?"], "text_pair": ["it is"]}
    save("pairs", 1, pair_model(), "text-pair-classification", ["other", "same"], pair)
    save("languages", 7, text_model(LANGUAGES, 5), "text-classification", LANGUAGES, {"text": ["good day"]})
    tokens = [tf.TensorSpec([None, None], strings, name="tokens")]
    save(
        "tags", 1, {"serving_default": (tagger, tokens)}, "token-labelling", TAGS, {"tokens": [["Ada", "is"]]}
    )
    texts = [tf.TensorSpec([None], strings, name="text")]
    of_texts = {"serving_default": (tagger, tokens), "spans": (spans, texts)}
    save("names", 1, of_texts, "token-labelling", TAGS, {"text": ["ADA wrote to ROME."]})
    values = [tf.TensorSpec([None, None, 1], floats, name="values")]
    example = {"values": [[[0.0], [0.5], ["nan"], [2.0]]]}
    save(
        "traces",
        1,
        {"serving_default": (rises, values)},
        "series-classification",
        ["rises", "falls"],
        example,
    )
    files = [tf.TensorSpec([None], strings, name="encoded")]
    pixels = [tf.TensorSpec([None, None, None, 1], floats, name="image")]
    by_pixels = (lambda image: {"mean": tf.reduce_mean(image, [1, 2, 3])}, pixels)
    pictures = {
        "serving_default": by_pixels,
        "encoded": (brightness, files),
        "explain": (explain_pixels, pixels),
    }
    example = {"encoded": [{"b64": PICTURE}]}
    save("pictures", 1, pictures, "image-classification", ["dark", "bright"], example)
    half = (lambda x: {"y": 0.5 * x + 2}, [tf.TensorSpec([None], floats, name="x")])
    save("half", 3, {"serving_default": half}, None, None, None)
    broken = shutil.copytree(Path(folder) / "half" / "3", Path(folder) / "broken" / "1")
    (broken / "saved_model.pb").write_bytes(b"no model")
    (Path(folder) / "models.conf").write_text(CONFIG.format(folder=Path(folder).absolute()), encoding="utf-8")


class Saver:
    """Saves a version of a model: functions by signature, and a card unless the task is None."""

    def __init__(self, folder, tf):
        self.folder, self.tf = folder, tf

    def __call__(self, name, version, functions, task, labels, example):
        tf, module = self.tf, self.tf.Module()
        made = {key: tf.function(each, input_signature=spec) for key, (each, spec) in functions.items()}
        module.functions = made
        path = self.folder / name / str(version)
        tf.saved_model.save(module, str(path), signatures=made)
        if task is None:
            return
        inputs = next(iter(example))
        described = {
            key: {"example": {"request": example, "answer": {}, "made_up": name == "traces"}}
            for key, (_, spec) in functions.items()
            if spec[0].name == inputs
        }
        card = {
            "format": 1,
            "task": task,
            "labels": labels,
            "signatures": described,
            "metrics": {"accuracy": 0.91, "calibration_error": 0.023, "rows": 200, "split": "test"},
            "training": {"data": {"train": {"source": f"{name}.csv", "rows": 1000}}, "settings": {}},
            "created": "2026-01-02T03:04:05+00:00",
            "versions": {"keras-selfattn": "0.1.0"},
            "files": {"bytes": 4000 + version, "digest": "sha256:" + 64 * "0"},
        }
        place = path / "assets.extra"
        place.mkdir(exist_ok=True)
        (place / "model_card.json").write_text(json.dumps(card, ensure_ascii=False), encoding="utf-8")

"""Names in the SavedModel's signatures: exports write them, clients and the server ask for them.

A further output has its name here. No module of TensorFlow is imported, so that a client can read them.

Reference: tensorflow/cc/saved_model/signature_constants.h.
"""

DEFAULT_SIGNATURE = "serving_default"
"""The signature that a request means if it names none."""

TEXT = "text"
"""The input of a text, string `[batch]`."""
AUDIO = "audio"
"""The input of a recording, string `[batch]`: the content of a WAV file."""
TEXT_PAIR = "text_pair"
"""The input of the second text of each row, string `[batch]`, beside `text`."""

# The outputs of `serving_default`; `export/signatures/answers.py` computes them.
PROBABILITIES = "probabilities"
"""The probability of each class, of a row or of each of its positions."""
LABEL = "label"
"""The name of the most likely class, of a row or of each position."""
LABELS = "labels"
"""Of rows with several labels: the name of each class that the row has, "" for the others."""
SCORE = "score"
"""The probability of `label`."""
PREDICTIONS = "predictions"
"""The numbers of a row."""
EMBEDDING = "embedding"
"""The vector of a row."""

ENDED = "ended"
"""Of a text that the model writes: False where the bound of pieces cut it."""
CANDIDATES = "candidates"
"""The texts that the search found, best first, string `[batch, n]`."""
CANDIDATE_SCORES = "candidate_scores"
"""The score of each of `CANDIDATES`, float32 `[batch, n]`."""

GENERATE = "generate"
"""The signature of a model that writes texts that takes settings of its search, the next four, and `TEXT`."""
MAX_NEW_TOKENS = "max_new_tokens"
"""The most symbols of an answer, int32 `[batch]`; 0 is the export's own."""
BEAMS = "beams"
"""Candidates that the search follows, int32 `[batch]`; 0 is the export's own."""
LENGTH_PENALTY = "length_penalty"
"""By which power of its length a candidate's score is divided, float32 `[batch]`; -1 is the export's own."""
PREFIX = "prefix"
"""The beginning of an answer, string `[batch]`; "" is none."""

SPANS = "spans"
"""The signature of a labeller that takes raw texts, `TEXT`."""

NAMED_SCORES = "scores"
"""The signature of a model of several numbers that have names: tf.Examples to `CLASSES` and `SCORES`."""

# The outputs of `spans`, besides `LABEL` and `SCORE` of each span.
START = "start"
"""The first character (code point) of each span of a text."""
END = "end"
"""The character behind the last one of each span."""
COUNT = "count"
"""The number of spans of a text; what is behind them is padding."""

# The inputs and outputs of TensorFlow Serving's Classify and Regress calls.
EXAMPLES = "inputs"
CLASSES = "classes"
SCORES = "scores"
REGRESSED = "outputs"

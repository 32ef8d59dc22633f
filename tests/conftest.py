"""Settings every test shares."""

import os

# TensorFlow's own notes at import are no warnings of ours.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

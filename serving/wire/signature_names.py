"""The name of the signature that a request means if it names none: exports write it, clients ask for it.

Reference: tensorflow/cc/saved_model/signature_constants.h.
"""

DEFAULT_SIGNATURE = "serving_default"

"""Serve exported models over TensorFlow Serving's gRPC API, and query them.

`serving.server` needs TensorFlow; `serving.client` needs only grpcio, protobuf and NumPy.
"""

from keras_selfattn.extras import require

require("client", __name__, hint=" to ask, or 'keras-selfattn[serve]' to serve")

"""Serve exported models over TensorFlow Serving's gRPC API, and query them.

`serving.server` needs TensorFlow; `serving.client` needs only grpcio, protobuf and NumPy.
"""

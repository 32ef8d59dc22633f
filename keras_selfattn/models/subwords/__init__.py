"""Tokenizers of pretrained encoders, as stock TensorFlow operations."""

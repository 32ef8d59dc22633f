"""Weights to and from layers of Keras, KerasHub and PyTorch that compute the same."""

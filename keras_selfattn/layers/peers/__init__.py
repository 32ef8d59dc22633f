"""Weights to and from layers of Keras, KerasHub and PyTorch that compute the same."""

from keras_selfattn.layers.peers.exchange import from_peer, to_peer

__all__ = ["from_peer", "to_peer"]

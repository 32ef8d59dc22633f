"""Weights of layers: their settings, projections, low-rank updates, int8, dtypes, state in a config."""

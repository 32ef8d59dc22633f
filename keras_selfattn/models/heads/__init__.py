"""Heads of models: targets in any form, last layers, loss and metrics."""

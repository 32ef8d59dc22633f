"""Benchmarks of models that answer with sequences."""

"""Benchmarks beside peers, run by `python -m benchmarks`. The peers need the extra `bench`."""

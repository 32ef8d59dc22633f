"""Benchmarks beside peers: what `python -m benchmarks` runs. Needs the extra `bench` for the peers."""

"""Benchmarks beside peers: what `keras-selfattn bench` runs. Needs the extra `bench` for the peers."""

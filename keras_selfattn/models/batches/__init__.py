"""Rows in batches: of similar length, of a user's own source, with weights, in shares of processes."""

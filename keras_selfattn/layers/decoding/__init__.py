"""Attention to another sequence, and the decoder: its block, the stack, and the cache of its steps."""

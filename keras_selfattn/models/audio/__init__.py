"""The classifier of recordings of sound."""

"""Saved models: their files, and the record of the words and labels that weights belong to."""

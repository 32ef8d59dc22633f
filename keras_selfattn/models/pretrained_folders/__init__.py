"""Folders of pretrained models, of the Hugging Face kind: their settings, tokenizers and weights."""

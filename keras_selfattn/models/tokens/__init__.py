"""The model that labels each token of a row."""

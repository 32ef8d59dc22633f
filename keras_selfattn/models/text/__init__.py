"""Models of raw text: the classifier, and the masked language model that it can start from."""

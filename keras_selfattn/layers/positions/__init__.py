"""Position encodings, and biases of attention by position."""

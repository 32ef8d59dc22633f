"""The classifier of images as sequences of patches."""

"""Models that are TFLite files."""

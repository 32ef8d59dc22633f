"""The signatures of a SavedModel: from raw rows to named answers, in the graph."""

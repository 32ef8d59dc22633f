"""The ways to call a SavedModel: from raw rows to named answers, in the graph."""

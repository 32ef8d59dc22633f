"""Files to texts and labels, splits, batches, and the built-in first data set."""

"""Several processes that serve as one: `supervisor` starts them, `worker` runs in each, `peer` connects."""

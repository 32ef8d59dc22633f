"""Several processes that serve as one: `supervisor` starts them, `worker` is each, `peer` joins them."""

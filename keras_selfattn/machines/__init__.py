"""The machine that a command runs on, and others: cores, free ports, a cluster of Ray."""

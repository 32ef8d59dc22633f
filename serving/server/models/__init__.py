"""Models on disk and in memory: versions found, loaded, leased to requests, and unloaded."""

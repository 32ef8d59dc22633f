"""Batches of requests, and the threads they run in."""

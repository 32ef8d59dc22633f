"""Requests that are run together, and the threads they run in."""

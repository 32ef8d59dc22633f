"""Answers for many rows."""

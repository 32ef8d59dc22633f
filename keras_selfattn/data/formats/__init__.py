"""Formats of files with rows, and their cells: one module a format."""

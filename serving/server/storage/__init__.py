"""Versions on disk and in object stores: found, checked, and brought to this machine."""

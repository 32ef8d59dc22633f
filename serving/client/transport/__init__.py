"""Connections to servers, and the calls on them: deadlines, retries, several servers, TLS."""

"""`bench soak`: a server under load for minutes, with versions that come and go and killed workers."""

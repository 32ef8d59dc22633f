"""The server's calls, for every transport, and its gRPC services."""

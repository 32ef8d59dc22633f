"""The server's calls, whatever the transport, and the gRPC services that they are behind."""

"""Connections of clients: listeners, HTTP/1, HTTP/2, and the eviction of idle connections."""

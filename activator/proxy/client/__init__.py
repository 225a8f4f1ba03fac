"""Connections of clients: listeners, HTTP/1 and HTTP/2, and who makes room for others."""

"""Connections of clients: listeners, HTTP/1 and HTTP/2, and which idle one closes for others."""

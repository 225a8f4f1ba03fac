"""Connections to pods: opened, kept while idle, in HTTP/1 and HTTP/2."""

"""Connections to pods, in HTTP/1 and HTTP/2: opened for requests, and kept while idle."""

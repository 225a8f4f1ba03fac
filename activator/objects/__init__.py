"""Reads names, fields, addresses and this project's annotations of untrusted Kubernetes objects."""

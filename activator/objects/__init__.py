"""Kubernetes objects as untrusted values: reads names, fields and addresses out of them, and the
annotations of this project."""

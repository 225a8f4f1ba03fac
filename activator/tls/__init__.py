"""Provides TLS: certificates and trusted roots, which can change while connections are open.

``certificates`` makes contexts of PEM, ``internal_encryption`` is Knative's encryption between its
components, ``metrics_port`` has the certificate of the metrics port. ``negotiated`` reads the
result of a handshake.
"""

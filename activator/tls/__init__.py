"""Provides TLS: certificates and trusted roots, which can change while connections are open.

``certificates`` makes contexts of PEM, and reads the result of a handshake. ``internal_encryption``
is Knative's encryption between its components, and the unverified one to pods of plain Services.
``files`` has certificates of listeners that come from files.
"""

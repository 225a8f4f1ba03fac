"""TLS: what is presented, what is trusted, and how both are replaced while connections live.

``parameters`` has the names that settings use, ``certificates`` turns PEM into what a handshake
needs, ``internal`` is Knative's encryption between its parts.
"""

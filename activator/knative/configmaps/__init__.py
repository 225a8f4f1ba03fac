"""Reads Knative's ConfigMaps key by key, follows them, and applies their changes.

``following`` has the rule for wrong keys. ``process_log`` and ``observability`` read the keys of
one ConfigMap each. ``cluster`` reads two more, joins all, and knows which need a restart.
"""

"""Reads Knative's ConfigMaps key by key, follows them, and applies their changes.

``following`` has the rule for wrong keys. ``process_log`` and ``observability`` read the keys of one
ConfigMap each. ``cluster`` reads the other two, joins all, and knows which changes need a restart.
"""

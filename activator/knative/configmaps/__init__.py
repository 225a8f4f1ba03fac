"""Reads Knative's ConfigMaps key by key, follows them, and applies their changes.

``following`` has the rule for wrong keys. ``network``, ``process_log`` (with ``zap``) and
``observability`` read the keys of one ConfigMap each. ``cluster`` joins the three, and knows which
changes need a restart.
"""

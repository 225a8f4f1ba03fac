"""Knative's ConfigMaps: read key by key, followed, and joined with what follows from them.

``following`` is the one rule for all of them; ``network``, ``process_log`` (with ``zap``) and
``observability`` say what the keys of each mean; ``cluster`` joins the three, and knows what waits
for a restart.
"""

"""Learns which revisions and pods exist: from a cluster, or from a folder of manifests.

Both sources feed raw objects to the inventory, which alone knows what they mean and tells a sink
only what changed.
"""

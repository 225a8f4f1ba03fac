"""Finds out which revisions and pods exist, from a cluster or from a folder of manifests.

Both sources pass raw objects to the inventory, which passes only changes to its two sinks.
"""

"""Knative's words: names of objects and fields, and the keys of its ConfigMaps."""

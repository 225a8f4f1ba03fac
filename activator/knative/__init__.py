"""Knative's words: the names of its objects, and what its ConfigMaps mean."""

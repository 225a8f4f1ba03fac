"""Takeover: the slices by which activators become the endpoints of a Service."""

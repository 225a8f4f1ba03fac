"""Workloads of the Services: found, counted, and scaled by their ``scale`` subresource."""

"""Reads plain Kubernetes objects: annotated Services, their slices and their workloads.

Pure: objects go in, values or errors come out. Must not know where objects come from.
"""

"""Benchmarks: what the activator costs and how quickly it acts, compared with a yardstick.

``python -m benchmarks`` prints a table and writes JSON. docs/benchmarks.md describes how each row
is measured. The activator imports nothing from here.
"""

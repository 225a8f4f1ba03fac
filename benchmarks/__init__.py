"""What the activator costs and how quickly it acts, each figure beside a yardstick of the same run.

``python -m benchmarks`` prints a table and writes JSON; docs/benchmarks.md says how each row is
measured. Nothing here is imported by the product or its tests.
"""

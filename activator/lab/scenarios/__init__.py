"""The scenarios that were seen on real clusters, one a module; each has one `SCENARIO`.

A script may use nothing but its stage: what it does to pods, what it asks, and what must be so.
`activator.lab.catalogue` gathers them.
"""

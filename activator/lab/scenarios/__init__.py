"""Scenarios from real clusters, one per module; each module has one `SCENARIO`.

A script uses only its environment: it changes pods, sends requests and checks results.
`activator.lab.catalogue` lists all scenarios.
"""

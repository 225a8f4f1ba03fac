"""Scenarios from real clusters, by theme; each script stands before its `Scenario`.

A script uses only its environment: it changes pods, sends requests and checks results.
`activator.lab.catalogue` lists all scenarios.
"""

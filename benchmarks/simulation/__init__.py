"""A simulation of many activators and pods in virtual time: which rules keep requests from waiting.

``python -m benchmarks.simulation`` runs the scenarios, and writes results, plots and tables. The
throttler, the scaler's rules and the load reports are the product's own modules. So each decision
is the product's. Everything else is a model: clients, networks, queue-proxies, and two other rules.
"""

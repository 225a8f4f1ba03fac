"""Sends sub-requests to authorization servers, and remembers their decisions.

``proxy.exchange.authorizing`` decides which requests need a decision. A sub-request is no traffic
of a pod, so httpx sends it. Knative has no counterpart.
"""

"""Sends sub-requests to authorization servers, and remembers their decisions.

``proxy.exchange.permission`` decides which requests need a decision. Knative has no counterpart.
"""

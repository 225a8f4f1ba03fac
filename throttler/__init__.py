"""Decides which pod gets each request, which requests are queued, and when they expire.

Synchronous and pure: it reads no clock, opens no socket, draws no random numbers and writes no log.
It imports only the standard library. The caller passes the time and random numbers as arguments,
and executes the returned Changes.
"""

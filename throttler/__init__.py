"""What decides: which request goes to which pod, who waits, and when waiting ends.

Synchronous and pure: no clock, no socket, no random number, no log line; the standard library
only. Time and chance come in as arguments, effects go out as Changes.
"""

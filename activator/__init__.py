"""What acts: sockets, clock, cluster and HTTP around the decisions of ``throttler``."""

__version__ = "0.2.0"

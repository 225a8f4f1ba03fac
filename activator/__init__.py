"""What acts: sockets, clock, cluster and HTTP around the decisions of ``throttler``."""

__version__ = "0.1.0"

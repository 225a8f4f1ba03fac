"""Decodes the frames of the activator, for peers that tests play."""

from __future__ import annotations

from activator.autoscaler.concurrency import Stat
from activator.autoscaler.wire import decoding


def decode(frame: bytes) -> tuple[list[Stat], frozenset[str]]:
    """Return the stats of a frame, and the names of the pods that reported them.

    Raises:
        ValueError: ``frame`` is no such protobuf message.
    """
    stats: list[Stat] = []
    pods: set[str] = set()
    for some, pod_names in decoding(frame):
        stats += some
        pods |= pod_names
    return stats, frozenset(pods)

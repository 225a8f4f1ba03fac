"""Writes times of day as Kubernetes' MicroTime, for Leases and Events."""

from __future__ import annotations

from datetime import UTC, datetime


def micro_time(clock: datetime) -> str:
    """Return a time as MicroTime: RFC 3339 with exactly six decimals, which Lease requires."""
    return clock.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

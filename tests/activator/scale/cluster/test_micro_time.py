"""Times of Leases and Events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from activator.scale.cluster.micro_time import micro_time

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_times_have_six_decimals_in_any_zone() -> None:
    assert micro_time(NOON.astimezone(timezone(timedelta(hours=2)))) == (
        "2026-01-01T12:00:00.000000Z"
    )

"""Converts what the clients of waiting requests get to the JSON values of the admin API. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from activator.admin.views.while_waiting import ProfileView, WhileWaitingView
from activator.records.entries import Entry
from throttler.request_policies import WaitMode
from throttler.revision import RevisionThrottler


def while_waiting_view(
    throttler: RevisionThrottler, entry: Entry | None, now: float
) -> WhileWaitingView | None:
    """Return what waiting clients of a revision get; None if they all get nothing.

    Arguments:
        throttler: of the revision.
        entry: its records; None before its first request.
        now: seconds.
    """
    requests = throttler.revision.policies.requests
    if requests is None or requests.waiting is None:
        return None
    waiting = requests.waiting
    counts: Mapping[str, int] = {} if entry is None else entry.counters.waiting
    page, heartbeat, refuse = (
        counts.get(mode.value, 0) for mode in (WaitMode.PAGE, WaitMode.HEARTBEAT, WaitMode.REFUSE)
    )
    held = throttler.breaker.waiting - page - heartbeat - refuse
    return {
        "modes": [mode.value for mode in waiting.modes],
        "pageAfterSeconds": waiting.page_after,
        "pageTemplate": waiting.page_template or None,
        "heartbeatSeconds": waiting.heartbeat_every,
        "earlyHeads": 0 if entry is None else entry.counters.early_heads,
        "queuedByMode": {
            "hold": max(held, 0),
            "page": page,
            "heartbeat": heartbeat,
            "refuse": refuse,
        },
        "leaseSeconds": 0.0 if entry is None else round(entry.lease.seconds_left(now), 1),
    }


def profile_view(throttler: RevisionThrottler) -> ProfileView:
    """Return the kind of application of a revision, and the limit of waits for its pods.

    Arguments:
        throttler: of the revision.
    """
    requests = throttler.revision.policies.requests
    if requests is None:
        return {"profile": None, "waitSeconds": None}
    profile = None if requests.profile is None else requests.profile.value
    return {"profile": profile, "waitSeconds": requests.wait_seconds or None}

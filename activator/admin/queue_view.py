"""Converts the order of a revision's queue to the JSON values of the admin API. Pure.

Names of flows come from clients and may be secret, so people see them only if an annotation allows
it. Otherwise they see hashes, which are the same in all activators and differ between revisions.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from activator.admin.views.queue_order import ClassesView, FlowView, QueueOrderView
from throttler.model import QueueOrder
from throttler.request_policies import HIGH, LOW, NAMES, NORMAL
from throttler.revision import RevisionThrottler

#: So many flows are shown: the ones with the most queued requests.
MOST_FLOWS: Final = 5
_HASH_BYTES: Final = 6
#: Characters of the longest name of a flow that is shown.
_LONGEST_NAME: Final = 64


def queue_order_view(throttler: RevisionThrottler) -> QueueOrderView | None:
    """Return the order of a revision's queue; None for the order of arrival."""
    order, queued = throttler.breaker.order, throttler.breaker.counts
    if order is None:
        return None
    classes: ClassesView | None = None
    if order.has_classes:
        counts = queued.by_priority
        classes = {"high": counts[HIGH], "normal": counts[NORMAL], "low": counts[LOW]}
    largest: list[FlowView] = []
    if order.fair_by is not None:
        salt = throttler.revision.uid.encode()[:64]
        largest = [
            {"flow": flow_name(name, order, salt), "queued": count}
            for name, count in queued.largest(MOST_FLOWS).items()
        ]
    return {
        "priority": NAMES[order.priority] if order.has_classes else None,
        "trustsHeader": order.trusts_header,
        "queuedByClass": classes,
        "fairBy": None if order.fair_by is None else str(order.fair_by),
        "flows": len(queued.flows) if order.fair_by is not None else 0,
        "largestFlows": largest,
    }


def flow_name(name: bytes, order: QueueOrder, salt: bytes) -> str:
    """Return the name of a flow for people: as it is, or its hash.

    A long name is a digest here, which cannot be printed: see ``request_key.bounded``.

    Arguments:
        name: as the client sent it; empty for requests that name no flow.
        order: whether names are shown.
        salt: makes the hashes of two revisions differ; at most 64 bytes.
    """
    if not name:
        return "(none)"
    text = name.decode("utf-8", "replace")
    if order.shows_names and text.isprintable():
        return text[:_LONGEST_NAME]
    return blake2b(name, digest_size=_HASH_BYTES, key=salt).hexdigest()

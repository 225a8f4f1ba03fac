"""Objects that cannot be used: the record of them, and their log line.

Must not know why an object is refused; the parsers give the reason.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from activator.objects.fields import ObjectKey

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rejection:
    """An object that could not be used, and why.

    Attributes:
        kept: whether an earlier state of the object stays in force.
    """

    kind: str
    namespace: str
    name: str
    reason: str
    kept: bool


def log_rejection(rejection: Rejection) -> None:
    """Log a rejection, with its parts as fields."""
    logger.warning(
        "object ignored%s: %s",
        ", its last good state stays in force" if rejection.kept else "",
        rejection.reason,
        extra={
            "object_kind": rejection.kind,
            "object_namespace": rejection.namespace,
            "object_name": rejection.name,
            "reason": rejection.reason,
        },
    )


@dataclass(slots=True)
class Stats:
    """Counts of the inventory, for metrics and the admin pages.

    Attributes:
        rejections: how often an object was rejected since the start.
        rejected: the objects that are rejected at present, each with its reason.
        outdated: events that were ignored because something newer was known.
        ignored: objects of kinds that are not understood, since the start.
    """

    rejections: int = 0
    rejected: dict[ObjectKey, str] = field(default_factory=dict)
    last_rejection: str = ""
    outdated: int = 0
    ignored: int = 0

"""Records and logs unusable objects.

Must not know the reasons; the parsers give them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from enum import StrEnum

from activator.objects.fields import ObjectKey

logger = logging.getLogger(__name__)


class Effect(StrEnum):
    """What is in force of an invalid object; the value is a clause for people."""

    KEPT = "its last good state stays in force"
    DEFAULTS = "it has no last good state, so each wrong annotation has a safe default"
    UNUSED = "it is not in use"


@dataclass(frozen=True, slots=True)
class Rejection:
    """An invalid object, and the reason; ``effect``: its state in force."""

    kind: str
    namespace: str
    name: str
    reason: str
    effect: Effect


def log_rejection(rejection: Rejection) -> None:
    """Log a rejection, with its parts as fields."""
    logger.warning(
        "invalid object: %s; %s",
        rejection.reason,
        rejection.effect,
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
        rejections: number of rejected objects since the start.
        rejected: the present invalid objects, each with the reason.
        last_rejection: the last reason.
        outdated: number of ignored events of an older version than the version in force.
        ignored: number of objects of unknown kinds since the start.
    """

    rejections: int = 0
    rejected: dict[ObjectKey, str] = field(default_factory=dict)
    last_rejection: str = ""
    outdated: int = 0
    ignored: int = 0

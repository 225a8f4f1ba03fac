"""Reports invalid objects, for the activator and the scaler."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum

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

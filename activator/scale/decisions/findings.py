"""Defines the reasons of findings, which a user reads in Events, the API and ``explain``."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from activator.plain.service import Refusal


class Reason(Enum):
    """Why something is not as a Service asks for it; the value is the word that people read."""

    # The routes takeover and front.
    PORTS_EXHAUSTED = "ports-exhausted"
    PORT_CONFLICT = "port-conflict"
    SLICE_FORBIDDEN = "slice-forbidden"
    SLICE_REFUSED = "slice-refused"
    SLICE_NAME_TAKEN = "slice-name-taken"
    SLICE_CONTESTED = "slice-contested"
    NO_ACTIVATORS = "no-activators"
    NODE_WITHOUT_ACTIVATOR = "node-without-activator"
    FRONT_HAS_SELECTOR = "front-has-selector"
    STALE_SLICES = "stale-slices"
    # The Service itself.
    TAKEOVER_CANNOT_LIMIT = Refusal.TAKEOVER_CANNOT_LIMIT.value
    WRONG_PODS_SERVICE = Refusal.WRONG_PODS_SERVICE.value
    SERVICE_REFUSED = "service-refused"
    SERVICE_WARNING = "service-warning"
    # Other components that write replicas.
    TWO_OWNERS = "two-owners"
    OWNER_UNREADABLE = "owner-unreadable"
    HPA_CANNOT_WAKE = "hpa-cannot-wake"
    HPA_MISSING = "hpa-missing"
    SCALED_OBJECT_MISSING = "scaled-object-missing"
    SCALED_OBJECT_PAUSED = "scaled-object-paused"
    SCALE_IN_PAUSED = "scale-in-paused"
    KEDA_TRIGGER_MISSING = "keda-trigger-missing"
    LOAD_UNSEEN = "load-unseen"
    REPLICAS_RESET = "replicas-reset"


class Finding(NamedTuple):
    """One thing that a user must know about a Service.

    Attributes:
        note: for people: the fact first, then the remedy.
    """

    reason: Reason
    note: str

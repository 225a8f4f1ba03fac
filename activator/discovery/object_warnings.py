"""Records and logs unusable objects, and the parts of valid objects that have no effect."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from activator.discovery.dialect import Dialect, Scope
from activator.discovery.endpoints import PrivateEndpoints, PublicEndpoints
from activator.knative.revisions import READINESS_POLICY_ANNOTATION
from activator.knative.words import REVISION_UID_LABEL, SERVICE_TYPE_LABEL
from activator.objects import policies
from activator.objects.fields import Field, ManifestError, ObjectKey, root, show
from activator.plain.slices import SERVICE_LABEL
from activator.records.source_status import ObjectWarning
from throttler.model import AppProtocol, Revision, RevisionKind

logger = logging.getLogger(__name__)


# Records and logs unusable objects.
#
# Must not know the reasons; the parsers give them.


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


# Finds the parts of valid objects that have no effect, and keeps one warning for each object.
#
# A misspelt annotation, a missing label and a port of another name are no errors for Kubernetes.
# So only the activator can report them. The module must not know where objects come from. Knative
# has no counterpart: it ignores such objects without a trace.

#: All annotations of the activator's own.
ANNOTATIONS: Final = (*policies.ANNOTATIONS, READINESS_POLICY_ANNOTATION)

_PORT_NAMES: Final = tuple(protocol.port_name for protocol in AppProtocol)

#: Maximum of port names in a text.
_SHOWN: Final = 3


def of_revision(obj: object, parsed: Revision | None, scope: Scope) -> str:
    """Return the annotations of a Revision object without effect; empty if each has one.

    Arguments:
        obj: the object as decoded from JSON or YAML, which a parser has accepted.
        parsed: its value.
        scope: which objects count.
    """
    found = policies.without_readers(root(obj, "Revision")["metadata"]["annotations"], ANNOTATIONS)
    if parsed is not None:
        limit = parsed.container_concurrency
        found.append(policies.without_effect(parsed.policies, limit, "containerConcurrency"))
    return "; ".join(filter(None, found))


def of_endpoints(
    obj: object, parsed: PrivateEndpoints | PublicEndpoints | None, scope: Scope
) -> str:
    """Return why an Endpoints object lists no pods for the activator; empty if it may.

    Arguments:
        obj, parsed, scope: as for ``of_revision``.
    """
    if parsed is None:
        return _unlabelled(root(obj, "Endpoints")["metadata"]["labels"])
    if isinstance(parsed, PublicEndpoints) or not parsed.empty:
        return ""
    subsets = [
        subset
        for subset in root(obj, "Endpoints")["subsets"].items()
        if subset["addresses"].value or subset["notReadyAddresses"].value
    ]
    return _misnamed([subset["ports"] for subset in subsets])


def of_slice(obj: object, parsed: PrivateEndpoints | PublicEndpoints | None, scope: Scope) -> str:
    """Return why an EndpointSlice lists no pods for the activator; empty if it may.

    Arguments:
        obj, parsed, scope: as for ``of_revision``.
    """
    slice_ = root(obj, "EndpointSlice")
    if parsed is None:
        labels = slice_["metadata"]["labels"]
        return "" if scope.services and _is_plain(labels) else _unlabelled(labels)
    if isinstance(parsed, PublicEndpoints) or not parsed.empty:
        return ""
    return _misnamed([slice_["ports"]] if slice_["endpoints"].sequence() else [])


def _is_plain(labels: Field) -> bool:
    """Return whether a slice belongs to a Service that Knative did not make."""
    return bool(labels.at(SERVICE_LABEL).value) and labels.at(SERVICE_TYPE_LABEL).value is None


def _unlabelled(labels: Field) -> str:
    service_type = labels.at(SERVICE_TYPE_LABEL).value
    if service_type is None:
        return f"ignored, since it has no label {SERVICE_TYPE_LABEL}: Private"
    if service_type == "Private":
        return f"ignored, since it has no label {REVISION_UID_LABEL}"
    label = f"its label {SERVICE_TYPE_LABEL} is {show(service_type)}"
    return f"ignored, since {label}, not 'Private' or 'Public'"


def _misnamed(ports: list[Field]) -> str:
    """Return the names of ports if none is a name that the activator needs."""
    names = [show(port["name"].value) for each in ports for port in each.items()]
    if not ports or any(show(name) in names for name in _PORT_NAMES):
        return ""
    found = ", ".join(dict.fromkeys(names[:_SHOWN])) or "none"
    return f"its addresses are ignored, since no port is named http or http2 (found: {found})"


def revision_of(key: ObjectKey, obj: object, dialect: Dialect) -> str:
    """Return the name of the revision that an object belongs to; empty if no label names it."""
    if key.kind == dialect.main:
        return key.name
    try:
        name = root(obj, key.kind)["metadata"]["labels"].at(dialect.label).value
    except ManifestError:  # the object is broken, too
        return ""
    return name if isinstance(name, str) else ""


class ObjectWarnings:
    """The current warnings, one for each object.

    Arguments:
        revision_kind: the kind of the revisions that the objects belong to.
        limit: maximum of warnings; the log reports once that there are more.
    """

    def __init__(self, revision_kind: RevisionKind | None, limit: int = 100) -> None:
        self._revision_kind = revision_kind
        self._limit = limit
        self._is_full = False
        self._by_object: dict[ObjectKey, ObjectWarning] = {}

    def __iter__(self) -> Iterator[ObjectWarning]:
        return iter(self._by_object.values())

    def put(self, key: ObjectKey, revision: str, text: str) -> None:
        """Replace the warning of an object, and log a new text.

        Arguments:
            revision: as from ``revision_of``.
            text: empty if the object has no warning, or none any more.
        """
        warning = ObjectWarning(*key, revision, text, "", self._revision_kind)
        if not text:
            self.remove(key)
        elif self._by_object.get(key) != warning:
            if key not in self._by_object and len(self._by_object) >= self._limit:
                self._log_full()
                return
            self._by_object[key] = warning
            logger.warning("%s: %s", key, text, extra={"object_kind": key.kind})

    def remove(self, key: ObjectKey) -> None:
        """Remove the warning of an object, if it has one."""
        if self._by_object.pop(key, None) is not None:
            self._is_full = False

    def _log_full(self) -> None:
        if not self._is_full:
            self._is_full = True
            logger.warning("more than %d objects have warnings: no more are logged", self._limit)

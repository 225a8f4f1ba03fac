"""The kinds of Knative's dialect: Revisions, and the objects that list their pods.

A further kind needs a further row of ``kinds``. Must not know where objects come from, nor which
are in force. A misspelt annotation, a missing label and a port of another name are no errors for
Kubernetes. So only the activator can report them; Knative ignores such objects without a trace.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar, Final, Generic, TypeVar

from activator.discovery import endpoints
from activator.discovery.dialect import Dialect, ObjectKind, Scope, drain
from activator.discovery.endpoints import (
    Part,
    PrivateEndpoints,
    PublicEndpoints,
    choose,
    join_addresses,
    join_endpoints,
    originals,
)
from activator.discovery.source import Sink
from activator.knative import revisions
from activator.knative.revisions import READINESS_POLICY_ANNOTATION
from activator.knative.system_objects import SystemObjects
from activator.knative.words import (
    REVISION_LABEL,
    REVISION_UID_LABEL,
    SERVICE_TYPE_LABEL,
    SERVING_GROUP,
    names_private_service,
    private_service,
)
from activator.objects import policies
from activator.objects.fields import Field, ObjectKey, root, show
from activator.plain.slices import SERVICE_LABEL
from throttler.model import (
    HTTP_PROTOCOLS,
    AppProtocol,
    ListedEndpoints,
    Revision,
    RevisionID,
    RevisionKind,
)

logger = logging.getLogger(__name__)

_Addresses = Mapping[AppProtocol, str]
_Listed = PrivateEndpoints | PublicEndpoints

_Sum = TypeVar("_Sum")


class _ByRevision(Generic[Part, _Sum]):
    """Parts of one sort, by revision.

    Arguments:
        join: returns the sum of all parts of a revision, which may be none.
        publish: takes a sum that has changed.
    """

    def __init__(
        self,
        join: Callable[[RevisionID, Mapping[ObjectKey, Part]], _Sum],
        publish: Callable[[RevisionID, _Sum], None],
    ) -> None:
        self._join: Callable[[RevisionID, Mapping[ObjectKey, Part]], _Sum] = join
        self._publish: Callable[[RevisionID, _Sum], None] = publish
        self._parts: dict[RevisionID, dict[ObjectKey, Part]] = {}
        self._published: dict[RevisionID, _Sum] = {}
        self._changed: dict[RevisionID, None] = {}

    def put(self, key: ObjectKey, part: Part) -> None:
        self._parts.setdefault(part.revision_id, {})[key] = part
        self._changed[part.revision_id] = None

    def remove(self, key: ObjectKey, part: Part) -> None:
        parts = self._parts.get(part.revision_id, {})
        parts.pop(key, None)
        if not parts:
            self._parts.pop(part.revision_id, None)
        self._changed[part.revision_id] = None

    def publishing(self) -> Iterator[None]:
        return drain(self._changed, self._sum_up)

    def _sum_up(self, revision_id: RevisionID) -> None:
        parts = self._parts.get(revision_id, {})
        whole = self._join(revision_id, parts)
        if self._published.get(revision_id) != whole:
            self._publish(revision_id, whole)
            self._published[revision_id] = whole
        if not parts:
            self._published.pop(revision_id, None)


def _service_of(revision_id: RevisionID) -> ObjectKey:
    return ObjectKey("Service", revision_id.namespace, private_service(revision_id.name))


#: All annotations of the activator's own.
ANNOTATIONS: Final = (*policies.ANNOTATIONS, READINESS_POLICY_ANNOTATION)

_PORT_NAMES: Final = tuple(protocol.port_name for protocol in HTTP_PROTOCOLS)

#: Maximum of port names in a text.
_SHOWN: Final = 3


def warn_of_revision(obj: object, parsed: Revision | None, scope: Scope) -> str:
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


def warn_of_endpoints(
    obj: object, parsed: PrivateEndpoints | PublicEndpoints | None, scope: Scope
) -> str:
    """Return why an Endpoints object lists no pods for the activator; empty if it may.

    Arguments:
        obj, parsed, scope: as for ``warn_of_revision``.
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


def warn_of_slice(
    obj: object, parsed: PrivateEndpoints | PublicEndpoints | None, scope: Scope
) -> str:
    """Return why an EndpointSlice lists no pods for the activator; empty if it may.

    Arguments:
        obj, parsed, scope: as for ``warn_of_revision``.
    """
    slice_ = root(obj, "EndpointSlice")
    if parsed is None:
        labels = slice_["metadata"]["labels"]
        has_type = labels.at(SERVICE_TYPE_LABEL).value is not None
        # It belongs to a Service that Knative did not make.
        is_plain = bool(labels.at(SERVICE_LABEL).value) and not has_type
        return "" if scope.services and is_plain else _unlabelled(labels)
    if isinstance(parsed, PublicEndpoints) or not parsed.empty:
        return ""
    return _misnamed([slice_["ports"]] if slice_["endpoints"].sequence() else [])


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


class KnativeDialect(Dialect):
    """The sums of Knative's objects: the pods, the activators and the Service of each revision.

    Arguments:
        sink: takes revisions and their pods.
        scope: whether Endpoints or slices count, and which addresses where slices list both.
    """

    name = "knative"
    main: ClassVar[tuple[str, ...]] = ("Revision",)
    revision_kind: ClassVar[RevisionKind | None] = RevisionKind.REVISION
    label = REVISION_LABEL

    def __init__(self, sink: Sink, system: SystemObjects, scope: Scope) -> None:
        super().__init__(sink, system, scope)
        # Revisions with truncated Endpoints, and whether their slices are read instead.
        self._truncated: dict[RevisionID, bool] = {}
        self._private = _ByRevision(self._join_private, lambda *each: sink.set_endpoints(*each))
        self._public = _ByRevision(self._join_public, lambda *each: sink.set_activators(*each))
        # Private Services. Only its name shows the revision of a Service.
        self._revisions: dict[ObjectKey, RevisionID] = {}
        self._addresses: dict[ObjectKey, _Addresses] = {}
        self._published: dict[RevisionID, _Addresses] = {}
        self._changed: dict[RevisionID, None] = {}

    def publishing(self) -> Iterator[None]:
        services = drain(self._changed, self._publish_service)
        return chain(self._private.publishing(), self._public.publishing(), services)

    # -- revisions ----------------------------------------------------------------------------

    def put_revision(self, key: ObjectKey, old: Revision | None, new: Revision | None) -> None:
        """Pass on a revision; None if there is none."""
        if new is not None:
            self._sink.set_revision(new)
            self._revisions[_service_of(new.id)] = new.id
            self._changed[new.id] = None
        elif old is not None:
            self._revisions.pop(_service_of(old.id), None)
            self._changed[old.id] = None
            self._sink.delete_revision(old.id)

    # -- private Services ---------------------------------------------------------------------

    def put_service(self, key: ObjectKey, old: _Addresses | None, new: _Addresses | None) -> None:
        """Replace the addresses of a Service; None if it is deleted or cannot be used."""
        if new:
            self._addresses[key] = new
        else:
            self._addresses.pop(key, None)
        if (revision_id := self._revisions.get(key)) is not None:
            self._changed[revision_id] = None

    def _publish_service(self, revision_id: RevisionID) -> None:
        key = _service_of(revision_id)
        addresses = self._addresses.get(key, {}) if key in self._revisions else {}
        if self._published.get(revision_id, {}) != addresses:
            self._sink.set_service(revision_id, addresses)
            self._published[revision_id] = addresses
        if not addresses:
            self._published.pop(revision_id, None)

    # -- Endpoints and EndpointSlices ---------------------------------------------------------

    def put_endpoints(self, key: ObjectKey, old: _Listed | None, new: _Listed | None) -> None:
        """Replace what an object lists; None lists nothing."""
        if isinstance(old, PrivateEndpoints):
            self._private.remove(key, old)
        elif old is not None:
            self._public.remove(key, old)
        if isinstance(new, PrivateEndpoints):
            self._private.put(key, new)
        elif new is not None:
            self._public.put(key, new)

    def _join_private(
        self, revision_id: RevisionID, parts: Mapping[ObjectKey, PrivateEndpoints]
    ) -> Mapping[AppProtocol, ListedEndpoints]:
        chosen = self._chosen(parts)
        self._log_truncation(revision_id, parts, chosen)
        joined = join_endpoints(part.endpoints for part in chosen)
        # Endpoints have no zones, but slices beside them do.
        every = [one.zones for part in parts.values() for one in part.endpoints.values()]
        zones = {address: zone for each in every for address, zone in each.items()}
        return {key: replace(one, zones=zones) for key, one in joined.items()}

    def _join_public(
        self, _revision_id: RevisionID, parts: Mapping[ObjectKey, PublicEndpoints]
    ) -> Mapping[AppProtocol, frozenset[str]]:
        chosen = self._chosen(originals(parts, self._scope.endpoints))
        return join_addresses(part.addresses for part in chosen)

    def _chosen(self, parts: Mapping[ObjectKey, Part]) -> Sequence[Part]:
        endpoints = [part for key, part in parts.items() if key.kind == "Endpoints"]
        slices = [part for key, part in parts.items() if key.kind == "EndpointSlice"]
        return choose(endpoints, slices, self._scope.endpoints, self._scope.family)

    def _log_truncation(
        self,
        revision_id: RevisionID,
        parts: Mapping[ObjectKey, PrivateEndpoints],
        chosen: Sequence[PrivateEndpoints],
    ) -> None:
        """Log once that pods are missing, and once that all are listed again."""
        if not any(part.truncated for part in parts.values()):
            self._truncated.pop(revision_id, None)
            return
        complete = not any(part.truncated for part in chosen)
        if self._truncated.get(revision_id) is complete:
            return
        self._truncated[revision_id] = complete
        if complete:
            logger.info(
                "revision %s: Endpoints are truncated at 1000 pods, EndpointSlices are read "
                "instead",
                revision_id,
            )
        else:
            logger.warning(
                "revision %s: Endpoints are truncated at 1000 pods, and there are no "
                "EndpointSlices: this activator sends no traffic to the other pods",
                revision_id,
            )

    kinds: ClassVar[Mapping[str, ObjectKind[Any]]] = {
        "Revision": ObjectKind(
            SERVING_GROUP,
            lambda key, obj, scope: revisions.parse(obj, scope.readiness_policy),
            put_revision,
            warn_of_revision,
        ),
        "Service": ObjectKind(
            "",
            lambda key, obj, scope: (
                endpoints.parse_private_service(obj) if names_private_service(key.name) else None
            ),
            put_service,
        ),
        "Endpoints": ObjectKind(
            "",
            lambda key, obj, scope: endpoints.parse(obj),
            put_endpoints,
            warn_of_endpoints,
        ),
        "EndpointSlice": ObjectKind(
            "discovery.k8s.io",
            lambda key, obj, scope: endpoints.parse_slice(obj),
            put_endpoints,
            warn_of_slice,
        ),
    }

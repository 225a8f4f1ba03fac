"""Sums up the objects of each revision, and passes a changed sum to its sink.

Must not know the form of objects, nor which of them are in force: the inventory knows that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from activator.discovery.endpoints import (
    EndpointsSource,
    Family,
    Part,
    PrivateEndpoints,
    PublicEndpoints,
    choose,
    join_addresses,
    join_endpoints,
    originals,
)
from activator.discovery.source import Sink, SystemSink
from activator.knative.system_objects import ConfigMap
from activator.knative.words import private_service
from activator.objects.fields import ObjectKey
from activator.records.source_status import ObjectWarning
from throttler.model import AppProtocol, ListedEndpoints, RevisionID

logger = logging.getLogger(__name__)

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
        # A dict, not a set: it keeps the order of the changes.
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

    def publish_next(self) -> bool:
        """Pass on one changed revision, and return whether there was one.

        A revision stays marked as changed until the sink has taken it.
        """
        for revision_id in self._changed:
            parts = self._parts.get(revision_id, {})
            whole = self._join(revision_id, parts)
            if self._published.get(revision_id) != whole:
                self._publish(revision_id, whole)
                self._published[revision_id] = whole
            if not parts:
                self._published.pop(revision_id, None)
            del self._changed[revision_id]
            return True
        return False


class EndpointsByRevision:
    """Endpoints and EndpointSlices of all revisions, private and public ones.

    Arguments:
        sink: takes pods and activators.
        source: whether Endpoints or slices count.
        family: which addresses to use where slices list both.
    """

    def __init__(self, sink: Sink, source: EndpointsSource, family: Family) -> None:
        self._source = source
        self._family = family
        # Revisions with truncated Endpoints, and whether their slices are read instead.
        self._truncated: dict[RevisionID, bool] = {}
        self._private = _ByRevision(self._join_private, lambda *each: sink.set_endpoints(*each))
        self._public = _ByRevision(self._join_public, lambda *each: sink.set_activators(*each))

    def put(self, key: ObjectKey, part: PrivateEndpoints | PublicEndpoints | None) -> None:
        """Add what an object lists; None lists nothing."""
        if isinstance(part, PrivateEndpoints):
            self._private.put(key, part)
        elif part is not None:
            self._public.put(key, part)

    def remove(self, key: ObjectKey, part: PrivateEndpoints | PublicEndpoints | None) -> None:
        """Remove what an object listed."""
        if isinstance(part, PrivateEndpoints):
            self._private.remove(key, part)
        elif part is not None:
            self._public.remove(key, part)

    def publish_next(self) -> bool:
        """Pass on one changed revision, and return whether there was one."""
        return self._private.publish_next() or self._public.publish_next()

    def _join_private(
        self, revision_id: RevisionID, parts: Mapping[ObjectKey, PrivateEndpoints]
    ) -> Mapping[AppProtocol, ListedEndpoints]:
        chosen = self._chosen(parts)
        self._log_truncation(revision_id, parts, chosen)
        return join_endpoints(part.endpoints for part in chosen)

    def _join_public(
        self, _revision_id: RevisionID, parts: Mapping[ObjectKey, PublicEndpoints]
    ) -> Mapping[AppProtocol, frozenset[str]]:
        chosen = self._chosen(originals(parts, self._source))
        return join_addresses(part.addresses for part in chosen)

    def _chosen(self, parts: Mapping[ObjectKey, Part]) -> Sequence[Part]:
        endpoints = [part for key, part in parts.items() if key.kind == "Endpoints"]
        slices = [part for key, part in parts.items() if key.kind == "EndpointSlice"]
        return choose(endpoints, slices, self._source, self._family)

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


class ServicesByRevision:
    """Private Services of all revisions. Only its name shows the revision of a Service.

    Arguments:
        sink: takes the address of a revision's Service.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._revisions: dict[ObjectKey, RevisionID] = {}
        self._addresses: dict[ObjectKey, Mapping[AppProtocol, str]] = {}
        self._published: dict[RevisionID, Mapping[AppProtocol, str]] = {}
        self._changed: dict[RevisionID, None] = {}

    def add_revision(self, revision_id: RevisionID) -> None:
        """Record that a revision exists."""
        self._revisions[_service_of(revision_id)] = revision_id
        self._changed[revision_id] = None

    def remove_revision(self, revision_id: RevisionID) -> None:
        """Record that a revision is deleted."""
        self._revisions.pop(_service_of(revision_id), None)
        self._changed[revision_id] = None

    def put(self, key: ObjectKey, addresses: Mapping[AppProtocol, str]) -> None:
        """Replace the addresses of a Service; none if it is deleted or cannot be used."""
        if addresses:
            self._addresses[key] = addresses
        else:
            self._addresses.pop(key, None)
        if (revision_id := self._revisions.get(key)) is not None:
            self._changed[revision_id] = None

    def publish_next(self) -> bool:
        """Pass on one changed revision, and return whether there was one."""
        for revision_id in self._changed:
            key = _service_of(revision_id)
            addresses = self._addresses.get(key, {}) if key in self._revisions else {}
            if self._published.get(revision_id, {}) != addresses:
                self._sink.set_service(revision_id, addresses)
                self._published[revision_id] = addresses
            if not addresses:
                self._published.pop(revision_id, None)
            del self._changed[revision_id]
            return True
        return False


class TrustBundles:
    """ConfigMaps that contain certificates to trust.

    Arguments:
        sink: takes the certificates of all ConfigMaps together.
    """

    def __init__(self, sink: SystemSink) -> None:
        self._sink = sink
        self._bundles: dict[ObjectKey, ConfigMap] = {}
        self._changed = False

    def put(self, key: ObjectKey, config_map: ConfigMap) -> None:
        """Replace a ConfigMap; one that is no trust bundle, or no longer one, adds nothing."""
        old = self._bundles.pop(key, None)
        if config_map.is_trust_bundle:
            self._bundles[key] = config_map
        self._changed |= old is not None or config_map.is_trust_bundle

    def publish_next(self) -> bool:
        """Pass on all bundles if one has changed, and return whether one had."""
        if not self._changed:
            return False
        bundles = [self._bundles[key].data for key in sorted(self._bundles)]
        self._sink.set_trust_bundles(tuple(pem for data in bundles for pem in data.values()))
        self._changed = False
        return True


class Aggregates:
    """The sums of Knative's objects, and the sink that takes them (discovery.dialect.State).

    Arguments:
        sink: takes revisions and their pods.
        source, family: see ``EndpointsByRevision``.
    """

    def __init__(self, sink: Sink, source: EndpointsSource, family: Family) -> None:
        self.sink = sink
        self.endpoints = EndpointsByRevision(sink, source, family)
        self.services = ServicesByRevision(sink)

    def publish_next(self) -> bool:
        """Pass on one sum that has changed, and return whether there was one."""
        return self.endpoints.publish_next() or self.services.publish_next()

    def warnings(self) -> Iterable[ObjectWarning]:
        """Return no warnings: Knative's controllers write objects that agree."""
        return ()

    def settled(self, unread: Collection[str]) -> None:
        """Do nothing: an object may always arrive later than another."""


def _service_of(revision_id: RevisionID) -> ObjectKey:
    return ObjectKey("Service", revision_id.namespace, private_service(revision_id.name))

"""What the objects of each revision add up to, told to the sink when it changes.

Decides what counts and what is news. It must not know how objects are written, nor which of them
are in force: that is the inventory's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from activator.discovery.destinations import (
    EndpointsSource,
    Family,
    Part,
    PrivateEndpoints,
    PublicEndpoints,
    choose,
    join_addresses,
    join_dests,
    originals,
)
from activator.discovery.services import private_name
from activator.discovery.sink import Sink
from activator.discovery.system_objects import ConfigMap
from activator.objects.fields import ObjectKey
from throttler.model import AppProtocol, Dests, RevisionID

logger = logging.getLogger(__name__)

_Told = TypeVar("_Told")


class _Joined(Generic[Part, _Told]):
    """Parts of one sort, by revision.

    Arguments:
        join: what all parts of a revision add up to; with none, the revision has none.
        tell: is told of that when it changes.
    """

    def __init__(
        self,
        join: Callable[[RevisionID, Mapping[ObjectKey, Part]], _Told],
        tell: Callable[[RevisionID, _Told], None],
    ) -> None:
        self._join: Callable[[RevisionID, Mapping[ObjectKey, Part]], _Told] = join
        self._tell: Callable[[RevisionID, _Told], None] = tell
        self._parts: dict[RevisionID, dict[ObjectKey, Part]] = {}
        self._told: dict[RevisionID, _Told] = {}
        # A dict, not a set: the sink is told in the order in which things came.
        self._changed: dict[RevisionID, None] = {}

    def put(self, key: ObjectKey, part: Part) -> None:
        self._parts.setdefault(part.revision_id, {})[key] = part
        self._changed[part.revision_id] = None

    def take_out(self, key: ObjectKey, part: Part) -> None:
        parts = self._parts.get(part.revision_id, {})
        parts.pop(key, None)
        if not parts:
            self._parts.pop(part.revision_id, None)
        self._changed[part.revision_id] = None

    def tell_next(self) -> bool:
        """Tells of one revision that changed, if one did; forgotten when it has been taken."""
        for revision_id in self._changed:
            parts = self._parts.get(revision_id, {})
            whole = self._join(revision_id, parts)
            if self._told.get(revision_id) != whole:
                self._tell(revision_id, whole)
                self._told[revision_id] = whole
            if not parts:
                self._told.pop(revision_id, None)
            del self._changed[revision_id]
            return True
        return False


class JoinedEndpoints:
    """Endpoints and EndpointSlices of all revisions, private and public ones.

    Arguments:
        sink: is told of pods and activators.
        source: whether Endpoints or slices count.
        family: which addresses to use where slices list both.
    """

    def __init__(self, sink: Sink, source: EndpointsSource, family: Family) -> None:
        self._source = source
        self._family = family
        # Revisions whose Endpoints are cut off, and whether their slices are read instead.
        self._truncated: dict[RevisionID, bool] = {}
        self._private = _Joined(self._join_private, lambda *told: sink.set_dests(*told))
        self._public = _Joined(self._join_public, lambda *told: sink.set_activators(*told))

    def put(self, key: ObjectKey, part: PrivateEndpoints | PublicEndpoints | None) -> None:
        """Takes what an object says now; None says nothing."""
        if isinstance(part, PrivateEndpoints):
            self._private.put(key, part)
        elif part is not None:
            self._public.put(key, part)

    def take_out(self, key: ObjectKey, part: PrivateEndpoints | PublicEndpoints | None) -> None:
        """Takes away what an object said."""
        if isinstance(part, PrivateEndpoints):
            self._private.take_out(key, part)
        elif part is not None:
            self._public.take_out(key, part)

    def tell_next(self) -> bool:
        """Tells the sink of one revision that changed. Returns whether there was one."""
        return self._private.tell_next() or self._public.tell_next()

    def _join_private(
        self, revision_id: RevisionID, parts: Mapping[ObjectKey, PrivateEndpoints]
    ) -> Mapping[AppProtocol, Dests]:
        chosen = self._chosen(parts)
        self._note_truncation(revision_id, parts, chosen)
        return join_dests(part.dests for part in chosen)

    def _join_public(
        self, _revision_id: RevisionID, parts: Mapping[ObjectKey, PublicEndpoints]
    ) -> Mapping[AppProtocol, frozenset[str]]:
        chosen = self._chosen(originals(parts, self._source))
        return join_addresses(part.addresses for part in chosen)

    def _chosen(self, parts: Mapping[ObjectKey, Part]) -> Sequence[Part]:
        endpoints = [part for key, part in parts.items() if key.kind == "Endpoints"]
        slices = [part for key, part in parts.items() if key.kind == "EndpointSlice"]
        return choose(endpoints, slices, self._source, self._family)

    def _note_truncation(
        self,
        revision_id: RevisionID,
        parts: Mapping[ObjectKey, PrivateEndpoints],
        chosen: Sequence[PrivateEndpoints],
    ) -> None:
        """Says once that pods are out of reach, and once that they are not any more."""
        if not any(part.truncated for part in parts.values()):
            self._truncated.pop(revision_id, None)
            return
        complete = not any(part.truncated for part in chosen)
        if self._truncated.get(revision_id) is complete:
            return
        self._truncated[revision_id] = complete
        if complete:
            logger.info(
                "revision %s: Endpoints are cut off after 1000 pods, EndpointSlices are read "
                "instead",
                revision_id,
            )
        else:
            logger.warning(
                "revision %s: Endpoints are cut off after 1000 pods and there are no "
                "EndpointSlices to read instead: the other pods get no traffic from here",
                revision_id,
            )


class JoinedServices:
    """Private Services of all revisions, which are known by their names alone.

    Arguments:
        sink: is told under which address a revision's pods are reached together.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._revisions: dict[ObjectKey, RevisionID] = {}
        self._addresses: dict[ObjectKey, Mapping[AppProtocol, str]] = {}
        self._told: dict[RevisionID, Mapping[AppProtocol, str]] = {}
        self._changed: dict[RevisionID, None] = {}

    def add_revision(self, revision_id: RevisionID) -> None:
        """Takes that there is such a revision."""
        self._revisions[_service_of(revision_id)] = revision_id
        self._changed[revision_id] = None

    def drop_revision(self, revision_id: RevisionID) -> None:
        """Takes that there is no such revision any more."""
        self._revisions.pop(_service_of(revision_id), None)
        self._changed[revision_id] = None

    def put(self, key: ObjectKey, addresses: Mapping[AppProtocol, str]) -> None:
        """Takes the addresses of a Service; none if it is gone or cannot be used."""
        if addresses:
            self._addresses[key] = addresses
        else:
            self._addresses.pop(key, None)
        if (revision_id := self._revisions.get(key)) is not None:
            self._changed[revision_id] = None

    def tell_next(self) -> bool:
        """Tells the sink of one revision that changed. Returns whether there was one."""
        for revision_id in self._changed:
            key = _service_of(revision_id)
            addresses = self._addresses.get(key, {}) if key in self._revisions else {}
            if self._told.get(revision_id, {}) != addresses:
                self._sink.set_service(revision_id, addresses)
                self._told[revision_id] = addresses
            if not addresses:
                self._told.pop(revision_id, None)
            del self._changed[revision_id]
            return True
        return False


class JoinedBundles:
    """ConfigMaps whose texts are certificates to trust.

    Arguments:
        sink: is told of all of them together.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._bundles: dict[ObjectKey, ConfigMap] = {}
        self._changed = False

    def put(self, key: ObjectKey, config_map: ConfigMap) -> None:
        """Takes what a ConfigMap says now; one that is no trust bundle (any more) adds nothing."""
        old = self._bundles.pop(key, None)
        if config_map.is_trust_bundle:
            self._bundles[key] = config_map
        self._changed |= old is not None or config_map.is_trust_bundle

    def tell_next(self) -> bool:
        """Tells the sink of all bundles if one changed. Returns whether one did."""
        if not self._changed:
            return False
        bundles = [self._bundles[key].data for key in sorted(self._bundles)]
        self._sink.set_trust_bundles(tuple(pem for data in bundles for pem in data.values()))
        self._changed = False
        return True


def _service_of(revision_id: RevisionID) -> ObjectKey:
    return ObjectKey("Service", revision_id.namespace, private_name(revision_id.name))

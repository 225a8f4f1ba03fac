"""Turns raw objects, in whatever order they come, into the few calls that a sink understands.

Decides what an object means, whether it says anything new, and what is left when it goes. It must
not know where objects come from, and it keeps no clock. One broken object is reported and keeps
its last good state; it never stops the others.
Knative's counterparts: the informer handlers of pkg/activator/net/throttler.go and
revision_backends.go. Unlike there, nothing is dropped when Endpoints arrive before their Revision
(the sink joins them), and deleted Endpoints leave no destination behind.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from activator.discovery import endpoint_slices, endpoints, revisions, services
from activator.discovery.destinations import (
    REVISION_UID_LABEL,
    SERVICE_TYPE_LABEL,
    EndpointsSource,
    Family,
    PrivateEndpoints,
    PublicEndpoints,
)
from activator.discovery.joined import JoinedBundles, JoinedEndpoints, JoinedServices
from activator.discovery.rejections import Rejection, Stats, log_rejection
from activator.discovery.services import PRIVATE_SUFFIX
from activator.discovery.sink import Sink
from activator.discovery.system_objects import (
    ConfigMap,
    Secret,
    parse_config_map,
    parse_secret,
)
from activator.objects.fields import ManifestError, ObjectKey, identify, root
from throttler.model import AppProtocol, Revision

logger = logging.getLogger(__name__)

# The API group of each kind that is understood. `Service` shows why the kind alone will not do:
# serving.knative.dev has one too.
GROUPS: Mapping[str, str] = {
    "Revision": "serving.knative.dev",
    "Service": "",
    "Endpoints": "",
    "EndpointSlice": "discovery.k8s.io",
    "ConfigMap": "",
    "Secret": "",
}


_Parsed = (
    Revision
    | PrivateEndpoints
    | PublicEndpoints
    | Mapping[AppProtocol, str]
    | ConfigMap
    | Secret
    | None
)


class Version(NamedTuple):
    """Which object it is that has a name, and which state of it."""

    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class _Entry:
    uid: str
    version: str
    parsed: _Parsed


def kind_of(obj: object) -> str | None:
    """The kind of an object if it is one that is understood.

    Arguments:
        obj: the object as decoded from JSON or YAML.

    Returns:
        A key of ``GROUPS``, or None for every other object. An object without ``apiVersion`` is
        judged by its kind alone.
    """
    if not isinstance(obj, dict):
        return None
    kind, api_version = obj.get("kind"), obj.get("apiVersion")
    if not isinstance(kind, str) or kind not in GROUPS:
        return None
    if api_version is None:
        return kind
    group = api_version.rpartition("/")[0] if isinstance(api_version, str) else None
    return kind if group == GROUPS[kind] else None


class Inventory:
    """All objects that are known, and what they add up to for each revision.

    Arguments:
        sink: is told what changed.
        report: is told of objects that cannot be used.
        system_namespace: the one namespace whose ConfigMaps and Secrets count; None for every
            namespace.
        source: whether Endpoints or EndpointSlices say where pods are.
        family: which addresses to use where slices list both: the one that we have ourselves.
        readiness_policy: what counts for Revisions without the annotation, see revisions.parse.
    """

    def __init__(
        self,
        sink: Sink,
        report: Callable[[Rejection], None] = log_rejection,
        system_namespace: str | None = None,
        source: EndpointsSource = EndpointsSource.AUTO,
        family: Family = Family.IPV4,
        readiness_policy: str = "auto",
    ) -> None:
        self.stats = Stats()
        self.source = source
        self._sink = sink
        self._report = report
        self._system_namespace = system_namespace
        self._readiness_policy = readiness_policy
        self._entries: dict[ObjectKey, _Entry] = {}
        self._counts: Counter[str] = Counter()
        self._endpoints = JoinedEndpoints(sink, source, family)
        self._services = JoinedServices(sink)
        self._bundles = JoinedBundles(sink)

    @property
    def counts(self) -> Mapping[str, int]:
        """How many objects of each kind are in force."""
        return {kind: self._counts[kind] for kind in GROUPS}

    @property
    def rejected(self) -> Mapping[str, int]:
        """How many objects of each kind cannot be used at present."""
        found = Counter(key.kind for key in self.stats.rejected)
        return {kind: found[kind] for kind in GROUPS}

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._entries

    def version_of(self, key: ObjectKey) -> Version | None:
        """Which version of an object is in force; None if none is."""
        entry = self._entries.get(key)
        return None if entry is None else Version(entry.uid, entry.version)

    @property
    def in_force(self) -> list[ObjectKey]:
        """All objects that are, at this moment."""
        return list(self._entries)

    def apply(self, obj: object) -> str | None:
        """Takes in an object that is new, changed or repeated.

        Arguments:
            obj: the object as decoded from JSON or YAML.

        Returns:
            Why the object was rejected; None if it was not. A rejection has been reported.
        """
        kind = kind_of(obj)
        if kind is None:
            self.stats.ignored += 1
            return None
        key, entry, reason = self._read(kind, obj)
        if entry is not None:
            self._put(key, entry)
        self._tell()
        return reason

    def remove(self, kind: str, namespace: str, name: str, uid: str = "") -> None:
        """Forgets an object; one that is not known is no error.

        Arguments:
            kind: its kind.
            namespace: its namespace.
            name: its name.
            uid: the uid of the object that was deleted. Where another uid is known, another
                object took the name, and the deletion is old news.
        """
        key = ObjectKey(kind, namespace, name)
        entry = self._entries.get(key)
        if entry and uid and entry.uid and uid != entry.uid:
            self.stats.outdated += 1
            return
        self._forget(key)
        self._tell()

    def replace(self, kind: str, objects: Iterable[object]) -> None:
        """Takes in the complete list of a kind; what is not in it is gone.

        Nothing that is in force before and after is ever out of force in between: the sink is
        told what the whole list adds up to. A broken object in the list keeps its last good state.
        A list is the truth, also where versions in it are lower than those that are known: they
        go back when etcd is restored from a backup. (client-go's Reflector takes it so, too.)

        Arguments:
            kind: the kind of all objects, which list items do not repeat.
            objects: all objects of that kind.
        """
        for _ in self.replacing(kind, objects):
            pass

    def replacing(self, kind: str, objects: Iterable[object]) -> Iterator[None]:
        """Does what ``replace`` does, step by step; others may run between the steps.

        What is in force changes in one step, so that a pod which one object passes to another is
        never away; then the sink is told of one revision per step. Whoever does not go through
        all steps changes nothing, or leaves the rest to be told by the next change.

        Arguments:
            kind: as for ``replace``; nobody else may change objects of this kind meanwhile.
            objects: as for ``replace``.
        """
        present = set()
        news: list[tuple[ObjectKey, _Entry]] = []
        for obj in objects:
            key, entry, _ = self._read(kind, obj, listed=True)
            present.add(key)
            if entry is not None:
                news.append((key, entry))
            yield
        for key, entry in news:
            self._put(key, entry)
        known = self._entries.keys() | self.stats.rejected.keys()
        for key in [key for key in known if key.kind == kind and key not in present]:
            self._forget(key)
        while self._tell_next():
            yield

    def _read(
        self, kind: str, obj: object, *, listed: bool = False
    ) -> tuple[ObjectKey, _Entry | None, str | None]:
        """Says which object it is, as well as can be told; what it says if that may be news; and
        why it is rejected if it is."""
        key = ObjectKey(kind, "?", "?")
        try:
            key = identify(obj, kind)
            return key, self._news(key, obj, listed), None
        except ManifestError as error:
            return key, None, self._reject(key, str(error))

    def _news(self, key: ObjectKey, obj: object, listed: bool) -> _Entry | None:
        metadata = root(obj, key.kind)["metadata"]
        uid, version = metadata["uid"].text(), metadata["resourceVersion"].text()
        old = self._entries.get(key)
        # In a list even the version that is known may stand for another state, after a restore.
        if not listed and old and old.uid == uid and not_newer(version, old.version):
            self.stats.outdated += version != old.version
            return None
        parsed = self._parse(key, obj)
        if why := _unused(key, obj, parsed):
            logger.debug("%s is left alone: %s", key, why)
        self.stats.rejected.pop(key, None)
        return _Entry(uid, version, parsed)

    def _put(self, key: ObjectKey, entry: _Entry) -> None:
        old = self._entries.get(key)
        if old is None or old.parsed != entry.parsed:
            self._move(key, old.parsed if old else None, entry.parsed)
        # Only now: where the sink failed, the next time must not look unchanged.
        self._entries[key] = entry
        self._counts[key.kind] += old is None

    def _parse(self, key: ObjectKey, obj: object) -> _Parsed:
        if key.kind == "Revision":
            return revisions.parse(obj, self._readiness_policy)
        if key.kind == "Endpoints":
            return endpoints.parse(obj)
        if key.kind == "EndpointSlice":
            return endpoint_slices.parse(obj)
        if key.kind == "Service" and key.name.endswith(PRIVATE_SUFFIX):
            return services.parse(obj)
        if self._system_namespace in (None, key.namespace):
            if key.kind == "ConfigMap":
                return parse_config_map(obj)
            if key.kind == "Secret":
                return parse_secret(obj)
        return None

    def _forget(self, key: ObjectKey) -> None:
        self.stats.rejected.pop(key, None)
        entry = self._entries.get(key)
        if entry is not None:
            self._move(key, entry.parsed, None)
            del self._entries[key]
            self._counts[key.kind] -= 1

    def _move(self, key: ObjectKey, old: _Parsed, new: _Parsed) -> None:
        """Takes what the object said away and puts what it says now in its place."""
        if isinstance(new, Revision):
            self._sink.set_revision(new)
            self._services.add_revision(new.id)
        elif isinstance(old, Revision):
            self._services.drop_revision(old.id)
            self._sink.delete_revision(old.id)
        elif key.kind == "Service":
            self._services.put(key, new if isinstance(new, Mapping) else {})
        elif key.kind in ("Endpoints", "EndpointSlice"):
            self._endpoints.take_out(key, _if_endpoints(old))
            self._endpoints.put(key, _if_endpoints(new))
        if isinstance(new, ConfigMap) or isinstance(old, ConfigMap):
            self._move_config_map(key, old, new)
        if isinstance(new, Secret) or isinstance(old, Secret):
            self._sink.set_secret(key.name, new.data if isinstance(new, Secret) else {})

    def _move_config_map(self, key: ObjectKey, old: _Parsed, new: _Parsed) -> None:
        was, now = (
            entry if isinstance(entry, ConfigMap) else ConfigMap({}) for entry in (old, new)
        )
        if was.data != now.data or old is None or new is None:
            self._sink.set_config_map(key.name, now.data)
        self._bundles.put(key, now)

    def _tell(self) -> None:
        """Tells the sink what changed since the last time, each revision at most once."""
        while self._tell_next():
            pass

    def _tell_next(self) -> bool:
        """Tells the sink one thing that changed, if one did; forgotten when it was taken."""
        joined = (self._endpoints, self._services, self._bundles)
        return any(each.tell_next() for each in joined)

    def _reject(self, key: ObjectKey, reason: str) -> str:
        self.stats.rejections += 1
        self.stats.last_rejection = reason
        if self.stats.rejected.get(key) != reason:
            if key.name != "?":
                self.stats.rejected[key] = reason
            self._report(Rejection(key.kind, key.namespace, key.name, reason))
        return reason


def _unused(key: ObjectKey, obj: object, parsed: _Parsed) -> str:
    """Return why an object that could say where pods are says nothing; empty where it does."""
    if key.kind not in ("Endpoints", "EndpointSlice"):
        return ""
    found = _if_endpoints(parsed)
    if found is None:
        return (
            f"it needs the label {SERVICE_TYPE_LABEL}, Private (then also {REVISION_UID_LABEL}) "
            f"or Public"
        )
    listed = isinstance(obj, Mapping) and obj.get("subsets")
    return "it has no address with a port named http or http2" if listed and found.empty else ""


def _if_endpoints(parsed: _Parsed) -> PrivateEndpoints | PublicEndpoints | None:
    return parsed if isinstance(parsed, PrivateEndpoints | PublicEndpoints) else None


def not_newer(version: str, known: str) -> bool:
    """Whether a version is none that follows on another of the same object, or of its lists.

    Versions are opaque by contract; in practice, and by contract since Kubernetes 1.35, those of
    one kind are decimal numbers that grow, unless etcd is restored. Anything else is taken as
    newer.

    Args:
        version: a ``resourceVersion`` that was just read; empty for none.
        known: the one to compare it with.
    """
    if not version or not known:
        return False
    if version == known:
        return True
    return _is_number(version) and _is_number(known) and int(version) < int(known)


def _is_number(version: str) -> bool:
    # int() takes more than digits, and refuses beyond 4,300 of them.
    return len(version) < 40 and version.isascii() and version.isdigit()

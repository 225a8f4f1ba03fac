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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from activator.discovery import endpoint_slices, endpoints, revisions, services
from activator.discovery.destinations import (
    EndpointsSource,
    Family,
    PrivateEndpoints,
    PublicEndpoints,
)
from activator.discovery.fields import ManifestError, ObjectKey, identify, root
from activator.discovery.joined import JoinedEndpoints, JoinedServices
from activator.discovery.services import PRIVATE_SUFFIX
from activator.discovery.sink import Sink
from activator.discovery.system_objects import (
    ConfigMap,
    Secret,
    parse_config_map,
    parse_secret,
)
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


@dataclass(frozen=True, slots=True)
class Rejection:
    """An object that could not be used, and why; its last good state stays in force."""

    kind: str
    namespace: str
    name: str
    reason: str


def log_rejection(rejection: Rejection) -> None:
    """Writes a rejection to the process log, with its parts as fields."""
    logger.warning(
        "object ignored, its last good state stays: %s",
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
    """What the inventory has seen, for metrics and the admin pages.

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


_Parsed = (
    Revision
    | PrivateEndpoints
    | PublicEndpoints
    | Mapping[AppProtocol, str]
    | ConfigMap
    | Secret
    | None
)


@dataclass(frozen=True, slots=True)
class _Entry:
    uid: str
    version: str
    parsed: _Parsed


def kind_of(obj: object) -> str | None:
    """The kind of an object if it is one that is understood.

    Args:
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

    Args:
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
        self._bundles: dict[ObjectKey, ConfigMap] = {}
        self._bundles_changed = False

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

    def apply(self, obj: object) -> str | None:
        """Takes in an object that is new, changed or repeated.

        Args:
            obj: the object as decoded from JSON or YAML.

        Returns:
            Why the object was rejected; None if it was not. A rejection has been reported.
        """
        kind = kind_of(obj)
        if kind is None:
            self.stats.ignored += 1
            return None
        _, reason = self._take_in(kind, obj)
        self._tell()
        return reason

    def remove(self, kind: str, namespace: str, name: str, uid: str = "") -> None:
        """Forgets an object; one that is not known is no error.

        Args:
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

        Args:
            kind: the kind of all objects, which list items do not repeat.
            objects: all objects of that kind.
        """
        present = set()
        for obj in objects:
            key, _ = self._take_in(kind, obj)
            present.add(key)
        known = self._entries.keys() | self.stats.rejected.keys()
        for key in [key for key in known if key.kind == kind and key not in present]:
            self._forget(key)
        self._tell()

    def _take_in(self, kind: str, obj: object) -> tuple[ObjectKey, str | None]:
        """Says which object it was, as well as can be told, and why it was rejected if it was."""
        key = ObjectKey(kind, "?", "?")
        try:
            key = identify(obj, kind)
            self._put(key, obj)
        except ManifestError as error:
            return key, self._reject(key, str(error))
        return key, None

    def _put(self, key: ObjectKey, obj: object) -> None:
        metadata = root(obj, key.kind)["metadata"]
        uid, version = metadata["uid"].text(), metadata["resourceVersion"].text()
        old = self._entries.get(key)
        if old and old.uid == uid and _not_newer(version, old.version):
            # The same version again is the usual content of a list after a lost watch.
            self.stats.outdated += version != old.version
            return
        parsed = self._parse(key, obj)
        self.stats.rejected.pop(key, None)
        if old is None or old.parsed != parsed:
            self._move(key, old.parsed if old else None, parsed)
        # Only now: where the sink failed, the next time must not look unchanged.
        self._entries[key] = _Entry(uid, version, parsed)
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
        if was.is_trust_bundle or now.is_trust_bundle:
            self._bundles.pop(key, None)
            if now.is_trust_bundle:
                self._bundles[key] = now
            self._bundles_changed = True

    def _tell(self) -> None:
        """Tells the sink what changed since the last time, each revision at most once.

        A change is only forgotten when the sink has taken it.
        """
        self._endpoints.tell()
        self._services.tell()
        if self._bundles_changed:
            bundles = [self._bundles[key].data for key in sorted(self._bundles)]
            self._sink.set_trust_bundles(tuple(pem for data in bundles for pem in data.values()))
            self._bundles_changed = False

    def _reject(self, key: ObjectKey, reason: str) -> str:
        self.stats.rejections += 1
        self.stats.last_rejection = reason
        if self.stats.rejected.get(key) != reason:
            if key.name != "?":
                self.stats.rejected[key] = reason
            self._report(Rejection(key.kind, key.namespace, key.name, reason))
        return reason


def _if_endpoints(parsed: _Parsed) -> PrivateEndpoints | PublicEndpoints | None:
    return parsed if isinstance(parsed, PrivateEndpoints | PublicEndpoints) else None


def _not_newer(version: str, known: str) -> bool:
    """Whether an event carries nothing newer than what is known of the same object.

    Versions are opaque by contract; in practice, and by contract since Kubernetes 1.35, those of
    one object are decimal numbers that grow. Anything else is taken as newer.
    """
    if not version or not known:
        return False
    if version == known:
        return True
    return _is_number(version) and _is_number(known) and int(version) < int(known)


def _is_number(version: str) -> bool:
    # int() takes more than digits, and refuses beyond 4,300 of them.
    return len(version) < 40 and version.isascii() and version.isdigit()

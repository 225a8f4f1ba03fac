"""Applies raw objects, in any order, to the two sinks.

Decides whether an object is new, changed, outdated or broken; ``kinds`` knows its meaning. Must not
know where objects come from, and reads no clock. A broken object is reported, keeps its last good
state, and never stops other objects.

Knative's counterparts: the informer handlers of pkg/activator/net/throttler.go and
revision_backends.go. Unlike there, Endpoints may arrive before their Revision, since the sink joins
them. Deleted Endpoints leave no pods behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from activator.discovery.aggregate import Aggregates
from activator.discovery.kinds import KINDS, Scope, kind_of
from activator.discovery.object_warnings import ObjectWarnings, revision_of
from activator.discovery.rejections import Rejection, Stats, log_rejection
from activator.discovery.sink import Sink, SystemSink
from activator.objects.fields import ManifestError, ObjectKey, identify, root
from activator.records.source_status import KindStatus


class Version(NamedTuple):
    """Identity and state of an object."""

    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class _Entry:
    uid: str
    version: str
    parsed: object


_EVERYTHING: Final = Scope()


class Inventory:
    """All objects in force, and their sum for each revision.

    Arguments:
        sink: takes changes of revisions and their pods.
        system: takes changes of ConfigMaps, Secrets and trust bundles.
        report: called with each unusable object.
        scope: which objects count.

    Attributes:
        warnings: the objects without effect.
    """

    def __init__(
        self,
        sink: Sink,
        system: SystemSink,
        report: Callable[[Rejection], None] = log_rejection,
        scope: Scope = _EVERYTHING,
    ) -> None:
        self.stats = Stats()
        self.warnings = ObjectWarnings()
        self.scope = scope
        self._report = report
        self._entries: dict[ObjectKey, _Entry] = {}
        self._counts: Counter[str] = Counter()
        self._state = Aggregates(sink, system, scope.endpoints, scope.family)

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of objects in force, by kind."""
        return {kind: self._counts[kind] for kind in KINDS}

    @property
    def rejected(self) -> Mapping[str, int]:
        """The present number of unusable objects, by kind."""
        found = Counter(key.kind for key in self.stats.rejected)
        return {kind: found[kind] for kind in KINDS}

    def status(self) -> dict[str, KindStatus]:
        """Return the numbers of each kind; the source adds the rest of the status."""
        rejected = self.rejected
        return {kind: KindStatus(n, rejected[kind]) for kind, n in self.counts.items()}

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._entries

    def version_of(self, key: ObjectKey) -> Version | None:
        """Return the version of an object in force; None if the object is not in force."""
        entry = self._entries.get(key)
        return None if entry is None else Version(entry.uid, entry.version)

    @property
    def in_force(self) -> list[ObjectKey]:
        """The keys of all objects in force."""
        return list(self._entries)

    def apply(self, obj: object) -> str | None:
        """Apply an object that may be new, changed or unchanged.

        Arguments:
            obj: the object as decoded from JSON or YAML.

        Returns:
            Why the object is unusable, which is already reported; None if it is usable.
        """
        kind = kind_of(obj)
        if kind is None:
            self.stats.ignored += 1
            return None
        key, entry, reason = self._read(kind, obj)
        if entry is not None:
            self._put(key, entry)
        self._publish()
        return reason

    def remove(self, kind: str, namespace: str, name: str, uid: str = "") -> None:
        """Remove a deleted object; an unknown one is no error.

        Arguments:
            kind: its kind.
            namespace: its namespace.
            name: its name.
            uid: the uid of the deleted object. If the known object has another uid, it is a new
                object with the same name, and the deletion is outdated.
        """
        key = ObjectKey(kind, namespace, name)
        entry = self._entries.get(key)
        if entry and uid and entry.uid and uid != entry.uid:
            self.stats.outdated += 1
            return
        self._delete(key)
        self._publish()

    def replace(self, kind: str, objects: Iterable[object]) -> None:
        """Apply the complete list of a kind; remove the objects that are not in it.

        The sink gets the sum of the whole list, so an object in force before and after is never
        missing. A broken object in the list keeps its last good state. A list may have lower
        versions than the known ones: after a restore of etcd from a backup. client-go's Reflector
        accepts that as well.

        Arguments:
            kind: the kind of all objects, which the items of a list do not have.
            objects: all objects of that kind.
        """
        for _ in self.replacing(kind, objects):
            pass

    def replacing(self, kind: str, objects: Iterable[object]) -> Iterator[None]:
        """Apply a list as ``replace`` does, in steps; other tasks may run between the steps.

        One step replaces all objects, so that a pod that moves between objects is never missing.
        Then each step passes one revision to the sink. If the caller stops before, nothing has
        changed. If it stops later, the next change passes the rest.

        Arguments:
            kind: as for ``replace``; no other caller may change objects of this kind meanwhile.
            objects: as for ``replace``.
        """
        present = set()
        changed: list[tuple[ObjectKey, _Entry]] = []
        for obj in objects:
            key, entry, _ = self._read(kind, obj, listed=True)
            present.add(key)
            if entry is not None:
                changed.append((key, entry))
            yield
        for key, entry in changed:
            self._put(key, entry)
        known = self._entries.keys() | self.stats.rejected.keys()
        for key in [key for key in known if key.kind == kind and key not in present]:
            self._delete(key)
        while self._state.publish_next():
            yield

    def _read(
        self, kind: str, obj: object, *, listed: bool = False
    ) -> tuple[ObjectKey, _Entry | None, str | None]:
        """Return the key as far as it is readable, the entry if it may be new, and the error."""
        key = ObjectKey(kind, "?", "?")
        try:
            key = identify(obj, kind)
            return key, self._entry(key, obj, listed), None
        except ManifestError as error:
            return key, None, self._reject(key, str(error))

    def _entry(self, key: ObjectKey, obj: object, listed: bool) -> _Entry | None:
        metadata = root(obj, key.kind)["metadata"]
        uid, version = metadata["uid"].text(), metadata["resourceVersion"].text()
        old = self._entries.get(key)
        # After a restore of etcd, a list may have another state with the known version.
        if not listed and old and old.uid == uid and not_newer(version, old.version):
            self.stats.outdated += version != old.version
            return None
        kind = KINDS[key.kind]
        parsed = kind.parse(key, obj, self.scope)
        text = kind.warning(obj, parsed)
        self.warnings.put(key, revision_of(key, obj) if text else "", text)
        self.stats.rejected.pop(key, None)
        return _Entry(uid, version, parsed)

    def _put(self, key: ObjectKey, entry: _Entry) -> None:
        old = self._entries.get(key)
        if old is None or old.parsed != entry.parsed:
            self._replace(key, old.parsed if old else None, entry.parsed)
        # Only after that: if the sink fails, the object must not look unchanged.
        self._entries[key] = entry
        self._counts[key.kind] += old is None

    def _delete(self, key: ObjectKey) -> None:
        self.warnings.remove(key)
        self.stats.rejected.pop(key, None)
        entry = self._entries.get(key)
        if entry is not None:
            self._replace(key, entry.parsed, None)
            del self._entries[key]
            self._counts[key.kind] -= 1

    def _replace(self, key: ObjectKey, old: object, new: object) -> None:
        KINDS[key.kind].put(self._state, key, old, new)

    def _publish(self) -> None:
        """Pass on all changes, each revision at most once."""
        while self._state.publish_next():
            pass

    def _reject(self, key: ObjectKey, reason: str) -> str:
        self.stats.rejections += 1
        self.stats.last_rejection = reason
        if self.stats.rejected.get(key) != reason:
            if key.name != "?":
                self.stats.rejected[key] = reason
            kept = key in self._entries
            self._report(Rejection(key.kind, key.namespace, key.name, reason, kept))
        return reason


def not_newer(version: str, known: str) -> bool:
    """Return whether a version is equal to a known one, or older.

    The versions of one kind are decimal numbers that grow, unless etcd is restored. Kubernetes
    guarantees that since 1.35; before, they were opaque. A version of another form counts as newer.

    Args:
        version: a ``resourceVersion`` of an object or a list; empty for none.
        known: the known one of the same object, or of lists of the same kind.
    """
    if not version or not known:
        return False
    if version == known:
        return True
    return _is_number(version) and _is_number(known) and int(version) < int(known)


def _is_number(version: str) -> bool:
    # int() accepts other characters as well, and refuses more than 4,300 digits.
    return len(version) < 40 and version.isascii() and version.isdigit()

"""Applies raw objects, in any order, to the state of one dialect.

Decides whether an object is new, changed, outdated or broken; the dialect knows its meaning. Must
not know where objects come from, and reads no clock. A broken object is reported, keeps its last
good state, and never stops other objects.

Knative's counterparts: the informer handlers of pkg/activator/net/throttler.go and
revision_backends.go. Unlike there, Endpoints may arrive before their Revision, since the sink joins
them. Deleted Endpoints leave no pods behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from activator.discovery.dialect import Dialect, Scope, State
from activator.discovery.object_warnings import ObjectWarnings, revision_of
from activator.discovery.rejections import Effect, Rejection, Stats
from activator.objects.fields import ManifestError, ObjectKey, identify, root
from activator.records.source_status import ObjectWarning

#: Most unusable objects that ``warnings_of_rejected`` yields.
_MOST_REJECTED: Final = 100
INVALID: Final = "invalid"


class Version(NamedTuple):
    """Identity and state of an object."""

    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class _Entry:
    """An object in force; ``is_good``: without a safe default for a wrong annotation."""

    uid: str
    version: str
    parsed: object
    is_good: bool


class DialectInventory:
    """All objects of one dialect that are in force, and their sums.

    Arguments:
        dialect: the kinds of its objects.
        state: the sums of its objects.
        report: called with each unusable object.
        scope: which objects count.

    Attributes:
        warnings: the objects without effect.
    """

    def __init__(
        self,
        dialect: Dialect,
        state: State,
        report: Callable[[Rejection], None],
        scope: Scope,
    ) -> None:
        self.dialect = dialect
        self.kinds = dialect.kinds
        self.state = state
        self.stats = Stats()
        self.warnings = ObjectWarnings(dialect.revision_kind)
        self._scope = scope
        self._report = report
        self._entries: dict[ObjectKey, _Entry] = {}
        # The revisions of the unusable objects.
        self._revisions: dict[ObjectKey, str] = {}
        self._counts: Counter[str] = Counter()

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of objects in force, by kind."""
        return {kind: self._counts[kind] for kind in self.kinds}

    def warnings_of_rejected(self) -> Iterator[ObjectWarning]:
        """Yield some of the unusable objects, each with its error."""
        for key, reason in islice(self.stats.rejected.items(), _MOST_REJECTED):
            text = f"{reason.removeprefix(f'{key}: ')}; {self.effect(key)}"
            yield ObjectWarning(
                *key, self._revisions[key], text, INVALID, self.dialect.revision_kind
            )

    def effect(self, key: ObjectKey) -> Effect:
        """Return what is in force of an invalid object."""
        entry = self._entries.get(key)
        if entry is None:
            return Effect.UNUSED
        return Effect.KEPT if entry.is_good else Effect.DEFAULTS

    def version_of(self, key: ObjectKey) -> Version | None:
        """Return the version of an object in force; None if the object is not in force."""
        entry = self._entries.get(key)
        return None if entry is None else Version(entry.uid, entry.version)

    @property
    def in_force(self) -> Iterable[ObjectKey]:
        """The keys of all objects in force."""
        return self._entries.keys()

    def apply(self, kind: str, obj: object) -> str | None:
        """Apply an object that may be new, changed or unchanged.

        Arguments:
            kind: its kind, which the dialect has.
            obj: the object as decoded from JSON or YAML.

        Returns:
            What is wrong with the object, which is already reported; None for nothing.
        """
        key, entry, reason = self._read(kind, obj)
        if entry is not None:
            self._put(key, entry)
        self._publish()
        return reason

    def remove(self, key: ObjectKey, uid: str) -> None:
        """Remove a deleted object; see ``Inventory.remove``."""
        entry = self._entries.get(key)
        if entry and uid and entry.uid and uid != entry.uid:
            self.stats.outdated += 1
            return
        self._delete(key)
        self._publish()

    def replacing(self, kind: str, objects: Sequence[object]) -> Iterator[None]:
        """Apply a list in steps; see ``Inventory.replacing``."""
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
        while self.state.publish_next():
            yield

    def _read(
        self, kind: str, obj: object, *, listed: bool = False
    ) -> tuple[ObjectKey, _Entry | None, str | None]:
        """Return the key as far as it is readable, the entry if it may be new, and the error."""
        key = ObjectKey(kind, "?", "?")
        try:
            key = identify(obj, kind)
            entry, reason = self._entry(key, obj, listed)
        except ManifestError as error:
            entry, reason = None, str(error)
        if reason is not None:
            self._revisions[key] = revision_of(key, obj, self.dialect)
            self._reject(key, reason, Effect.DEFAULTS if entry else self.effect(key))
        elif entry is not None:
            self._accept(key)
        return key, entry, reason

    def _entry(self, key: ObjectKey, obj: object, listed: bool) -> tuple[_Entry | None, str | None]:
        """Return the entry if it may be new, and the error if it has safe defaults.

        Raises:
            ManifestError: the object has a last good state, or no safe defaults.
        """
        metadata = root(obj, key.kind)["metadata"]
        uid, version = metadata["uid"].text(), metadata["resourceVersion"].text()
        old = self._entries.get(key)
        # After a restore of etcd, a list may have another state with the known version.
        if not listed and old and old.uid == uid and not_newer(version, old.version):
            self.stats.outdated += version != old.version
            return None, None
        kind, reason = self.kinds[key.kind], None
        try:
            parsed = kind.parse(key, obj, self._scope)
        except ManifestError as error:
            # An object that did not opt in has no good state either.
            if error.instead is None or (old and old.is_good and old.parsed):
                raise
            parsed, reason = error.instead, str(error)
        text = kind.warning(obj, parsed, self._scope)
        self.warnings.put(key, revision_of(key, obj, self.dialect) if text else "", text)
        return _Entry(uid, version, parsed, reason is None), reason

    def _put(self, key: ObjectKey, entry: _Entry) -> None:
        old = self._entries.get(key)
        if old is None or old.parsed != entry.parsed:
            self._replace(key, old.parsed if old else None, entry.parsed)
        # Only after that: if the sink fails, the object must not look unchanged.
        self._entries[key] = entry
        self._counts[key.kind] += old is None

    def _delete(self, key: ObjectKey) -> None:
        self.warnings.remove(key)
        self._accept(key)
        entry = self._entries.get(key)
        if entry is not None:
            self._replace(key, entry.parsed, None)
            del self._entries[key]
            self._counts[key.kind] -= 1

    def _replace(self, key: ObjectKey, old: object, new: object) -> None:
        self.kinds[key.kind].put(self.state, key, old, new)

    def _publish(self) -> None:
        """Pass on all changes, each revision at most once."""
        while self.state.publish_next():
            pass

    def _accept(self, key: ObjectKey) -> None:
        self.stats.rejected.pop(key, None)
        self._revisions.pop(key, None)

    def _reject(self, key: ObjectKey, reason: str, effect: Effect) -> None:
        self.stats.rejections += 1
        self.stats.last_rejection = reason
        if self.stats.rejected.get(key) != reason:
            if key.name != "?":
                self.stats.rejected[key] = reason
            self._report(Rejection(*key, reason, effect))


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

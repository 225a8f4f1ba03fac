"""Applies raw objects, in any order, to the state of each dialect that knows them.

Decides whether an object is new, changed, outdated or broken; the dialect knows its meaning. Must
not know where objects come from, and reads no clock. A broken object is reported, keeps its last
good state, and never stops other objects.

Knative's counterparts: the informer handlers of pkg/activator/net/throttler.go and
revision_backends.go. Unlike there, Endpoints may arrive before their Revision, since the sink joins
them. Deleted Endpoints leave no pods behind.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Final, NamedTuple

from activator.discovery.dialect import (
    Dialect,
    ObjectKind,
    ObjectWarnings,
    Scope,
    revision_of,
)
from activator.discovery.keda_kinds import KedaDialect
from activator.discovery.knative_kinds import KnativeDialect
from activator.discovery.rejections import Effect, Rejection, log_rejection
from activator.discovery.service_kinds import ServicesDialect
from activator.discovery.source import Sink
from activator.discovery.wire import not_newer
from activator.knative.system_objects import (
    ConfigMap,
    Secret,
    SystemObjects,
    parse_config_map,
    parse_secret,
)
from activator.objects.fields import ManifestError, ObjectKey, identify, root
from activator.records.source_status import KindStatus, ObjectWarning

# The kinds that configure the activator itself, and the table of all dialects.
#
# ConfigMaps and Secrets count with every dialect.


class SystemDialect(Dialect):
    """The configuration of the activator.

    Arguments:
        system: takes ConfigMaps, Secrets, and the certificates of all trust bundles together.
    """

    name = "system"

    def __init__(self, sink: Sink, system: SystemObjects, scope: Scope) -> None:
        super().__init__(sink, system, scope)
        self._bundles: dict[ObjectKey, ConfigMap] = {}
        self._changed = False

    def publishing(self) -> Iterator[None]:
        if self._changed:
            bundles = [self._bundles[key].data for key in sorted(self._bundles)]
            self._system.set_trust_bundles(tuple(pem for data in bundles for pem in data.values()))
            self._changed = False
            yield

    def put_config_map(self, key: ObjectKey, old: ConfigMap | None, new: ConfigMap | None) -> None:
        """Pass on a ConfigMap; None has no data. One that is no trust bundle adds none."""
        if old is None and new is None:
            return
        before, now = old or ConfigMap({}), new or ConfigMap({})
        if before.data != now.data or old is None or new is None:
            self._system.set_config_map(key.name, now.data)
        known = self._bundles.pop(key, None)
        if now.is_trust_bundle:
            self._bundles[key] = now
        self._changed |= known is not None or now.is_trust_bundle

    def put_secret(self, key: ObjectKey, old: Secret | None, new: Secret | None) -> None:
        """Pass on a Secret; None has no data."""
        if old is not None or new is not None:
            self._system.set_secret(key.name, new.data if new is not None else {})

    kinds: ClassVar[Mapping[str, ObjectKind[Any]]] = {
        "ConfigMap": ObjectKind(
            "",
            lambda key, obj, scope: parse_config_map(obj) if _in_scope(key, scope) else None,
            put_config_map,
        ),
        "Secret": ObjectKind(
            "",
            lambda key, obj, scope: parse_secret(obj) if _in_scope(key, scope) else None,
            put_secret,
        ),
    }


def _in_scope(key: ObjectKey, scope: Scope) -> bool:
    return scope.system_namespace in (None, key.namespace)


_ALL: Final[tuple[type[Dialect], ...]] = (
    KnativeDialect,
    ServicesDialect,
    KedaDialect,
    SystemDialect,
)
#: The dialects that the setting ``dialect`` may name.
DIALECTS: Final[Mapping[str, type[Dialect]]] = {each.name: each for each in _ALL if each.main}
#: The API group of each kind; empty for the core group. Dialects with one kind agree on its group.
GROUPS: Final[Mapping[str, str]] = {
    kind: row.group for dialect in _ALL for kind, row in dialect.kinds.items()
}


def kind_of(obj: object) -> str | None:
    """Return the kind of an object if a dialect reads it.

    The kind alone is not enough: Knative has another kind ``Service``.

    Arguments:
        obj: the object as decoded from JSON or YAML.

    Returns:
        A key of ``GROUPS``; None for other objects. If ``apiVersion`` is missing, only the kind
        counts.
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


logger = logging.getLogger(__name__)

#: Most unusable objects that ``warnings_of_rejected`` yields.
_MOST_REJECTED: Final = 100
INVALID: Final = "invalid"


class ObjectVersion(NamedTuple):
    """Identity and state of an object."""

    uid: str
    version: str


@dataclass(slots=True)
class _Entry:
    """An object in force; ``is_good``: without a safe default for a wrong annotation."""

    uid: str
    version: str
    parsed: object
    is_good: bool


class DialectInventory:
    """All objects of one dialect that are in force, and their sums.

    Arguments:
        state: the dialect: the kinds of its objects, and their sums.
        report: called with each unusable object.
        scope: which objects count.

    Attributes:
        warnings: the objects without effect.
        rejected: the present unusable objects, each with the reason.
    """

    def __init__(
        self,
        state: Dialect,
        report: Callable[[Rejection], None],
        scope: Scope,
    ) -> None:
        self.kinds = state.kinds
        self.state = state
        self.rejected: dict[ObjectKey, str] = {}
        self.warnings = ObjectWarnings(state.revision_kind)
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
        for key, reason in islice(self.rejected.items(), _MOST_REJECTED):
            text = f"{reason.removeprefix(f'{key}: ')}; {self.effect(key)}"
            yield ObjectWarning(*key, self._revisions[key], text, INVALID, self.state.revision_kind)

    def effect(self, key: ObjectKey) -> Effect:
        """Return what is in force of an invalid object."""
        entry = self._entries.get(key)
        if entry is None:
            return Effect.UNUSED
        return Effect.KEPT if entry.is_good else Effect.DEFAULTS

    def version_of(self, key: ObjectKey) -> ObjectVersion | None:
        """Return the version of an object in force; None if the object is not in force."""
        entry = self._entries.get(key)
        return None if entry is None else ObjectVersion(entry.uid, entry.version)

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
        known = self._entries.keys() | self.rejected.keys()
        for key in [key for key in known if key.kind == kind and key not in present]:
            self._delete(key)
        yield from self.state.publishing()

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
        except Exception as error:
            # A fault of this program must not stop the other objects.
            logger.exception("%s: unexpected error", key)
            entry, reason = None, f"{key}: unexpected error: {error!r}"
        if reason is not None:
            self._revisions[key] = revision_of(key, obj, self.state)
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
        self.warnings.put(key, revision_of(key, obj, self.state) if text else "", text)
        return _Entry(uid, version, parsed, reason is None), reason

    def _put(self, key: ObjectKey, entry: _Entry) -> None:
        old = self._entries.get(key)
        if old is not None and old.parsed == entry.parsed:
            # The equal object stays: a new one would be checked as possible garbage.
            old.uid, old.version, old.is_good = entry.uid, entry.version, entry.is_good
            return
        self.kinds[key.kind].put(self.state, key, old.parsed if old else None, entry.parsed)
        # Only after that: if the sink fails, the object must not look unchanged.
        self._entries[key] = entry
        self._counts[key.kind] += old is None

    def _delete(self, key: ObjectKey) -> None:
        self.warnings.remove(key)
        self._accept(key)
        entry = self._entries.get(key)
        if entry is not None:
            self.kinds[key.kind].put(self.state, key, entry.parsed, None)
            del self._entries[key]
            self._counts[key.kind] -= 1

    def _publish(self) -> None:
        """Pass on all changes, each revision at most once."""
        for _ in self.state.publishing():
            pass

    def _accept(self, key: ObjectKey) -> None:
        self.rejected.pop(key, None)
        self._revisions.pop(key, None)

    def _reject(self, key: ObjectKey, reason: str, effect: Effect) -> None:
        if self.rejected.get(key) != reason:
            if key.name != "?":
                self.rejected[key] = reason
            self._report(Rejection(*key, reason, effect))


def _by_kind(parts: Iterable[DialectInventory]) -> Mapping[str, Sequence[DialectInventory]]:
    found: dict[str, list[DialectInventory]] = {}
    for part in parts:
        for kind in part.kinds:
            found.setdefault(kind, []).append(part)
    return found


# Applies raw objects, in any order, to all dialects in use: each object to each that knows it.
#
# A dialect keeps its own last good state of an object. So an object that is broken for one
# dialect still counts for another.

_EVERYTHING: Final = Scope()


class Inventory:
    """All objects in force, and their sums for each revision.

    Arguments:
        sink: takes changes of revisions and their pods.
        system: takes changes of ConfigMaps, Secrets and trust bundles.
        report: called with each unusable object.
        scope: which objects count.
        dialects: the dialects in use. Kinds that configure the activator count with each.

    Attributes:
        dialects: their names.
    """

    def __init__(
        self,
        sink: Sink,
        system: SystemObjects,
        report: Callable[[Rejection], None] = log_rejection,
        scope: Scope = _EVERYTHING,
        dialects: Iterable[type[Dialect]] = (KnativeDialect,),
    ) -> None:
        self.scope = scope
        dialects = tuple(dialects)
        self.dialects = tuple(each.name for each in dialects)
        self._report = report
        # The rejections of the present call: two dialects may find the same fault.
        self._reported: set[Rejection] = set()
        self._parts = tuple(
            DialectInventory(each(sink, system, scope), self._report_once, scope)
            for each in (*dialects, SystemDialect)
        )
        self._by_kind = _by_kind(self._parts)

    def only(self, dialect: str) -> Inventory:
        """Return the part of one dialect: other dialects do not get the objects it gets.

        Arguments:
            dialect: its name; empty for all dialects together.
        """
        if not dialect:
            return self
        found = copy(self)
        found._parts = tuple(part for part in self._parts if part.state.name == dialect)
        found._by_kind = _by_kind(found._parts)
        return found

    # -- objects ------------------------------------------------------------------------------

    def apply(self, obj: object) -> str | None:
        """Apply an object that may be new, changed or unchanged.

        Arguments:
            obj: the object as decoded from JSON or YAML.

        Returns:
            What is wrong with the object, which is already reported; None for nothing.
        """
        kind = kind_of(obj)
        if kind is None or kind not in self._by_kind:
            return None
        self._reported.clear()
        found = [part.apply(kind, obj) for part in self._by_kind[kind]]
        return "; ".join(dict.fromkeys(reason for reason in found if reason)) or None

    def remove(self, kind: str, namespace: str, name: str, uid: str = "") -> None:
        """Remove a deleted object; an unknown one is no error.

        Arguments:
            kind: its kind.
            namespace: its namespace.
            name: its name.
            uid: the uid of the deleted object. If the known object has another uid, it is a new
                object with the same name, and the deletion is outdated.
        """
        for part in self._by_kind.get(kind, ()):
            part.remove(ObjectKey(kind, namespace, name), uid)

    def replacing(self, kind: str, objects: Iterable[object]) -> Iterator[None]:
        """Apply the complete list of a kind, in steps; remove the objects that are not in it.

        Other tasks may run between the steps. The sink gets the sum of the whole list, so an object
        in force before and after is never missing. A broken object in the list keeps its last good
        state. A list may have lower versions than the known ones: after a restore of etcd from a
        backup. client-go's Reflector accepts that as well.

        In each dialect, one step replaces all objects, so that a pod that moves between objects is
        never missing. Then each step passes one revision to the sink. If the caller stops before,
        nothing has changed. If it stops later, the next change passes the rest.

        Arguments:
            kind: the kind of all objects, which the items of a list do not have. No other caller
                may change objects of this kind meanwhile.
            objects: all objects of that kind.
        """
        listed = list(objects)
        self._reported.clear()
        for part in self._by_kind.get(kind, ()):
            yield from part.replacing(kind, listed)

    def settled(self, unread: Collection[str] = ()) -> None:
        """Record that all kinds have been read once: a missing object is not only late.

        Arguments:
            unread: the kinds that the cluster lacks, or that no role allows to read.
        """
        for part in self._parts:
            part.state.settled(unread)

    def _report_once(self, rejection: Rejection) -> None:
        if rejection not in self._reported:
            self._reported.add(rejection)
            self._report(rejection)

    # -- state --------------------------------------------------------------------------------

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of objects in force, by kind."""
        return {
            kind: max(part.counts[kind] for part in parts) for kind, parts in self._by_kind.items()
        }

    @property
    def rejected(self) -> Mapping[ObjectKey, str]:
        """The present unusable objects, each with the reason of each dialect."""
        found: dict[ObjectKey, str] = {}
        for part in self._parts:
            for key, reason in part.rejected.items():
                known = found.get(key, reason)
                found[key] = known if known == reason else f"{known}; {reason}"
        return found

    def status(self) -> dict[str, KindStatus]:
        """Return the numbers of each kind; the source adds the rest of the status."""
        rejected = Counter(key.kind for key in self.rejected)
        return {kind: KindStatus(n, rejected[kind]) for kind, n in self.counts.items()}

    @property
    def warnings(self) -> Iterator[ObjectWarning]:
        """The broken objects, the parts without effect, and the problems of several objects."""
        for part in self._parts:
            yield from part.warnings
            yield from part.warnings_of_rejected()
            yield from part.state.warnings()

    def missing_dialect(self, kind: str) -> str:
        """Return the dialect that reads a kind, if it is not in use; empty if the kind is read."""
        if kind in self._by_kind:
            return ""
        return next((name for name, each in DIALECTS.items() if kind in each.kinds), "")

    def problem(self, key: ObjectKey) -> str:
        """Return what is wrong with an object, and its state in force; empty if it is valid."""
        parts = [part for part in self._by_kind.get(key.kind, ()) if key in part.rejected]
        texts = (f"{part.rejected[key]}; {part.effect(key)}" for part in parts)
        return "; ".join(dict.fromkeys(texts))

    def version_of(self, key: ObjectKey) -> ObjectVersion | None:
        """Return the version of an object in force; None if the object is not in force."""
        versions = (part.version_of(key) for part in self._by_kind.get(key.kind, ()))
        return next((version for version in versions if version is not None), None)

    @property
    def in_force(self) -> list[ObjectKey]:
        """The keys of all objects in force."""
        return list(dict.fromkeys(key for part in self._parts for key in part.in_force))

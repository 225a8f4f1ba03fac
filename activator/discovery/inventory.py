"""Applies raw objects, in any order, to all dialects in use: each object to each that knows it.

A dialect keeps its own last good state of an object. So an object that is broken for one dialect
still counts for another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from activator.discovery.dialect import Dialect, Scope
from activator.discovery.dialect_inventory import DialectInventory, Version
from activator.discovery.kinds import kind_of
from activator.discovery.knative_kinds import KNATIVE
from activator.discovery.rejections import Rejection, Stats, log_rejection
from activator.discovery.sink import Sink, SystemSink
from activator.discovery.system_kinds import SYSTEM
from activator.objects.fields import ObjectKey
from activator.records.source_status import KindStatus, ObjectWarning

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
        system: SystemSink,
        report: Callable[[Rejection], None] = log_rejection,
        scope: Scope = _EVERYTHING,
        dialects: Iterable[Dialect] = (KNATIVE,),
    ) -> None:
        self.scope = scope
        dialects = tuple(dialects)
        self.dialects = tuple(each.name for each in dialects)
        self._report = report
        self._ignored = 0
        # The rejections of the present call: two dialects may find the same fault.
        self._reported: set[Rejection] = set()
        self._parts = tuple(
            DialectInventory(each, each.make_state(sink, system, scope), self._report_once, scope)
            for each in (*dialects, SYSTEM)
        )
        self._by_kind: dict[str, list[DialectInventory]] = {}
        for part in self._parts:
            for kind in part.kinds:
                self._by_kind.setdefault(kind, []).append(part)

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
            self._ignored += 1
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
        for part in self._by_kind[kind]:
            part.remove(ObjectKey(kind, namespace, name), uid)

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

        In each dialect, one step replaces all objects, so that a pod that moves between objects is
        never missing. Then each step passes one revision to the sink. If the caller stops before,
        nothing has changed. If it stops later, the next change passes the rest.

        Arguments:
            kind: as for ``replace``; no other caller may change objects of this kind meanwhile.
            objects: as for ``replace``.
        """
        listed = list(objects)
        self._reported.clear()
        for part in self._by_kind[kind]:
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
    def kinds(self) -> tuple[str, ...]:
        """All kinds that count, in a fixed order."""
        return tuple(self._by_kind)

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of objects in force, by kind."""
        return {
            kind: max(part.counts[kind] for part in parts) for kind, parts in self._by_kind.items()
        }

    @property
    def rejected(self) -> Mapping[str, int]:
        """The present number of unusable objects, by kind."""
        found = Counter(key.kind for key in self.stats.rejected)
        return {kind: found[kind] for kind in self._by_kind}

    @property
    def stats(self) -> Stats:
        """The counts of all dialects together."""
        every = [part.stats for part in self._parts]
        rejected: dict[ObjectKey, str] = {}
        for stats in every:
            for key, reason in stats.rejected.items():
                known = rejected.get(key, reason)
                rejected[key] = known if known == reason else f"{known}; {reason}"
        return Stats(
            sum(stats.rejections for stats in every),
            rejected,
            next((stats.last_rejection for stats in every if stats.last_rejection), ""),
            sum(stats.outdated for stats in every),
            self._ignored,
        )

    def status(self) -> dict[str, KindStatus]:
        """Return the numbers of each kind; the source adds the rest of the status."""
        rejected = self.rejected
        return {kind: KindStatus(n, rejected[kind]) for kind, n in self.counts.items()}

    @property
    def warnings(self) -> Iterator[ObjectWarning]:
        """The broken objects, the parts without effect, and the problems of several objects."""
        for part in self._parts:
            yield from part.warnings
            yield from part.warnings_of_rejected()
            yield from part.state.warnings()

    def problem(self, key: ObjectKey) -> str:
        """Return what is wrong with an object, and its state in force; empty if it is valid."""
        parts = [part for part in self._by_kind[key.kind] if key in part.stats.rejected]
        texts = (f"{part.stats.rejected[key]}; {part.effect(key)}" for part in parts)
        return "; ".join(dict.fromkeys(texts))

    def is_rejected(self, key: ObjectKey) -> bool:
        """Return whether an object is unusable at present, for any dialect."""
        return any(key in part.stats.rejected for part in self._by_kind[key.kind])

    def version_of(self, key: ObjectKey) -> Version | None:
        """Return the version of an object in force; None if the object is not in force."""
        versions = (part.version_of(key) for part in self._by_kind[key.kind])
        return next((version for version in versions if version is not None), None)

    @property
    def in_force(self) -> list[ObjectKey]:
        """The keys of all objects in force."""
        return list(dict.fromkeys(key for part in self._parts for key in part.in_force))

"""Compares a fresh list of one kind with the inventory, object by object, and counts differences.

Pure. Must not know the origin of a list, nor the consequences of a difference. Knative has no
counterpart: there only a restart finds a missed event (knative/serving #16679).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from activator.discovery.dialect_inventory import Version
from activator.discovery.inventory import Inventory
from activator.discovery.wire import ListedMetadata
from activator.objects.fields import ManifestError, ObjectKey, identify
from activator.records.source_status import MissedEvents


class Difference(NamedTuple):
    """The version in force, and the version in the list; None for a missing object."""

    known: Version | None
    listed: Version | None

    def __str__(self) -> str:
        if self.known is None:
            return "it is not known here"
        if self.listed is None:
            return "it is not in the cluster any more"
        if self.known.uid != self.listed.uid:
            return "another object has its name in the cluster"
        return f"known in version {self.known.version}, the cluster has {self.listed.version}"


class Comparison:
    """Compares one list with the inventory, one object after the other.

    Arguments:
        kind: of all objects.
        inventory: the objects in force.

    Attributes:
        differences: by object; complete after ``finish``.
    """

    def __init__(self, kind: str, inventory: Inventory) -> None:
        self.differences: dict[ObjectKey, Difference] = {}
        self._kind = kind
        self._inventory = inventory
        self._listed: set[ObjectKey] = set()

    def take(self, metadata: ListedMetadata) -> None:
        """Compare one object of the list; ignore an unusable one, which has no version in force."""
        try:
            named = {"name": metadata.name, "namespace": metadata.namespace}
            key = identify({"metadata": named}, self._kind)
        except ManifestError:
            return
        self._listed.add(key)
        if self._inventory.is_rejected(key):
            return
        known = self._inventory.version_of(key)
        listed = Version(metadata.uid or "", metadata.resourceVersion or "")
        if known != listed:
            self.differences[key] = Difference(known, listed)

    def finish(self) -> Iterator[None]:
        """Find the objects that are not in the list; other tasks may run between the steps."""
        for key in self._inventory.in_force:
            if key.kind == self._kind and key not in self._listed:
                self.differences[key] = Difference(self._inventory.version_of(key), None)
            yield


def persistent(
    first: Mapping[ObjectKey, Difference], second: Mapping[ObjectKey, Difference]
) -> dict[ObjectKey, Difference]:
    """Return the differences that no event in flight explains.

    Arguments:
        first, second: the differences of two lists, with enough time between them for events.

    Returns:
        The differences of the second list that the first one had too, without an event since.
    """
    return {
        key: found
        for key, found in second.items()
        if key in first and first[key].known == found.known
    }


@dataclass(slots=True)
class MissedEventCounters:
    """Counts the results of self-checks; MissedEvents describes the attributes."""

    checks: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    present: dict[str, int] = field(default_factory=dict)

    def record(self, kind: str, missed: int, left: int) -> None:
        """Record one check.

        Arguments:
            missed: number of objects that differed.
            left: number of them that still differ after the resync.
        """
        self.checks["drifted" if missed else "equal"] += 1
        self.found[kind] += missed
        self.present[kind] = left

    def snapshot(self) -> MissedEvents:
        """Return a copy."""
        return MissedEvents(dict(self.checks), dict(self.found), dict(self.present))

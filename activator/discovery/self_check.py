"""Compares the inventory with fresh lists at intervals, and lists a kind again if it differs.

A watch may miss an event without a sign, by a faulty proxy or cache in front of etcd. The stale
object would stay in force until the process ends. Decides when to compare and when to resync. Must
not know the meaning of objects. Knative has no counterpart.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from activator.discovery.backoff import Timings, Turns
from activator.discovery.inventory import Inventory, ObjectVersion
from activator.discovery.reflector import Reflector
from activator.discovery.wire import (
    ConnectionLostError,
    GarbledError,
    ListedMetadata,
    ServerResponseError,
    decode_listed,
    pages,
)
from activator.objects.fields import ManifestError, ObjectKey, identify
from activator.records.source_status import MissedEvents

if TYPE_CHECKING:
    from activator.discovery.api_server import ApiServer

# Compares a fresh list of one kind with the inventory, object by object, and counts differences.
#
# Knative has no counterpart: there only a restart finds a missed event (knative/serving #16679).


class Difference(NamedTuple):
    """The version in force, and the version in the list; None for a missing object."""

    known: ObjectVersion | None
    listed: ObjectVersion | None

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
        if self._inventory.problem(key):
            return
        known = self._inventory.version_of(key)
        listed = ObjectVersion(metadata.uid or "", metadata.resourceVersion or "")
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


logger = logging.getLogger(__name__)


# Random part of the time between checks, so that activators that start together list at different
# times.
_JITTER = 0.2

# Most objects of one kind that one check names in the log.
_NAMED = 20


class SelfCheck:
    """Checks all followed kinds, one after the other.

    Arguments:
        cluster: sends the requests.
        inventory: the objects in force.
        reflectors: by kind; may grow.
        timings: time-outs of a page, an event and a resync.
        interval: seconds between two checks; 0 for none.

    Attributes:
        counters: the results.
    """

    def __init__(
        self,
        cluster: ApiServer,
        inventory: Inventory,
        reflectors: Mapping[str, Reflector],
        timings: Timings,
        interval: float,
    ) -> None:
        self.counters = MissedEvents()
        self._cluster = cluster
        self._inventory = inventory
        self._reflectors = reflectors
        self._timings = timings
        self._interval = interval

    async def run(self) -> None:
        """Check at intervals until cancelled; no fault ends this."""
        while self._interval:
            await asyncio.sleep(self._interval * random.uniform(1 - _JITTER, 1 + _JITTER))
            await self.check()

    async def check(self) -> None:
        """Check each kind once, and resync the kinds that differ."""
        for reflector in list(self._reflectors.values()):
            try:
                await self._check(reflector)
            except (ConnectionLostError, ServerResponseError, GarbledError) as error:
                self.counters.checks["failed"] += 1
                self._log(logging.INFO, reflector, f"no list to compare with: {error}")
            except Exception:
                # A defect of this check must not end the watches.
                self.counters.checks["failed"] += 1
                logger.exception("self-check of %s: unexpected error", reflector.resource.path)

    async def _check(self, reflector: Reflector) -> None:
        kind, lists = reflector.resource.kind, reflector.counters.lists
        if not _follows(reflector):
            self.counters.checks["skipped"] += 1
            return
        missed: dict[ObjectKey, Difference] = {}
        if first := await self._compare(reflector):
            await asyncio.sleep(self._timings.in_flight)
            missed = persistent(first, await self._compare(reflector))
        if not _follows(reflector) or reflector.counters.lists != lists:
            # The watch has failed or listed since: the difference is logged or corrected.
            self.counters.checks["skipped"] += 1
            return
        if missed:
            for key, found in list(missed.items())[:_NAMED]:
                self._log(logging.WARNING, reflector, f"{key}: {found}")
            text = "objects differ from the cluster's: the watch missed events; listing again"
            self._log(logging.WARNING, reflector, f"{len(missed)} {text}")
            try:
                async with asyncio.timeout(self._timings.relist):
                    await reflector.relist()
            except TimeoutError:
                self._log(logging.WARNING, reflector, "the new list is not complete yet")
        inventory = self._inventory.only(reflector.resource.dialect)
        left = sum(inventory.version_of(key) == each.known for key, each in missed.items())
        self.counters.record(kind, len(missed), left)

    async def _compare(self, reflector: Reflector) -> dict[ObjectKey, Difference]:
        """Compare with a list from etcd: a cache may have lost the same event as its watch."""
        resource = reflector.resource
        comparison = Comparison(resource.kind, self._inventory.only(resource.dialect))
        turns = Turns()
        async for page in pages(self._cluster, resource, self._timings):
            for item in page.items or ():
                comparison.take(decode_listed(item))
                await turns.pause()
        for _ in comparison.finish():
            await turns.pause()
        return comparison.differences

    @staticmethod
    def _log(level: int, reflector: Reflector, text: str) -> None:
        resource = reflector.resource
        logger.log(
            level, "self-check of %s: %s", resource.path, text, extra={"resource": resource.kind}
        )


def _follows(reflector: Reflector) -> bool:
    """Return whether a watch works. The log and the age of a failing one show that it fails."""
    return reflector.synced.is_set() and not reflector.last_error

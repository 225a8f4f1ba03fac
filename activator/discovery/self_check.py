"""Compares the inventory with fresh lists at intervals, and lists a kind again if it differs.

A watch may miss an event without a sign, by a faulty proxy or cache in front of etcd. The stale
object would stay in force until the process ends. Decides when to compare and when to resync. Must
not know what objects mean.
Knative has no counterpart.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping

from activator.discovery.backoff import Timings
from activator.discovery.inventory import Inventory
from activator.discovery.listing import pages
from activator.discovery.missed_events import (
    Comparison,
    Difference,
    MissedEventCounters,
    persistent,
)
from activator.discovery.reflector import Reflector
from activator.discovery.wire import (
    Cluster,
    ConnectionLostError,
    GarbledError,
    ServerAnswerError,
    decode_listed,
)
from activator.objects.fields import ObjectKey

logger = logging.getLogger(__name__)

# The wait before each check is varied by up to this share, so that not all activators that were
# started together ask etcd together.
_JITTER = 0.2

# Objects that are named in the log, of one kind and one check; the rest is counted.
_NAMED = 20

# After this long in one go, other tasks get a turn: requests pass through the same loop.
_TURN_SECONDS = 0.002


class SelfCheck:
    """Checks all kinds that are followed, one after the other.

    Arguments:
        cluster: sends the requests.
        inventory: what is known.
        reflectors: what follows the kinds; may grow.
        timings: how long a page, an event, a list may take.
        interval: seconds between two checks; 0 for none.

    Attributes:
        counters: what was found.
    """

    def __init__(
        self,
        cluster: Cluster,
        inventory: Inventory,
        reflectors: Mapping[str, Reflector],
        timings: Timings,
        interval: float,
    ) -> None:
        self.counters = MissedEventCounters()
        self._cluster = cluster
        self._inventory = inventory
        self._reflectors = reflectors
        self._timings = timings
        self._interval = interval

    async def run(self) -> None:
        """Checks now and then until cancelled; no fault ends it."""
        while self._interval:
            await asyncio.sleep(self._interval * random.uniform(1 - _JITTER, 1 + _JITTER))
            await self.check()

    async def check(self) -> None:
        """Check everything once, and resync the kinds that differ."""
        for reflector in list(self._reflectors.values()):
            try:
                await self._check(reflector)
            except (ConnectionLostError, ServerAnswerError, GarbledError) as error:
                self.counters.checks["failed"] += 1
                self._log(logging.INFO, reflector, f"no list to compare with: {error}")
            except Exception:
                # A defect of ours in here must not end the watches beside it.
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
            # It failed or listed meanwhile: what differed was no secret, or is mended.
            self.counters.checks["skipped"] += 1
            return
        if missed:
            self._log_missed(reflector, missed)
            await self._resync(reflector)
        left = sum(self._inventory.version_of(key) == each.ours for key, each in missed.items())
        self.counters.record(kind, len(missed), left)

    async def _compare(self, reflector: Reflector) -> dict[ObjectKey, Difference]:
        """Lists a kind, from etcd: a cache might have lost what the watch that it feeds has."""
        comparison = Comparison(reflector.resource.kind, self._inventory)
        now = asyncio.get_running_loop().time
        turn = now()
        async for page in pages(self._cluster, reflector.resource, self._timings):
            for item in page.items or ():
                comparison.take(decode_listed(item))
                if now() - turn > _TURN_SECONDS:
                    await asyncio.sleep(0)
                    turn = now()
        turn = now()
        for _ in comparison.finish():
            if now() - turn > _TURN_SECONDS:
                await asyncio.sleep(0)
                turn = now()
        return comparison.differences

    async def _resync(self, reflector: Reflector) -> None:
        """Have the kind listed again, which puts the whole list in force, as at the start."""
        try:
            async with asyncio.timeout(self._timings.relist):
                await reflector.relist()
        except TimeoutError:
            self._log(logging.WARNING, reflector, "the new list has not come yet")

    def _log_missed(self, reflector: Reflector, missed: Mapping[ObjectKey, Difference]) -> None:
        for key, found in list(missed.items())[:_NAMED]:
            self._log(logging.WARNING, reflector, f"{key}: {found}")
        self._log(
            logging.WARNING,
            reflector,
            f"{len(missed)} objects differ from the cluster's: the watch missed events without a "
            f"sign; listing again",
        )

    @staticmethod
    def _log(level: int, reflector: Reflector, text: str) -> None:
        resource = reflector.resource
        logger.log(
            level, "self-check of %s: %s", resource.path, text, extra={"resource": resource.kind}
        )


def _follows(reflector: Reflector) -> bool:
    """Whether the watch is taken for a good one. One that fails says so itself, and its age."""
    return reflector.synced.is_set() and not reflector.last_error

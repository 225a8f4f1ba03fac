"""Keeps the inventory equal to one kind of objects in a cluster: it lists, then watches.

Decides whether a stream is valid, when to list again and how long to wait. It must not know how to
send or authenticate requests, nor the meaning of objects. There are three rules:

- The state in force stays until a complete list replaces it.
- An invalid response never counts as an empty list.
- After a fault that may hide a change, the watch starts again from the last good version.

Counterpart: client-go's tools/cache/reflector.go; most constants are the same.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

from activator.discovery.backoff import Pause, Pauses, Timings, Turns
from activator.discovery.wire import (
    ConnectionLostError,
    GarbledError,
    LineSplitter,
    Page,
    ServerResponseError,
    WatchedResource,
    check,
    decode_event,
    decode_object,
    not_newer,
    pack,
    pages,
    status_error,
    unpacked,
)
from activator.records.source_status import WatchCounters

if TYPE_CHECKING:
    from activator.discovery.api_server import AiohttpResponse, ApiServer


logger = logging.getLogger(__name__)


# By default, an object in etcd has at most 1.5 MiB. The largest known line has 25,000 addresses in
# 4 MiB. A longer line is no event.
MAX_LINE_BYTES = 64 * 2**20


# Statuses for a resource that no role allows to read, or that the server does not have.
_MISSING = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)

# Statuses that a list would get as well, so that the version of the watch is not the cause.
_NOT_ABOUT_THE_VERSION = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.TOO_MANY_REQUESTS,
    502,
    503,
)


class ReflectedObjects(Protocol):
    """The objects in force, which a reflector keeps equal to a cluster (inventory.Inventory)."""

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of objects in force, by kind."""

    def apply(self, obj: object) -> object:
        """Apply an object that may be new, changed or unchanged."""

    def remove(self, kind: str, namespace: str, name: str, uid: str = "") -> None:
        """Remove a deleted object; an unknown one is no error."""

    def replacing(self, kind: str, objects: Iterable[object]) -> Iterator[None]:
        """Apply a complete list, in steps; other tasks may run between the steps."""


#: Consecutive failures of a watch, without an event, after which its version may be the cause.
RELIST_AFTER_FAILURES: Final = 5


#: Seconds between two warnings about the same failure.
_SAME_WARNING_SECONDS: Final = 10.0


class Versions:
    """The versions that a reflector has seen.

    Attributes:
        of_watch: the version from which the next watch starts; empty if a list must come first.
        of_list: the oldest accepted version of the next list. "0" accepts the server's cache, and
            an empty one lists from etcd.
    """

    def __init__(self) -> None:
        self.of_watch = ""
        self.of_list = "0"

    def reached(self, version: str) -> None:
        """Record that the state in force has this version."""
        self.of_watch = self.of_list = version

    def discard(self) -> None:
        """Start again with a list from etcd."""
        self.of_watch = self.of_list = ""

    def list_next(self) -> None:
        """Start again with a list that is at least as new as the state in force."""
        self.of_watch = ""

    def expired(self) -> None:
        """Record that the server has removed a version: that of the watch, or that of the list.

        The version of a list includes the token for its next page.
        """
        if not self.of_watch:
            self.of_list = ""
        self.of_watch = ""

    def check_age(self, version: str) -> None:
        """Compare the version of a list with the oldest accepted one.

        A stale cache must not undo changes. The caller lists again from etcd, and accepts that list
        even if it is older: then etcd was restored from a backup.

        Raises:
            ConnectionLostError: the list is older.
        """
        oldest = self.of_list
        if version != oldest and not_newer(version, oldest):
            self.of_list = ""
            raise ConnectionLostError(f"the list has version {version}, expected {oldest} or newer")


class WatchFailures:
    """The failures since the last valid response.

    Attributes:
        in_a_row: their number.
        last_error: the reason of the last one; empty after a valid response.
    """

    def __init__(self) -> None:
        self.in_a_row = 0
        self.last_error = ""
        self._suspicions = 0
        self._warned_at = float("-inf")

    def add(self, reason: str, now: float, *, suspect: bool) -> int:
        """Record a failure.

        Arguments:
            now: seconds, monotonic.
            suspect: whether the version of the watch may be the cause.

        Returns:
            Its log level: short pauses must not fill the log.
        """
        self.in_a_row += 1
        self._suspicions += suspect
        before, self.last_error = self.last_error, reason
        if reason == before and now - self._warned_at < _SAME_WARNING_SECONDS:
            return logging.DEBUG
        # The first failure in a row is usually a restart of the server.
        if self.in_a_row == 1:
            return logging.INFO
        self._warned_at = now
        return logging.WARNING

    def clear(self) -> None:
        """Record a valid response."""
        self.in_a_row = self._suspicions = 0
        self.last_error = ""

    @property
    def make_suspect(self) -> bool:
        """Whether so many failures suggest that the version of the watch is the cause."""
        return self._suspicions >= RELIST_AFTER_FAILURES


class Reflector:
    """Follows one resource.

    Arguments:
        resource: the kind of objects.
        cluster: sends the requests.
        inventory: takes the objects.
        timings: all times.
        requests_wait: returns whether any request waits for a pod.
        trim: removes the fields of a listed object that no reader needs; it may change the object.
            If it is given, the objects wait as text until the list is complete, which takes a
            fraction of the memory.

    Attributes:
        synced: set when the resource has been listed once.
        settled: set when the resource has been listed once, or is optional and not readable.
        is_following: whether a watch is open.
        is_forbidden: whether no role allows to read the resource.
        pauses: the pauses between attempts.
    """

    def __init__(
        self,
        resource: WatchedResource,
        cluster: ApiServer,
        inventory: ReflectedObjects,
        timings: Timings,
        requests_wait: Callable[[], bool] = lambda: False,
        trim: Callable[[dict[str, object]], dict[str, object]] | None = None,
    ) -> None:
        self.resource = resource
        self.counters = WatchCounters()
        self.synced = asyncio.Event()
        self.settled = asyncio.Event()
        self.is_following = False
        self.is_forbidden = False
        self.last_sign_of_life = asyncio.get_running_loop().time()
        self._cluster = cluster
        self._inventory = inventory
        self._timings = timings
        self.pauses = Pauses(timings, requests_wait)
        self._versions = Versions()
        self._failures = WatchFailures()
        self._watching: asyncio.Timeout | None = None
        self._trim = trim
        # Whether to discard both versions before the next attempt; set when the list is in force.
        self._relist = False
        self._relisted = asyncio.Event()

    async def run(self) -> None:
        """Follow the resource until cancelled. No fault of the server ends this."""
        while True:
            await self.pauses.wait(await self._attempt())

    @property
    def last_error(self) -> str:
        """The reason of the last failure; empty after a valid response."""
        return self._failures.last_error

    async def relist(self) -> None:
        """List again, from etcd, and watch from there; the state in force stays until then.

        Returns when the list is in force, without a time-out; ``run`` must be in progress.
        """
        self._relisted.clear()
        self._relist = True
        if self._watching is not None:
            self._watching.reschedule(self._now())
        await self._relisted.wait()

    async def _attempt(self) -> Pause:
        """List if needed, and watch until the stream ends. Return the pause after that."""
        if self._relist:
            self._relist = False
            self._versions.discard()
        try:
            if not self._versions.of_watch:
                await self._list()
            ended_early = await self._watch()
        except ServerResponseError as error:
            return self._refused(error)
        except ConnectionLostError as error:
            return self._failed(str(error))
        except GarbledError as error:
            return self._failed(str(error), suspect=True)
        except Exception as error:
            # A defect of this program must not stop a whole resource: begin again with a list.
            logger.exception("watch of %s: unexpected error", self.resource.path)
            self._versions.list_next()
            return self._failed(repr(error))
        if ended_early:
            return self._failed("the server ended the watch at once", suspect=True)
        self._well()
        return Pause(0.0)

    def _refused(self, error: ServerResponseError) -> Pause:
        self.is_forbidden = error.status == HTTPStatus.FORBIDDEN
        if error.status == HTTPStatus.GONE:
            return Pause(self._expired(str(error)))
        if error.status == HTTPStatus.UNAUTHORIZED:
            self._cluster.renew_credentials()
        if not self._versions.of_watch and error.status == HTTPStatus.GATEWAY_TIMEOUT:
            # The server's cache may be older than the last known version.
            self._versions.discard()
        may_lack = self.resource.optional or self.resource.may_lack
        if may_lack and error.status in _MISSING and not self.synced.is_set():
            return Pause(self._missing(error), self._timings.missing)
        requested = min(error.retry_after, self._timings.retry_after_limit)
        suspect = error.status not in _NOT_ABOUT_THE_VERSION
        pause = self._failed(f"{error}{self.resource.advice(error.status)}", suspect=suspect)
        return Pause(max(pause.seconds, requested), requested)

    def _missing(self, error: ServerResponseError) -> float:
        """Record that an optional resource is missing: log that once, and pause for long."""
        self.counters.failures += 1
        if self.last_error != str(error) and not self.resource.quiet:
            is_fault = error.status == HTTPStatus.FORBIDDEN
            logger.log(
                logging.WARNING if is_fault else logging.INFO,
                "%s are not read%s: %s%s; next attempt every %.0f s",
                self.resource.path,
                "" if is_fault else ", which is no fault",
                str(error).strip(),
                self.resource.advice(error.status),
                self._timings.missing,
                extra={"resource": self.resource.kind},
            )
        self._failures.last_error = str(error)
        self.settled.set()
        return self._timings.missing

    def _expired(self, reason: str) -> float:
        """Record that the server has removed the version. The state stays until the next list."""
        logger.info("watch of %s: %s; listing again", self.resource.path, reason)
        self._versions.expired()
        return self.pauses.after_failure(first_is_free=True)

    def _failed(self, reason: str, *, suspect: bool = False) -> Pause:
        """Record a failure. ``suspect``: the version of the watch may be the cause."""
        self.counters.failures += 1
        level = self._failures.add(reason, self._now(), suspect=suspect)
        if self.resource.optional:
            self.settled.set()
        if self._failures.make_suspect:
            self._versions.list_next()
        pause = self.pauses.after_failure()
        logger.log(
            level,
            "watch of %s: %s; next attempt in %.1f s, the last state stays in force",
            self.resource.path,
            reason,
            pause,
            extra={"resource": self.resource.kind, "failures_in_a_row": self._failures.in_a_row},
        )
        return Pause(pause)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _alive(self) -> None:
        self.last_sign_of_life = self._now()

    def _well(self) -> None:
        """Record a valid response."""
        self._failures.clear()
        self.is_forbidden = False

    # --- list ---------------------------------------------------------------------------------

    async def _list(self) -> None:
        """List all pages, and put them in force after the last one. Raises for an invalid page."""
        self.counters.lists += 1
        objects: list[object] = []
        oldest = self._versions.of_list
        version = ""
        async for page in pages(self._cluster, self.resource, self._timings, oldest):
            if oldest and not version:
                self._versions.check_age(page.metadata.resourceVersion)
            await self._decode_items(page, objects)
            version = page.metadata.resourceVersion
        await self._put_in_force(objects)
        self._versions.reached(version)
        self._alive()
        self._well()
        self.synced.set()
        self.settled.set()
        self._relisted.set()

    async def _put_in_force(self, objects: list[object]) -> None:
        known = self._inventory.counts[self.resource.kind]
        if not objects and known:
            logger.warning(
                "the list of %s is empty, %d objects were known: all of them are removed. If the "
                "cluster has such objects, check its RBAC rules and etcd",
                self.resource.path,
                known,
            )
        turns = Turns()
        listed = objects if self._trim is None else unpacked(objects)
        for _ in self._inventory.replacing(self.resource.kind, listed):
            await turns.pause()

    async def _decode_items(self, page: Page, into: list[object]) -> None:
        turns = Turns()
        for item in page.items or ():
            obj = decode_object(item)
            into.append(obj if self._trim is None else pack(self._trim(obj)))
            await turns.pause()

    # --- watch --------------------------------------------------------------------------------

    async def _watch(self) -> bool:
        """Watch from the last known version until the stream ends.

        Returns:
            Whether the stream was so short that there must be a pause before the next one.
        """
        try:
            async with asyncio.timeout(None) as self._watching:
                return await self._stream()
        except TimeoutError:  # from relist; other time-outs are ConnectionLostError here
            return False
        finally:
            self._watching = None

    async def _stream(self) -> bool:
        begun = self._now()
        async with self._cluster.get(
            self.resource.path, self._watch_params(), self._timings.inactivity
        ) as response:
            await check(response)
            self._alive()
            self.is_following = True
            try:
                await self._follow(response)
            except ConnectionLostError as error:
                if self._is_brief(begun):
                    raise
                logger.info("watch of %s: %s; watching again", self.resource.path, error)
            finally:
                self.is_following = False
        return self._is_brief(begun)

    def _is_brief(self, begun: float) -> bool:
        return self._now() - begun < self._timings.watch_brief

    def _watch_params(self) -> dict[str, str]:
        seconds = random.uniform(self._timings.watch_least, self._timings.watch_most)
        return {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._versions.of_watch,
            "timeoutSeconds": str(max(1, round(seconds))),
            **self.resource.selector,
        }

    async def _follow(self, response: AiohttpResponse) -> None:
        lines = LineSplitter()
        async for chunk in response.chunks():
            self._alive()
            turns = Turns()
            for line in lines.feed(chunk):
                self._take(line)
                await turns.pause()
            if lines.held > MAX_LINE_BYTES:
                raise GarbledError(f"a line of more than {MAX_LINE_BYTES} bytes")
        # If the last line is incomplete, the next watch starts before its event.

    def _take(self, line: bytes) -> None:
        """Apply one event. Raises an error that must end the stream."""
        event_type, obj = decode_event(line)
        if event_type == "ERROR":
            raise status_error(obj)
        metadata = obj.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if not isinstance(metadata, dict) or not isinstance(version, str) or not version:
            raise GarbledError("an event whose object has no resourceVersion")
        self._carry_out(event_type, obj, metadata)
        self._versions.reached(version)
        self._well()

    def _carry_out(
        self, event_type: str, obj: dict[str, object], metadata: Mapping[str, object]
    ) -> None:
        kind = self.resource.kind
        if event_type in ("ADDED", "MODIFIED"):
            self._inventory.apply({**obj, "kind": kind})
        elif event_type == "DELETED":
            namespace, name, uid = (metadata.get(key) for key in ("namespace", "name", "uid"))
            if not isinstance(namespace, str) or not isinstance(name, str):
                raise GarbledError("an event of a deleted object without a name")
            self._inventory.remove(kind, namespace, name, uid if isinstance(uid, str) else "")
        elif event_type != "BOOKMARK":
            raise GarbledError(f"an event of unknown type {event_type[:60]!a}")

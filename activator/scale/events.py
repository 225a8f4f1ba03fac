"""Writes Events about what is wrong with a Service; ``kubectl describe service`` shows them.

A Service that scales as it should has none. No failure harms anything else. Source:
events.k8s.io/v1 Event in the Kubernetes API reference; client-go's tools/events for names and
series.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final, NamedTuple, final

from activator.discovery.api_server import JSON, MERGE_PATCH, ApiRequest, ApiServer, Meaning
from activator.scale import reasons
from activator.scale.cluster.api import KeyedWriter, Start, micro_time
from activator.scale.decisions.record import Decided
from activator.scale.part import Part, PartContext
from activator.scale.reasons import Finding, ScaleReason
from activator.scale.reports.load import ServiceName

logger = logging.getLogger(__name__)

CONTROLLER: Final = "activator.dev/scale"
#: Bytes of ``note`` that the API server takes.
MOST_NOTE: Final = 1024
#: Seconds until an Event about the same thing is repeated.
REPEAT: Final = 600.0
#: Events of one Service: at once, and seconds for each further one.
BURST: Final = 10
REFILL: Final = 60.0

_COLLECTION: Final = "/apis/events.k8s.io/v1/namespaces/{}/events"
_MOST_INSTANCE: Final = 128
_NAME: Final = 200

#: Events that wait to be written; more are dropped.
MOST_WAITING: Final = 1000
#: Requests at a time.
MOST_REQUESTS: Final = 4
#: Seconds between two looks for Events to repeat.
LOOK: Final = 60.0
_RULE: Final = '{apiGroups: ["events.k8s.io"], resources: ["events"], verbs: ["create", "patch"]}'


class Subject(NamedTuple):
    """The Service that an Event is about."""

    namespace: str
    name: str
    uid: str


class EventWrite(NamedTuple):
    """A request that writes an Event; ``name`` is the Event's."""

    request: ApiRequest
    name: str
    subject: Subject
    reason: str


@dataclass(slots=True)
class _Written:
    """The last Event of one reason."""

    notice: Finding
    name: str
    at: float
    count: int = 1
    is_present: bool = True


@dataclass(slots=True)
class _Page:
    """The Events of one Service, and how many more it may have."""

    subject: Subject
    at: float
    tokens: float = BURST
    written: dict[str, _Written] = field(default_factory=dict)

    def take(self, now: float) -> bool:
        """Return whether one more Event may be written."""
        self.tokens = min(self.tokens + (now - self.at) / REFILL, BURST)
        self.at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


@final
class EventBook:
    """The Events of all Services.

    Arguments:
        instance: the name of this pod.
    """

    def __init__(self, instance: str) -> None:
        self._instance = instance[:_MOST_INSTANCE] or "unknown"
        self._pages: dict[tuple[str, str], _Page] = {}
        self._numbers = count(1)

    def report(
        self, subject: Subject, notices: Iterable[Finding], now: float, wall: datetime
    ) -> list[EventWrite]:
        """Return the Events to write for all present notices of a Service.

        Arguments:
            notices: all that are present; a reason that is missing has ended.
            now: seconds, monotonic.
            wall: the time of day.
        """
        page = self._pages.get(subject[:2])
        present = _by_reason(notices)
        if page is None or page.subject != subject:
            if not present:
                self.remove(subject[:2])
                return []
            page = self._pages[subject[:2]] = _Page(subject, now)
        for reason, written in page.written.items():
            written.is_present = reason in present
        writes = (self._write(page, each, now, wall) for each in present.values())
        return [write for write in writes if write is not None]

    def repeats(self, now: float, wall: datetime) -> list[EventWrite]:
        """Return the Events to repeat; call it every minute or so."""
        writes: list[EventWrite] = []
        for service, page in list(self._pages.items()):
            present = [each.notice for each in page.written.values() if each.is_present]
            if present:
                writes += self.report(page.subject, present, now, wall)
            elif all(now - each.at >= REPEAT for each in page.written.values()):
                del self._pages[service]
        return writes

    def lost(self, write: EventWrite, *, again: bool) -> None:
        """Record that an Event was not written, or does not exist any more.

        Arguments:
            again: whether to write it with the next repeats.
        """
        page = self._pages.get(write.subject[:2])
        if page is None or page.subject != write.subject:
            return
        if (written := page.written.get(write.reason)) is not None:
            written.name = ""
            if again:
                written.at = float("-inf")

    def remove(self, service: tuple[str, str]) -> None:
        """Remove a deleted Service; Kubernetes deletes its Events with time."""
        self._pages.pop(service, None)

    def clear(self) -> None:
        """Remove all Services."""
        self._pages.clear()

    def __len__(self) -> int:
        """Return how many Services have Events, or had some within ``REPEAT`` seconds."""
        return len(self._pages)

    def _write(self, page: _Page, notice: Finding, now: float, wall: datetime) -> EventWrite | None:
        subject = page.subject
        before = page.written.get(notice.reason)
        if before is not None and before.notice == notice and now - before.at < REPEAT:
            return None
        if not page.take(now):
            return None
        path = _COLLECTION.format(subject.namespace)
        if before is not None and before.notice == notice and before.name:
            before.at, before.count = now, before.count + 1
            series = {"count": before.count, "lastObservedTime": micro_time(wall)}
            body: Mapping[str, Any] = {"series": series}
            method, name, content_type = "PATCH", before.name, MERGE_PATCH
            path = f"{path}/{name}"
        else:
            nanoseconds = int(wall.timestamp() * 1e6) * 1000 + next(self._numbers) % 1000
            name = f"{subject.name[:_NAME]}.{nanoseconds:x}"
            page.written[notice.reason] = _Written(notice, name, now)
            body, content_type = self._event(subject, notice, name, wall), JSON
            method = "POST"
        request = ApiRequest(method, path, json.dumps(body).encode(), content_type)
        return EventWrite(request, name, subject, notice.reason)

    def _event(
        self, subject: Subject, notice: Finding, name: str, wall: datetime
    ) -> Mapping[str, Any]:
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": subject.namespace},
            "eventTime": micro_time(wall),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "action": "Scale",
            "reason": notice.reason,
            "type": "Warning",
            "regarding": {"apiVersion": "v1", "kind": "Service", **subject._asdict()},
            "note": shortened(notice.note),
        }


def _by_reason(notices: Iterable[Finding]) -> Mapping[str, Finding]:
    """Return one notice for each reason; it has the notes of all with that reason."""
    found: dict[str, Finding] = {}
    for notice in notices:
        known = found.get(notice.reason)
        note = notice.note if known is None else f"{known.note}; {notice.note}"
        found[notice.reason] = notice._replace(note=note)
    return found


def shortened(note: str) -> str:
    """Return a note within the API server's limit, which counts bytes."""
    data = note.encode()
    if len(data) <= MOST_NOTE:
        return note
    return data[: MOST_NOTE - 3].decode(errors="ignore") + "..."


@final
class EventsPart(Part):
    """Writes Events on Services: what a user must know, and cannot see elsewhere.

    Arguments:
        api: sends the requests.
        start: starts a coroutine as a task.
        instance: the name of this pod.

    Attributes:
        failed: how many requests have failed.
    """

    def __init__(self, api: ApiServer, start: Start, instance: str) -> None:
        self._api = api
        self._clock = asyncio.get_running_loop().time
        self._book = EventBook(instance)
        self._writer = KeyedWriter[tuple[str, str], EventWrite](
            start, self._carry_out, MOST_REQUESTS
        )
        self._timer: asyncio.TimerHandle | None = None
        self.failed = 0

    def carry_out(self, name: ServiceName, decided: Decided, now: float) -> None:
        self.report(Subject(*name, decided.facts.service.uid), _notices(decided))

    def report(self, subject: Subject, notices: Iterable[Finding]) -> None:
        """Write what is new about a Service.

        Arguments:
            notices: all that are present; a reason that is missing has ended.
        """
        self._add(self._book.report(subject, notices, self._clock(), datetime.now(UTC)))
        if self._timer is None and len(self._book):
            self._set_timer()

    def leave(self, name: ServiceName, now: float) -> None:
        self._book.remove(name)

    def stop(self, now: float) -> None:
        """Repeat nothing more, and write nothing that still waits: the next leader reports."""
        self._book.clear()
        self._writer.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK, self._repeat)

    def _repeat(self) -> None:
        self._set_timer()
        self._add(self._book.repeats(self._clock(), datetime.now(UTC)))

    def _add(self, writes: list[EventWrite]) -> None:
        for write in writes:
            if self._writer.waiting < MOST_WAITING:
                self._writer.put((write.subject.namespace, write.name), write)
            else:
                self._book.lost(write, again=True)

    async def _carry_out(self, _: tuple[str, str], write: EventWrite) -> None:
        response = await self._api.send(*write.request)
        if response.is_ok:
            return
        text = response.problem
        if response.meaning is Meaning.FORBIDDEN:
            text = f"{text}; the scaler's ClusterRole must have {_RULE}"
        # An Event that has expired is gone; the next one is new.
        again = response.meaning not in (Meaning.FORBIDDEN, Meaning.REFUSED)
        self._book.lost(write, again=again)
        self.failed += 1
        level = logging.WARNING if self.failed == 1 else logging.DEBUG
        logger.log(
            level,
            "Service %s/%s: the Event %s could not be written: %s",
            *(write.subject.namespace, write.subject.name, write.reason, text),
        )


def make(context: PartContext) -> EventsPart:
    """Return the part that writes Events."""
    return EventsPart(context.api, context.start, context.settings.pod_name)


def _notices(decided: Decided) -> Sequence[Finding]:
    """Return what a user must know of a Service."""
    facts = decided.facts
    found = [
        each
        for each in (*facts.findings, *facts.warnings)
        # Each Service would have the same Event.
        if each.reason is not ScaleReason.NO_ACTIVATORS
    ]
    # A finding has its own note on two owners, unless the other one is a Service.
    is_new = decided.reason not in {each.reason for each in found}
    if decided.reason in reasons.LASTING and is_new:
        note = reasons.text(decided.reason, decided.detail)
        found.append(Finding(ScaleReason(decided.reason), note))
    return found

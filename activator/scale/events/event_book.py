"""Decides which Events to write about a Service, and when to repeat one.

Pure. Source: events.k8s.io/v1 Event in the Kubernetes API reference; client-go's tools/events for
names and series.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import count
from typing import Any, Final, NamedTuple, final

from activator.scale.cluster.api import MERGE_PATCH
from activator.scale.cluster.micro_time import micro_time

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


class Subject(NamedTuple):
    """The Service that an Event is about."""

    namespace: str
    name: str
    uid: str


class Notice(NamedTuple):
    """One thing that a user must know.

    Attributes:
        reason: a word.
        note: for people.
    """

    reason: str
    note: str
    is_warning: bool = True


class EventWrite(NamedTuple):
    """A request that writes an Event; the first four are the arguments of ``Api.send``."""

    method: str
    path: str
    body: bytes
    content_type: str
    subject: Subject
    reason: str


class _Written:
    """The last Event of one reason."""

    __slots__ = ("at", "count", "is_present", "name", "notice")

    def __init__(self, notice: Notice, name: str, at: float) -> None:
        self.notice = notice
        self.name = name
        self.at = at
        self.count = 1
        self.is_present = True


class _Page:
    """The Events of one Service, and how many more it may have."""

    __slots__ = ("at", "tokens", "written")

    def __init__(self, now: float) -> None:
        self.tokens = float(BURST)
        self.at = now
        self.written: dict[str, _Written] = {}

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
        self._pages: dict[Subject, _Page] = {}
        self._numbers = count(1)

    def report(
        self, subject: Subject, notices: Iterable[Notice], now: float, wall: datetime
    ) -> list[EventWrite]:
        """Return the Events to write for all present notices of a Service.

        Arguments:
            notices: all that are present; a reason that is missing has ended.
            now: seconds, monotonic.
            wall: the time of day.
        """
        page = self._pages.get(subject)
        present = _by_reason(notices)
        if page is None:
            if not present:
                return []
            page = self._pages[subject] = _Page(now)
        for reason, written in page.written.items():
            written.is_present = reason in present
        writes = (self._write(subject, page, each, now, wall) for each in present.values())
        return [write for write in writes if write is not None]

    def repeats(self, now: float, wall: datetime) -> list[EventWrite]:
        """Return the Events to repeat; call it every minute or so."""
        writes: list[EventWrite] = []
        for subject, page in list(self._pages.items()):
            present = [each.notice for each in page.written.values() if each.is_present]
            if present:
                writes += self.report(subject, present, now, wall)
            elif all(now - each.at >= REPEAT for each in page.written.values()):
                del self._pages[subject]
        return writes

    def lost(self, write: EventWrite, *, again: bool) -> None:
        """Record that an Event was not written, or does not exist any more.

        Arguments:
            again: whether to write it with the next repeats.
        """
        page = self._pages.get(write.subject)
        written = page.written.get(write.reason) if page is not None else None
        if written is not None:
            written.name = ""
            if again:
                written.at = float("-inf")

    def remove(self, subject: Subject) -> None:
        """Remove a deleted Service."""
        self._pages.pop(subject, None)

    def _write(
        self, subject: Subject, page: _Page, notice: Notice, now: float, wall: datetime
    ) -> EventWrite | None:
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
            method, path, content_type = "PATCH", f"{path}/{before.name}", MERGE_PATCH
        else:
            nanoseconds = int(wall.timestamp() * 1e6) * 1000 + next(self._numbers) % 1000
            name = f"{subject.name[:_NAME]}.{nanoseconds:x}"
            page.written[notice.reason] = _Written(notice, name, now)
            body, content_type = self._event(subject, notice, name, wall), "application/json"
            method = "POST"
        return EventWrite(
            method, path, json.dumps(body).encode(), content_type, subject, notice.reason
        )

    def _event(
        self, subject: Subject, notice: Notice, name: str, wall: datetime
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
            "type": "Warning" if notice.is_warning else "Normal",
            "regarding": {
                "apiVersion": "v1",
                "kind": "Service",
                "namespace": subject.namespace,
                "name": subject.name,
                "uid": subject.uid,
            },
            "note": shortened(notice.note),
        }


def _by_reason(notices: Iterable[Notice]) -> Mapping[str, Notice]:
    """Return one notice for each reason; it has the notes of all with that reason."""
    found: dict[str, Notice] = {}
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

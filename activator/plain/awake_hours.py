"""The hours in which a workload stays awake, as in ``Mon-Fri 08:00-18:00 Europe/Berlin``. Pure.

The times are of the clock on the wall: a span that begins at 08:00 does so in summer and in winter.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MOST_SPANS: Final = 16

_DAY: Final = "|".join(DAYS)
_TIME: Final = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
#: One span; the time zone is a name of the IANA database. Without one it is UTC.
SPAN: Final = (
    rf"(?:{_DAY})(?:-(?:{_DAY}))?(?:,(?:{_DAY})(?:-(?:{_DAY}))?)* +"
    rf"{_TIME}-(?:{_TIME}|24:00)(?: +[A-Za-z][A-Za-z0-9+_-]*(?:/[A-Za-z0-9+_-]+)*)?"
)
_MIDNIGHT: Final = time()


class Span(NamedTuple):
    """The same hours on some days of the week.

    Attributes:
        days: 0 is Monday.
        begin, end: local times. An end that is not after the begin is on the next day.
    """

    days: frozenset[int]
    begin: time
    end: time
    zone: ZoneInfo

    def around(self, now: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Yield when it begins and ends in UTC, from yesterday to a week from ``now``."""
        today = now.astimezone(self.zone).date()
        for day in (today + timedelta(days) for days in range(-1, 8)):
            if day.weekday() in self.days:
                last = day if self.begin < self.end else day + timedelta(1)
                yield self._utc(day, self.begin), self._utc(last, self.end)

    def _utc(self, day: date, at: time) -> datetime:
        return datetime.combine(day, at, self.zone).astimezone(UTC)


class AwakeHours(NamedTuple):
    """Spans that add up; none of them is never."""

    spans: tuple[Span, ...] = ()

    def at(self, now: datetime) -> tuple[bool, float]:
        """Return whether the workload stays awake, and in how many seconds that may change.

        Arguments:
            now: with a time zone.
        """
        times = [each for span in self.spans for each in span.around(now)]
        changes = [at for both in times for at in both if at > now]
        seconds = (min(changes) - now).total_seconds() if changes else float("inf")
        return any(begin <= now < end for begin, end in times), seconds


#: No hours.
NEVER: Final = AwakeHours()


def parse(text: str) -> AwakeHours:
    """Return the hours that a text describes.

    Arguments:
        text: spans, each of the pattern ``SPAN``, separated by semicolons.

    Raises:
        ValueError: a time zone is unknown; the text is for people.
    """
    parts = [part for part in map(str.strip, text.split(";")) if part]
    return AwakeHours(tuple(map(_span, parts)))


def _span(text: str) -> Span:
    days, hours, *zone = text.split()
    begin, _, end = hours.partition("-")
    try:
        known = ZoneInfo(zone[0] if zone else "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {zone[0]!r}") from None
    last = _MIDNIGHT if end == "24:00" else time.fromisoformat(end)
    return Span(frozenset(_days(days)), time.fromisoformat(begin), last, known)


def _days(text: str) -> Iterator[int]:
    """Yield the days of a list; ``Fri-Mon`` passes the end of the week."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin = DAYS.index(first)
        length = (DAYS.index(last or first) - begin) % 7
        yield from ((begin + number) % 7 for number in range(length + 1))

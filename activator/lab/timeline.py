"""The timeline of one scenario: each event with its time and actor, and each check with its result.

Times are arguments, in seconds of any clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple


class Who(Enum):
    """The actor of an entry."""

    FAULT = "fault"
    POD = "pod"
    KUBERNETES = "kubernetes"
    ACTIVATOR = "activator"
    SCALER = "scaler"
    CLIENT = "client"
    #: An expectation of the script, with its result.
    CHECK = "check"


class TimelineEntry(NamedTuple):
    """One event or check.

    Attributes:
        at: seconds since the scenario began.
        passed: whether a check passed; None for an event.
    """

    at: float
    who: Who
    what: str
    passed: bool | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object that docs/how-to/lab.md describes."""
        found: dict[str, Any] = {"at": round(self.at, 3), "who": self.who.value, "what": self.what}
        if self.passed is not None:
            found["passed"] = self.passed
        return found


#: Seconds within which equal texts of the activator count as repetitions. Otherwise a pod that is
#: retried forty times a second would hide all other events.
REPEAT_WITHIN = 0.5
#: Entries for equal texts; the rest are counted.
SHOWN_REPEATS = 2


@dataclass(slots=True)
class _Run:
    """A series of equal texts: the time of the last, and their number."""

    last: float
    count: int = 0


class Timeline:
    """The record of one scenario."""

    def __init__(self) -> None:
        self._began = 0.0
        self._runs: dict[str, _Run] = {}
        self._ended: list[tuple[str, _Run]] = []
        self._entries: list[TimelineEntry] = []

    def begin(self, at: float) -> None:
        """Set the time at which the scenario begins; earlier entries get the time 0."""
        self._began = at

    def note(self, at: float, who: Who, what: str) -> TimelineEntry | None:
        """Add an event; its time may be earlier than that of the last entry.

        Returns:
            The entry; None for a repetition that is only counted.
        """
        if who is Who.ACTIVATOR and self._is_repeated(at, what):
            return None
        return self._take(TimelineEntry(max(0.0, at - self._began), who, what))

    def _is_repeated(self, at: float, what: str) -> bool:
        run = self._runs.get(what)
        if run is None or at - run.last > REPEAT_WITHIN:
            if run is not None:
                self._ended.append((what, run))
            run = self._runs[what] = _Run(at)
        run.last = at
        run.count += 1
        return run.count > SHOWN_REPEATS

    def check(self, at: float, expected: str, passed: bool, seen: str) -> TimelineEntry:
        """Add a check and its result.

        Arguments:
            expected: the expectation as a sentence.
            seen: the observed value; the entry has it only if the check failed.
        """
        what = expected if passed else f"{expected}; seen: {seen}"
        return self._take(TimelineEntry(max(0.0, at - self._began), Who.CHECK, what, passed))

    def _take(self, entry: TimelineEntry) -> TimelineEntry:
        self._entries.append(entry)
        return entry

    @property
    def entries(self) -> list[TimelineEntry]:
        """All entries by time; entries of the same time in the order of their addition."""
        counted = [
            TimelineEntry(
                run.last - self._began,
                Who.ACTIVATOR,
                f"{what} ({_more(run.count - SHOWN_REPEATS)})",
            )
            for what, run in [*self._ended, *self._runs.items()]
            if run.count > SHOWN_REPEATS
        ]
        return sorted([*self._entries, *counted], key=lambda entry: entry.at)

    @property
    def passed(self) -> bool:
        """Whether there was at least one check, and all checks passed."""
        checks = [entry.passed for entry in self._entries if entry.who is Who.CHECK]
        return bool(checks) and all(checks)


def _more(times: int) -> str:
    return "once more" if times == 1 else f"{times} times more"

"""What happened in one scenario, in order: by whom, when, and whether it was as it must be.

Pure: a record that others fill and print. Must not know the clock: times are given, in seconds of
any clock that all of them use.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple


class Who(Enum):
    """Whose doing it is."""

    FAULT = "fault"
    POD = "pod"
    KUBERNETES = "kubernetes"
    ACTIVATOR = "activator"
    CLIENT = "client"
    #: What must be so, looked at.
    CHECK = "check"


class Entry(NamedTuple):
    """One thing that happened.

    Attributes:
        at: seconds since the scenario began.
        passed: of a check, whether it was as it must be; None for all else.
    """

    at: float
    who: Who
    what: str
    passed: bool | None = None


#: Seconds within which the same words of the activator's are the same thing going on: a pod that is
#: tried again forty times a second shall not bury what else happens.
GOING_ON = 0.5
#: How often they are then told; further times are counted.
TOLD = 2


@dataclass(slots=True)
class _Run:
    """The same words, again and again."""

    last: float
    count: int = 0


class Timeline:
    """The record of one scenario."""

    def __init__(self) -> None:
        self._began = 0.0
        self._runs: dict[str, _Run] = {}
        self._ended: list[tuple[str, _Run]] = []
        self._entries: list[Entry] = []

    def begin(self, at: float) -> None:
        """The scenario begins; what is noted with an earlier time is of time 0."""
        self._began = at

    def note(self, at: float, who: Who, what: str) -> Entry | None:
        """Takes something that happened at a time, which may be earlier than the last one's.

        Returns:
            The entry; None if it only goes on, and is counted.
        """
        if who is Who.ACTIVATOR and self._goes_on(at, what):
            return None
        return self._take(Entry(max(0.0, at - self._began), who, what))

    def _goes_on(self, at: float, what: str) -> bool:
        run = self._runs.get(what)
        if run is None or at - run.last > GOING_ON:
            if run is not None:
                self._ended.append((what, run))
            run = self._runs[what] = _Run(at)
        run.last = at
        run.count += 1
        return run.count > TOLD

    def check(self, at: float, expected: str, passed: bool, seen: str) -> Entry:
        """Takes what must be so, and whether it was.

        Arguments:
            expected: what must be so, as a sentence.
            seen: what was seen in its place; told only if it did not pass.
        """
        what = expected if passed else f"{expected}; seen: {seen}"
        return self._take(Entry(max(0.0, at - self._began), Who.CHECK, what, passed))

    def _take(self, entry: Entry) -> Entry:
        self._entries.append(entry)
        return entry

    @property
    def entries(self) -> list[Entry]:
        """All of it by time; what is of the same time in the order in which it was taken."""
        counted = [
            Entry(run.last - self._began, Who.ACTIVATOR, f"{what} ({_more(run.count - TOLD)})")
            for what, run in [*self._ended, *self._runs.items()]
            if run.count > TOLD
        ]
        return sorted([*self._entries, *counted], key=lambda entry: entry.at)

    @property
    def passed(self) -> bool:
        """Whether something was looked at, and all of it was as it must be."""
        checks = [entry.passed for entry in self._entries if entry.who is Who.CHECK]
        return bool(checks) and all(checks)


def _more(times: int) -> str:
    return "once more" if times == 1 else f"{times} times more"


class Outcome(NamedTuple):
    """How a scenario went.

    Attributes:
        error: what kept it from its end; empty if nothing did.
        seconds: from its begin to the end of its last process.
    """

    number: int
    name: str
    title: str
    knative: str
    ours: str
    entries: list[Entry]
    passed: bool
    error: str
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """The shape that docs/how-to/lab.md describes."""
        found: dict[str, Any] = self._asdict()
        found["error"] = self.error or None
        found["seconds"] = round(self.seconds, 3)
        found["timeline"] = [_as_json(entry) for entry in found.pop("entries")]
        return found


def _as_json(entry: Entry) -> dict[str, Any]:
    found: dict[str, Any] = {"at": round(entry.at, 3), "who": entry.who.value, "what": entry.what}
    if entry.passed is not None:
        found["passed"] = entry.passed
    return found

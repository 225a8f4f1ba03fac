"""The plan of a soak: which fault begins when, for how long, and where. A seed decides all of it.

Pure. Faults are in three lanes. A lane has one fault at a time; faults of different lanes overlap.
Each lane repeats a round of all its kinds, in a random order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final

from benchmarks.mixed.kinds import COLD, LIAR, RPC, WEB


class Fault(Enum):
    """The kinds of faults; the value is the name in tables and in JSON."""

    KILL_POD = "pod killed"
    STOP_POD = "pod stopped"
    SLOW_POD = "pod slow"
    DEAD_POD_READY = "dead pod listed as ready"
    WRONG_PROBE = "pod fails probes"
    BROKEN_FRAMING = "pod breaks framing"
    DROP_PACKETS = "packets to pod dropped"
    ENDPOINTS_STALE = "Endpoints stale"
    ENDPOINTS_TRUNCATED = "Endpoints truncated"
    ENDPOINTS_FLAPPING = "Endpoints flapping"
    ENDPOINTS_EMPTY = "Endpoints empty"
    WATCH_CUT = "API watches cut"
    WATCH_EXPIRED = "API watches expired (410)"
    WATCH_SILENT = "API watches silent"
    API_AWAY = "API server away"
    AUTOSCALER_RESTART = "autoscaler restarted"
    SCALER_RESTART = "scaler restarted (SIGTERM)"
    SCALER_KILL = "scaler restarted (SIGKILL)"
    ACTIVATOR_ROLL = "activator rolled (SIGTERM)"
    ACTIVATOR_KILL = "activator killed (SIGKILL)"
    SLOWLORIS = "clients: slow heads"
    RESETS = "clients: resets"
    FLOOD = "clients: flood"
    HUGE_HEADS = "clients: huge heads"
    SMUGGLING = "clients: request smuggling"
    RAPID_RESET = "clients: HTTP/2 rapid reset"


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the table of faults.

    Attributes:
        shortest, longest: seconds that the fault lasts.
        rest: seconds until the next fault of its lane.
        targets: services, or modes; the plan chooses one.
    """

    fault: Fault
    shortest: float
    longest: float
    rest: float
    targets: tuple[str, ...] = ("",)


_PODS: Final = (WEB, RPC)
_PROBES: Final = ("wrong", "error", "huge", "silent")
_LIES: Final = ("short", "chunk", "both", "garbage")
_REVISIONS: Final = (WEB, RPC, LIAR)
#: An activator notices after 90 s that a watch is silent.
_SILENT: Final = 92.0

#: The lanes, each with its kinds of faults.
LANES: Final[tuple[tuple[Kind, ...], ...]] = (
    (
        Kind(Fault.KILL_POD, 1.5, 2.5, 4.0, _PODS),
        Kind(Fault.STOP_POD, 2.0, 6.0, 3.0, _PODS),
        Kind(Fault.SLOW_POD, 3.0, 8.0, 2.0, _PODS),
        Kind(Fault.DEAD_POD_READY, 3.0, 6.0, 4.0, _PODS),
        Kind(Fault.WRONG_PROBE, 3.0, 8.0, 3.0, _PROBES),
        Kind(Fault.BROKEN_FRAMING, 3.0, 8.0, 3.0, _LIES),
        Kind(Fault.DROP_PACKETS, 2.0, 5.0, 4.0, _PODS),
    ),
    (
        Kind(Fault.ENDPOINTS_STALE, 5.0, 15.0, 3.0, (*_REVISIONS, COLD)),
        Kind(Fault.ENDPOINTS_TRUNCATED, 4.0, 10.0, 3.0, _REVISIONS),
        Kind(Fault.ENDPOINTS_FLAPPING, 3.0, 8.0, 3.0, _REVISIONS),
        Kind(Fault.ENDPOINTS_EMPTY, 1.0, 4.0, 3.0, _REVISIONS),
        Kind(Fault.WATCH_CUT, 0.5, 0.5, 4.0),
        Kind(Fault.WATCH_EXPIRED, 0.5, 0.5, 4.0),
        Kind(Fault.WATCH_SILENT, _SILENT, _SILENT, 5.0),
        Kind(Fault.API_AWAY, 3.0, 10.0, 5.0),
        Kind(Fault.AUTOSCALER_RESTART, 3.0, 10.0, 5.0),
        Kind(Fault.SCALER_RESTART, 1.0, 3.0, 5.0),
        Kind(Fault.SCALER_KILL, 1.0, 6.0, 5.0),
    ),
    (
        Kind(Fault.ACTIVATOR_ROLL, 14.0, 16.0, 5.0),
        Kind(Fault.ACTIVATOR_KILL, 6.0, 10.0, 5.0),
        Kind(Fault.SLOWLORIS, 3.0, 8.0, 2.0),
        Kind(Fault.RESETS, 3.0, 6.0, 2.0),
        Kind(Fault.FLOOD, 2.0, 5.0, 3.0),
        Kind(Fault.HUGE_HEADS, 2.0, 5.0, 2.0),
        Kind(Fault.SMUGGLING, 2.0, 4.0, 2.0),
        Kind(Fault.RAPID_RESET, 2.0, 5.0, 2.0),
    ),
)
#: Seconds before the first fault, and without a new fault at the end.
QUIET_START, QUIET_END = 10.0, 20.0


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault of a plan.

    Attributes:
        at: seconds from the begin of the traffic.
        seconds: how long it lasts.
        target: the service or the mode; empty for neither.
        draw: a number that decides the rest, such as which pod; at least 0.
    """

    at: float
    fault: Fault
    seconds: float
    target: str
    draw: int

    def __str__(self) -> str:
        where = f" ({self.target})" if self.target else ""
        return f"{self.at:7.1f} s  {self.fault.value}{where}, {self.seconds:.1f} s"


def plan(seed: int, seconds: float) -> list[Planned]:
    """Return the faults of a run by time; all have ended `QUIET_END` seconds before its end.

    Arguments:
        seed: equal seeds give equal plans.
        seconds: the duration of the traffic; a longer run begins with the faults of a shorter one,
            except for those at its end.
    """
    end = seconds - QUIET_END
    found = [
        fault
        for number, lane in enumerate(LANES)
        for fault in _lane(Random(f"{seed}/{number}"), lane, end)
    ]
    return sorted(found, key=lambda each: each.at)


def _lane(random: Random, kinds: Sequence[Kind], end: float) -> Iterator[Planned]:
    at = QUIET_START
    while True:
        for kind in random.sample(kinds, len(kinds)):
            seconds = random.uniform(kind.shortest, kind.longest)
            if at >= end:
                return
            fault = Planned(
                *(round(at, 1), kind.fault, round(seconds, 1), random.choice(kind.targets)),
                random.randrange(1 << 16),
            )
            if at + seconds <= end:
                yield fault
            at += seconds + kind.rest + random.uniform(0.0, 2.0)

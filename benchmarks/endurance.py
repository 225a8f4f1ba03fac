"""Mixed traffic through one activator, while pods are killed and a service scales to zero and back.

No request may be lost, and nothing may pile up. ``benchmarks/mixed/verdict.py`` defines which
requests count as lost. Ctrl-C ends it early; the table then covers the time until then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from time import monotonic

from benchmarks import activator
from benchmarks.activator import Activator
from benchmarks.agenda import Agenda
from benchmarks.interrupt import stop_on_interrupt
from benchmarks.mixed.kinds import RPC, WEB
from benchmarks.mixed.samples import Sample, look, slope
from benchmarks.mixed.traffic import (
    Clients,
    MixedTraffic,
    clients,
    fault_row,
    mixed_traffic,
    need_requests,
    rows,
)
from benchmarks.process import open_files, resident_bytes, wait_until
from benchmarks.report import Row

#: Seconds between kills, between scale-downs to zero, at zero, between samples, and between lines
#: about the progress.
KILL_EVERY, ZERO_EVERY, AT_ZERO, LOOK_EVERY, TELL_EVERY = 7.0, 12.0, 3.0, 2.0, 10.0
#: Seconds until one-time allocations are done; at most this part of the run.
WARM_UP, WARM_UP_PART = 120.0, 0.25
#: The most growth in KiB per minute after the warm-up, and the seconds a run needs for this goal.
GOAL_SLOPE, LONG_ENOUGH = 100.0, 600.0
KIB, MIB, MINUTE = 1 << 10, 1 << 20, 60.0


@dataclass(slots=True)
class Endurance:
    """The observations of a run.

    Attributes:
        seconds: the duration of the traffic.
        files: open files before the first client, and after the last one.
        resident_at_rest: resident bytes after the last client.
        left: requests and connections that the activator still has after the last client.
        faults: lines of its log that report errors.
    """

    seconds: float = 0.0
    samples: list[Sample] = field(default_factory=list)
    files: tuple[int, int] = (0, 0)
    resident_at_rest: int = 0
    left: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def settled(self) -> list[Sample]:
        """Return the samples after the warm-up."""
        begin = min(WARM_UP, self.seconds * WARM_UP_PART)
        return [sample for sample in self.samples if sample.at >= begin]

    @property
    def growth(self) -> float:
        """Return the growth of the resident memory in KiB per minute."""
        points = [(sample.at, float(sample.resident)) for sample in self.settled]
        return slope(points) * MINUTE / KIB


def measure(folder: Path, seconds: float) -> Iterator[Row]:
    """Yield rows for requests, memory and files.

    Raises:
        CannotMeasure: a process did not start.
    """
    with mixed_traffic(folder) as traffic:
        seen = run_recipe(traffic, seconds)
        what = f"endurance of {seen.seconds:.0f} s, {len(traffic.kills)} kills"
        yield from rows(what, traffic)
        yield _memory_row(what, seen)
        yield Row(
            f"{what}: open files, before and after",
            f"{seen.files[0]} and {seen.files[1]}",
            f"most {max((sample.files for sample in seen.samples), default=0)}",
            goal="no more than before",
            met=seen.files[1] <= seen.files[0],
        )
        yield Row(
            f"{what}: requests and connections left",
            f"{seen.left}",
            goal="0",
            met=seen.left == 0,
        )
        yield fault_row(what, seen.faults)


def _memory_row(what: str, seen: Endurance) -> Row:
    first, last = (seen.settled[at].resident / MIB for at in (0, -1)) if seen.settled else (0, 0)
    long_enough = seen.seconds >= LONG_ENOUGH
    return Row(
        f"{what}: resident memory, warm and at the end",
        f"{first:.1f} and {last:.1f} MiB, {seen.growth:+.0f} KiB/min",
        f"at rest {seen.resident_at_rest / MIB:.1f} MiB",
        goal=f"<= {GOAL_SLOPE:g} KiB/min" if long_enough else "",
        met=seen.growth <= GOAL_SLOPE if long_enough else None,
        details={"samples": [asdict(sample) for sample in seen.samples]},
    )


def run_recipe(traffic: MixedTraffic, seconds: float, *, hurry: float = 1.0) -> Endurance:
    """Run the traffic for so many seconds, and wait until everything has ended.

    Arguments:
        hurry: kills, scale-downs and samples happen so many times as often.

    Raises:
        CannotMeasure: a process did not start.
    """
    seen = Endurance(seconds)
    with activator.running(traffic.manifests) as found, stop_on_interrupt() as stop:
        look(found, 0.0)  # so that the admin port's one-time allocations are done
        files = open_files(found.pid)
        traffic.publish()
        agenda = Agenda(stop)
        with clients(traffic, found) as senders:
            began = monotonic()
            _plan(traffic, agenda, hurry)
            agenda.every(
                LOOK_EVERY / hurry, lambda: _look(found, senders, seen, began), first=0.5 / hurry
            )
            agenda.every(TELL_EVERY / hurry, lambda: _tell(traffic, seen), first=TELL_EVERY / hurry)
            agenda.run(seconds)
            seen.seconds = monotonic() - began
            traffic.mend()
            senders.end()
        need_requests(traffic)
        _come_to_rest(traffic, found, seen, files)
    return seen


def _plan(traffic: MixedTraffic, agenda: Agenda, hurry: float) -> None:
    """Put kills and cold starts on the agenda."""
    numbers = count()

    def kill() -> None:
        number = next(numbers)
        service = traffic.services[WEB if number % 2 == 0 else RPC]
        traffic.kill(service, service.pods[number // 2 % len(service.pods)], agenda)

    def to_zero() -> None:
        traffic.to_zero()
        agenda.after(AT_ZERO / hurry, lambda: traffic.from_zero(agenda))

    agenda.every(KILL_EVERY / hurry, kill, first=KILL_EVERY / hurry)
    agenda.every(ZERO_EVERY / hurry, to_zero, first=ZERO_EVERY / hurry / 4)


def _look(found: Activator, senders: Clients, seen: Endurance, began: float) -> None:
    senders.report()
    seen.samples.append(look(found, monotonic() - began))


def _tell(traffic: MixedTraffic, seen: Endurance) -> None:
    if not seen.samples:
        return
    last = seen.samples[-1]
    growth = f", {seen.growth:+.0f} KiB/min" if len(seen.settled) > 1 else ""
    print(
        f"  {last.at:.0f} of {seen.seconds:g} s: {traffic.summary()};"
        f" {last.resident / MIB:.1f} MiB{growth}; {last.files} open files",
        flush=True,
    )


def _come_to_rest(traffic: MixedTraffic, found: Activator, seen: Endurance, files: int) -> None:
    """Remove all pods, and record the remaining requests, connections, files and memory."""
    traffic.empty()
    try:
        wait_until(lambda: open_files(found.pid) <= files, "all connections are closed")
    except Exception:  # the table shows how many are left
        pass
    seen.files = files, open_files(found.pid)
    last = look(found, seen.seconds)
    seen.left = int(last.gauges["upstreamConnections"] + last.gauges["clientConnections"])
    seen.resident_at_rest = resident_bytes(found.pid)
    seen.faults = found.faults()

"""SIGTERM under mixed traffic: one activator after the other is replaced, and nothing may be lost.

A new activator starts and is ready. Then the old one gets SIGTERM. New connections go to the new
one only a second later, because an ingress reacts late. The old one continues for ``--lame-duck``,
then finishes its requests, and must end with status 0. At the SIGTERM, the cold service has no
pod. It gets one later, so requests wait in the old activator.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from benchmarks import activator
from benchmarks.activator import Activator
from benchmarks.agenda import Agenda
from benchmarks.interrupt import stop_on_interrupt
from benchmarks.mixed.traffic import (
    Clients,
    MixedTraffic,
    clients,
    fault_row,
    mixed_traffic,
    need_requests,
    rows,
)
from benchmarks.process import CannotMeasure, wait_until
from benchmarks.report import Row

#: Seconds of the lame duck, and from SIGTERM until clients use the new activator.
LAME_DUCK, ROUTED_AFTER = 3.0, 1.0
#: Seconds from SIGTERM to the cold service's pod: after the lame duck.
COLD_AFTER = 4.0
#: Seconds from zero pods to SIGTERM, so that requests are queued; and between two replacements.
AT_ZERO, BETWEEN = 1.0, 3.0
#: Seconds for an activator to end.
END_PATIENCE = 60.0


@dataclass(slots=True)
class Ends:
    """How the activators ended.

    Attributes:
        seconds: from SIGTERM to the end, one for each.
        statuses: their exit statuses.
        faults: lines of their logs that report errors.
    """

    seconds: list[float] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def measure(folder: Path, seconds: float) -> Iterator[Row]:
    """Yield the rows; activators are replaced for so many seconds, at least one.

    Raises:
        CannotMeasure: a process did not start.
    """
    with mixed_traffic(folder) as traffic:
        ends = run_recipe(traffic, seconds)
        what = f"SIGTERM to {len(ends.seconds)} activators"
        yield from rows(what, traffic)
        yield Row(
            f"{what}: ended with status 0",
            f"{ends.statuses.count(0)} of {len(ends.statuses)}",
            f"within {max(ends.seconds, default=0.0):.1f} s",
            goal="all",
            met=set(ends.statuses) == {0},
            details={"statuses": ends.statuses, "seconds": ends.seconds},
        )
        yield fault_row(what, ends.faults)


def run_recipe(traffic: MixedTraffic, seconds: float) -> Ends:
    """Replace activators for so many seconds, and wait until everything has ended.

    Raises:
        CannotMeasure: a process did not start, or an activator did not end.
    """
    ends = Ends()
    traffic.publish()
    with ExitStack() as processes, stop_on_interrupt() as stop:
        current = _start(traffic, processes, 0)
        with clients(traffic, current) as senders:
            began = monotonic()
            while not ends.seconds or (monotonic() < began + seconds and not stop.is_set()):
                fresh = _start(traffic, processes, len(ends.seconds) + 1)
                _replace(traffic, senders, current, fresh, ends)
                current = fresh
                senders.report()
                print(
                    f"  {monotonic() - began:.0f} of {seconds:g} s: {traffic.summary()}", flush=True
                )
                stop.wait(BETWEEN)
            traffic.mend()
            senders.end()
        need_requests(traffic)
        traffic.empty()
        ends.faults += current.faults()
    return ends


def _start(traffic: MixedTraffic, processes: ExitStack, number: int) -> Activator:
    flags = "--lame-duck", f"{LAME_DUCK}s"
    log = f"activator-{number}"
    return processes.enter_context(activator.running(traffic.manifests, *flags, log=log))


def _replace(
    traffic: MixedTraffic, senders: Clients, current: Activator, fresh: Activator, ends: Ends
) -> None:
    agenda = Agenda()
    traffic.to_zero()
    began = monotonic() + AT_ZERO
    agenda.after(AT_ZERO, current.terminate)
    agenda.after(AT_ZERO + ROUTED_AFTER, lambda: senders.use(fresh))
    agenda.after(AT_ZERO + COLD_AFTER, lambda: traffic.from_zero(agenda))
    agenda.run()
    wait_until(lambda: current.ended() is not None, "the activator ends", END_PATIENCE)
    status = current.ended()
    if status is None:
        raise CannotMeasure("the activator runs again")
    ends.seconds.append(monotonic() - began)
    ends.statuses.append(status)
    ends.faults += current.faults()

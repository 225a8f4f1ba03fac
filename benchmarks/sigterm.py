"""SIGTERM under mixed traffic: one activator after the other is replaced, and nothing may be lost.

A new activator starts and is ready. Then the old one gets SIGTERM. Only a second later new
connections go to the new one, as an ingress learns of it late. The old one serves on for
``--lame-duck``, then finishes what it has, and must end with status 0. The cold service is at zero
at the SIGTERM and gets its pod later, so that requests of the old activator wait for a pod.
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
from benchmarks.mixed.stage import (
    Clients,
    Stage,
    clients,
    fault_row,
    need_requests,
    rows,
    staged,
)
from benchmarks.process import CannotMeasure, wait_until
from benchmarks.report import Row

#: Seconds of serving on after SIGTERM, and after which the clients go elsewhere.
LAME_DUCK, ROUTED_AFTER = 3.0, 1.0
#: Seconds from SIGTERM to the cold service's pod: after the lame duck.
COLD_AFTER = 4.0
#: Seconds from zero to SIGTERM, so that requests wait at it; and between two replacements.
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
        CannotMeasure: something did not come up.
    """
    with staged(folder) as stage:
        ends = play(stage, seconds)
        what = f"SIGTERM to {len(ends.seconds)} activators"
        yield from rows(what, stage)
        yield Row(
            f"{what}: ended with status 0",
            f"{ends.statuses.count(0)} of {len(ends.statuses)}",
            f"within {max(ends.seconds, default=0.0):.1f} s",
            goal="all",
            met=set(ends.statuses) == {0},
            details={"statuses": ends.statuses, "seconds": ends.seconds},
        )
        yield fault_row(what, ends.faults)


def play(stage: Stage, seconds: float) -> Ends:
    """Replace activators for so many seconds, and wait until everything has ended.

    Raises:
        CannotMeasure: something did not come up, or an activator does not end.
    """
    ends = Ends()
    stage.publish()
    with ExitStack() as processes, stop_on_interrupt() as stop:
        current = _start(stage, processes, 0)
        with clients(stage, current) as senders:
            began = monotonic()
            while not ends.seconds or (monotonic() < began + seconds and not stop.is_set()):
                fresh = _start(stage, processes, len(ends.seconds) + 1)
                _replace(stage, senders, current, fresh, ends)
                current = fresh
                senders.report()
                print(
                    f"  {monotonic() - began:.0f} of {seconds:g} s: {stage.summary()}", flush=True
                )
                stop.wait(BETWEEN)
            stage.mend()
            senders.end()
        need_requests(stage)
        stage.empty()
        ends.faults += current.faults()
    return ends


def _start(stage: Stage, processes: ExitStack, number: int) -> Activator:
    flags = "--lame-duck", f"{LAME_DUCK}s"
    log = f"activator-{number}"
    return processes.enter_context(activator.running(stage.manifests, *flags, log=log))


def _replace(
    stage: Stage, senders: Clients, current: Activator, fresh: Activator, ends: Ends
) -> None:
    agenda = Agenda()
    stage.to_zero()
    began = monotonic() + AT_ZERO
    agenda.after(AT_ZERO, current.terminate)
    agenda.after(AT_ZERO + ROUTED_AFTER, lambda: senders.use(fresh))
    agenda.after(AT_ZERO + COLD_AFTER, lambda: stage.from_zero(agenda))
    agenda.run()
    wait_until(lambda: current.ended() is not None, "the activator ends", END_PATIENCE)
    status = current.ended()
    if status is None:
        raise CannotMeasure("the activator runs again")
    ends.seconds.append(monotonic() - began)
    ends.statuses.append(status)
    ends.faults += current.faults()

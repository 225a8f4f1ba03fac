"""A rollout under mixed traffic: pods are replaced one after the other, and nothing may be lost.

A new pod starts. A probe, or Kubernetes half a second later, puts it into use. Then the oldest
pod leaves the Endpoints and gets SIGTERM. Like queue-proxy, it responds until it has no requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import monotonic

from benchmarks import activator
from benchmarks.agenda import Agenda
from benchmarks.interrupt import stop_on_interrupt
from benchmarks.mixed.kinds import RPC, WEB
from benchmarks.mixed.traffic import (
    NEWS_AFTER,
    MixedTraffic,
    clients,
    fault_row,
    mixed_traffic,
    need_requests,
    rows,
)
from benchmarks.report import Row

#: Seconds between replacements, and from the readiness of a new pod to the end of an old one.
REPLACE_EVERY, OVERLAP = 2.0, 0.3


def measure(folder: Path, seconds: float) -> Iterator[Row]:
    """Yield the rows of a rollout of so many seconds.

    Raises:
        CannotMeasure: a process did not start.
    """
    with mixed_traffic(folder) as traffic:
        replaced, faults = run_recipe(traffic, seconds)
        what = f"rollout of {replaced} pods"
        yield from rows(what, traffic)
        yield fault_row(what, faults)


def run_recipe(traffic: MixedTraffic, seconds: float) -> tuple[int, list[str]]:
    """Replace pods for so many seconds, and wait until everything has ended.

    Returns:
        How many pods were replaced, and the errors in the activator's log.

    Raises:
        CannotMeasure: a process did not start.
    """
    traffic.publish()
    with activator.running(traffic.manifests) as found, stop_on_interrupt() as stop:
        agenda, numbers = Agenda(stop), count()
        with clients(traffic, found) as senders:
            began = monotonic()

            def replace() -> None:
                _replace(traffic, next(numbers), agenda)
                senders.report()
                print(
                    f"  {monotonic() - began:.0f} of {seconds:g} s: {traffic.summary()}", flush=True
                )

            agenda.every(REPLACE_EVERY, replace, first=REPLACE_EVERY / 2)
            agenda.run(seconds)
            traffic.mend()
            senders.end()
        need_requests(traffic)
        traffic.empty()
        return next(numbers), found.faults()


def _replace(traffic: MixedTraffic, number: int, agenda: Agenda) -> None:
    service = traffic.services[WEB if number % 2 == 0 else RPC]
    old, fresh = service.pods[0], service.start_pod()
    service.publish()

    def ready() -> None:
        service.set_ready(fresh)
        agenda.after(OVERLAP, lambda: service.remove(old))

    agenda.after(NEWS_AFTER, ready)

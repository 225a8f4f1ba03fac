"""All programs of a soak, and the traffic through them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic
from typing import Final

from benchmarks.activator import OK
from benchmarks.agenda import Agenda
from benchmarks.helpers import Helper, helper
from benchmarks.mixed.kinds import ALL_KINDS, COLD, LIAR, RPC, WEB
from benchmarks.mixed.samples import GAUGES, Sample, value
from benchmarks.mixed.services import POD_PORT, Pod
from benchmarks.mixed.traffic import Clients, MixedTraffic
from benchmarks.process import (
    CannotMeasure,
    free_port,
    listens,
    open_files,
    resident_bytes,
    wait_until,
)
from benchmarks.soak import cluster, ingress, programs, verdict
from benchmarks.soak.cluster import Cluster
from benchmarks.soak.endpoints import ClusterPublisher
from benchmarks.soak.ingress import Ingress
from benchmarks.soak.programs import IPS, Program
from benchmarks.soak.verdict import Occurred, Sighting

#: How many pods a revision has.
PODS: Final[Mapping[str, int]] = {WEB: 3, RPC: 2, COLD: 1, LIAR: 2}
#: Seconds for a Deployment, or an activator, to reach the expected state.
PATIENCE: Final = 60.0
#: Seconds for the last pods and connections to go. A scaler that was killed leads again after 15 s,
#: and then removes no replica for a minute.
REST_PATIENCE: Final = 120.0
#: Seconds between two looks at a pod that drains.
LOOK_EVERY: Final = 0.25

_WAITING: Final = re.compile(
    r"^activator_waiting_requests\{(?P<labels>[^}]*)\} (?P<number>\S+)$", re.MULTILINE
)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Attacked:
    """The facts of an attack by hostile clients.

    Attributes:
        mode: a key of `benchmarks.soak.hostile.MODES`.
        statuses: the responses by status; 0 for a connection that closed without one.
    """

    mode: str
    connections: int
    statuses: dict[int, int]


@dataclass(slots=True)
class Evidence:
    """What was observed during a run.

    Attributes:
        occurred: the faults that took place.
        skipped: the reason for each fault that could not take place.
        samples: of the activator that is never replaced.
        sightings: the reasons of waiting requests.
        statuses, scaler_statuses: the exit statuses of activators and scalers after SIGTERM.
        attacks: the facts of hostile clients.
        crashes: programs that ended by themselves, or did not start.
        silent: activators whose stats the autoscaler does not get, when all faults have ended.
        stale: revisions whose pods an activator has wrong, when all faults have ended.
        left: what the activators still had when all requests had ended, as text.
        files: open files of the first activator, before the clients and after them; None if it
            has ended.
        errors: lines of the logs of activators and scaler that report errors.
        misnumbered: when the ingress sent a request by a wrong stream number.
    """

    occurred: list[Occurred] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    sightings: list[Sighting] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    scaler_statuses: list[int] = field(default_factory=list)
    attacks: list[Attacked] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    files: tuple[int, int] | None = None
    errors: list[str] = field(default_factory=list)
    misnumbered: list[float] = field(default_factory=list)

    def reasons(self) -> Iterator[Sighting]:
        """Yield the reasons of waiting requests."""
        yield from self.sightings


class World:
    """The programs; see `running`.

    Attributes:
        activators: the first one runs all the time, faults replace the second one.
        clients: send the traffic, once `begin` has been called.
        hostile: the process of hostile clients.
    """

    def __init__(
        self,
        parts: tuple[Cluster, ClusterPublisher, MixedTraffic, Ingress, Helper],
        activators: tuple[Program, Program],
        scaler: Program,
    ) -> None:
        self.cluster, self.publisher, self.traffic, self.ingress, self.hostile = parts
        self.activators = activators
        self.scaler = scaler
        self.evidence = Evidence()
        self.clients: Clients

    def sample(self, began: float) -> None:
        """Record crashes, waits, and memory, files and connections of the first activator."""
        self._record_crashes()
        for program in self.activators:
            page = metrics(program)
            at = monotonic()
            self.evidence.sightings += [
                Sighting(reason, service, at) for service, reason in waits(page)
            ]
            if page and program is self.activators[0] and program.present:
                pid = program.present.pid
                gauges = {name: value(page, key) for key, name in GAUGES.items()}
                self.evidence.samples.append(
                    Sample(at - began, resident_bytes(pid), open_files(pid), gauges)
                )

    def _record_crashes(self) -> None:
        crashes = [each.crash() for each in (*self.activators, self.scaler)]
        self.evidence.crashes += [text for text in crashes if text]

    def note_end(self, pod: Pod, began: float, agenda: Agenda) -> None:
        """Record the end of a pod that drains, if a fault hides it from the activators.

        Arguments:
            began: when it got SIGTERM.
        """
        ended = pod.ended()
        if ended is None:
            agenda.after(LOOK_EVERY, lambda: self.note_end(pod, began, agenda))
        else:
            occurred = self.evidence.occurred
            self.traffic.kills += verdict.unseen_end(pod.name, began, ended, occurred)

    def hear(self) -> None:
        """Wait until the autoscaler gets new stats of both activators; record who is silent.

        Requests must be on their way: without them, an activator has no stats.
        """
        since, received = monotonic(), self.cluster.autoscaler.received

        def silent() -> list[str]:
            names = (each.name for each in self.activators)
            return [name for name in names if received.get(name, 0.0) <= since]

        try:
            wait_until(lambda: not silent(), "", PATIENCE)
        except CannotMeasure:  # the table shows who is silent
            pass
        self.evidence.silent = silent()

    def compare(self) -> None:
        """Wait until both activators have the pods of each revision; record the differences."""
        try:
            wait_until(lambda: not self._stale(), "", PATIENCE)
        except CannotMeasure:  # the table shows the differences
            pass
        self.evidence.stale = self._stale()

    def _stale(self) -> list[str]:
        found = []
        for name, service in self.traffic.services.items():
            listed = {f"{pod.ip}:{POD_PORT}" for pod in service.pods}
            for program in self.activators:
                known = pods_of(program, name)
                if known != listed:
                    found.append(f"{program.name}, {name}: {sorted(known)}, not {sorted(listed)}")
        return found

    def come_to_rest(self, files: int) -> None:
        """Wait until no request, no connection and no queued request is left; record all else."""
        self.traffic.empty()
        self._record_crashes()
        for program in self.activators:
            try:
                wait_until(lambda program=program: not _rest(program), "", REST_PATIENCE)  # type: ignore[misc]
            except CannotMeasure:  # the table shows the rest
                pass
            self.evidence.left += _rest(program)
        first = self.activators[0].present
        if first is not None:
            try:
                wait_until(lambda: open_files(first.pid) <= files, "", PATIENCE)
            except CannotMeasure:  # the table shows how many are left
                pass
            self.evidence.files = files, open_files(first.pid)
        self.evidence.misnumbered = self.ingress.misnumbered()
        programs = (*self.activators, self.scaler)
        self.evidence.errors = [line for each in programs for line in each.errors()]


def metrics(program: Program) -> str:
    """Return the metrics of a program; empty if it does not respond."""
    if program.present is None:
        return ""
    try:
        return program.present.admin_get("/metrics")[1].decode()
    except OSError:
        return ""


def pods_of(program: Program, name: str) -> set[str]:
    """Return the addresses of a revision's pods that an activator has; empty without response."""
    if program.present is None:
        return set()
    try:
        status, body = program.present.admin_get(f"/api/v1/revisions/default/{name}")
    except OSError:
        return set()
    return {pod["address"] for pod in json.loads(body)["pods"]} if status == OK else set()


def waits(page: str) -> Iterator[tuple[str, str]]:
    """Yield the services with waiting requests of a page of metrics, each with its reason."""
    for found in _WAITING.finditer(page):
        labels = dict(_LABEL.findall(found["labels"]))
        if float(found["number"]):
            yield labels["kn_revision_name"], labels["reason"]


def _rest(program: Program) -> list[str]:
    """Return what an activator still has of requests, one text each."""
    page = metrics(program)
    names = ("upstreamConnections", "clientConnections")
    counts = {name: value(page, key) for key, name in GAUGES.items() if name in names}
    counts["waiting"] = sum(1 for _ in waits(page))
    if not page:
        return [f"{program.name}: no metrics"]
    return [f"{program.name}: {number:g} {name}" for name, number in counts.items() if number]


@contextmanager
def running(folder: Path, seed: int) -> Iterator[World]:
    """Provide all programs, ready for traffic; they end with the block.

    Arguments:
        seed: decides the addresses of pods.

    Raises:
        CannotMeasure: a program did not start.
    """
    with ExitStack() as stack:
        found = stack.enter_context(cluster.running(folder))
        publisher = ClusterPublisher(found)
        traffic = MixedTraffic(folder, publisher, PODS, Random(seed))
        stack.callback(traffic.close)
        found.create_config()
        publisher.list_activators(IPS)
        found.create_scaled()
        port = free_port()
        scaler = programs.scaler(found, port)
        pair = tuple(
            programs.activator(f"activator-{n}", ip, found, port) for n, ip in enumerate(IPS, 1)
        )
        for program in (scaler, *pair):
            stack.callback(program.close)
            program.start()
        traffic.start_pods()
        for program in (scaler, *pair):
            wait_until(program.has_started, f"{program.name} is ready")
        where = [f"{each.ip}:{programs.TRAFFIC_PORT}" for each in pair]
        gate = stack.enter_context(ingress.running(folder / "ingress", where))
        hostile = stack.enter_context(helper("soak.hostile"))
        parts = (found, publisher, traffic, gate, hostile)
        wait_until(
            lambda: all(listens(each.ip, found.port_of_bytes()) for each in pair),
            "both activators listen for the TCP Service",
            PATIENCE,
        )
        yield World(parts, (pair[0], pair[1]), scaler)


@contextmanager
def traffic_of(world: World) -> Iterator[None]:
    """Send the traffic of all kinds while the block runs."""
    world.traffic.publish()
    port = world.cluster.port_of_bytes()
    to = [world.ingress.addresses, *(f"{each.ip}:{port}" for each in world.activators)]
    with helper("mixed.clients", ",".join(to), *ALL_KINDS) as process:
        world.clients = Clients(process, world.traffic)
        yield

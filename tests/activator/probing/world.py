"""Pods that are only responses and times, and a prober that probes them in virtual time."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, cast

from activator.autoscaler.concurrency import ConcurrencyReporter
from activator.driver import Driver
from activator.knative.words import QUEUE_PROXY
from activator.probing.probe import Probe
from activator.probing.prober import PodProber
from activator.proxy.pods.probes import ProbePools
from activator.records.entries import Entries
from throttler.model import (
    AppProtocol,
    Endpoint,
    ListedEndpoints,
    ProbeSpec,
    ReadinessRule,
    Revision,
    RevisionID,
)
from throttler.pod import PodTracker
from throttler.reason import Reason
from throttler.revision import RevisionThrottler
from throttler.throttler import Limits, Throttler
from throttler.ticket import Ticket

APP = RevisionID("default", "app")


async def until(moment: float) -> None:
    """Wait until the loop's time is that."""
    loop = asyncio.get_running_loop()
    reached = loop.create_future()
    loop.call_at(moment, reached.set_result, None)
    await reached


@dataclass
class Response:
    status: int = 200
    body: bytes = b"queue"


class FakePod:
    """How one address behaves, and when it was probed.

    Attributes:
        response: the response; None for none.
        listens: whether connections are accepted (else refused).
        silent: whether not even a refusal comes.
        untrusted: whether its TLS certificate is another pod's.
        round_trip: seconds, of a connection and of a response each.
        probe_lines: the pod that the probe names.
        idle: connections that are kept.
        at: when probes came; asked: with which bytes; probes: the probes that sent them.
    """

    probe_lines = b"Host: 127.0.0.1:8012\r\n"

    def __init__(self) -> None:
        self.response: Response | None = Response()
        self.listens = True
        self.silent = False
        self.untrusted = False
        self.round_trip = 0.0
        self.idle: list[FakeConnection] = []
        self.at: list[float] = []
        self.asked: list[bytes] = []
        self.probes: list[Probe] = []
        self.dialed = 0
        self.abandoned = 0

    # -- as activator.proxy.pods.probes.ProbePool -----------------------------------------------

    def take(self) -> FakeConnection | None:
        if not self.idle:
            return None
        self._came()
        return self.idle.pop()

    def dial(self, dialer: Any, within: float) -> None:
        self._came()
        self.dialed += 1
        loop = asyncio.get_running_loop()
        if self.silent or self.round_trip >= within:
            text = f"connect timed out after {within:.3g} s"
            loop.call_later(within, dialer.on_dial_failed, text, "connect-timeout")
        elif not self.listens:
            text = "connection refused"
            loop.call_later(self.round_trip, dialer.on_dial_failed, text, "connect-failed")
        elif self.untrusted:
            text = "certificate has expired"
            loop.call_later(self.round_trip, dialer.on_dial_failed, text, "tls-failed")
        else:
            loop.call_later(self.round_trip, dialer.on_dialed, FakeConnection(self))

    def open_stream(self, dialer: Any) -> None:
        self._came()
        self.dialed += 1
        loop = asyncio.get_running_loop()
        if self.silent:
            return
        if self.listens:
            loop.call_later(self.round_trip, dialer.on_stream, FakeCall(self))
        else:
            refused = "connection refused", "connect-failed"
            loop.call_later(self.round_trip, dialer.on_dial_failed, *refused)

    def _came(self) -> None:
        self.at.append(asyncio.get_running_loop().time())


class FakeConnection:
    """A connection to a fake pod."""

    def __init__(self, pod: FakePod, reused: bool = False) -> None:
        self.reused = reused
        self._pod = pod
        self._responding: asyncio.TimerHandle | None = None

    def send(self, owner: Probe, data: bytes) -> None:
        self._pod.asked.append(data)
        self._pod.probes.append(owner)
        if self._pod.response is not None:
            loop = asyncio.get_running_loop()
            self._responding = loop.call_later(self._pod.round_trip, self._say, owner)

    def _say(self, owner: Probe) -> None:
        response = self._pod.response
        assert response is not None
        self.reused = True
        self._pod.idle.append(self)
        owner.on_response(response.status, [response.body], True)

    def cancel(self) -> None:
        self._pod.abandoned += 1
        if self._responding is not None:
            self._responding.cancel()

    def release(self) -> None:
        self._pod.idle.append(self)


class FakeCall:
    """A gRPC call to a fake pod; the body of its response is the whole message."""

    reused = False

    def __init__(self, pod: FakePod) -> None:
        self._pod = pod

    def call(
        self, owner: Probe, path: bytes, message: bytes, fields: Mapping[bytes, bytes]
    ) -> None:
        self._pod.asked.append(path + message)
        if (response := self._pod.response) is not None:
            about = response.status, {b"grpc-status": b"0"}, response.body
            asyncio.get_running_loop().call_later(self._pod.round_trip, owner.on_reply, *about)

    def cancel(self) -> None:
        self._pod.abandoned += 1

    def release(self) -> None: ...


class Nobody:
    """Counts no load, and owns requests whose end does not matter."""

    def request_began(self, now: float) -> None: ...
    def request_ended(self, now: float) -> None: ...
    def ticket_assigned(self) -> None: ...
    def ticket_expired(self, reason: Reason, detail: str) -> None: ...


class World:
    """A prober, its driver and throttler, and pods by address."""

    def __init__(
        self,
        *,
        timeout: float = 0.3,
        max_in_flight: int = 256,
        random: Callable[[], float] = lambda: 0.5,
        container_concurrency: int = 1,
        plain: ProbeSpec | None = None,
        readiness: ReadinessRule = ReadinessRule.PROBE,
    ) -> None:
        self.clock = asyncio.get_running_loop().time
        self.pods: dict[str, FakePod] = defaultdict(FakePod)
        throttler = Throttler(Limits(), random)
        entries = Entries(throttler, ConcurrencyReporter(lambda _: None).load)
        self.driver = Driver(throttler, entries, self.clock)
        self.prober = PodProber(self.driver, cast(ProbePools, self), timeout, max_in_flight, random)
        self.driver.prober = self.prober
        self.driver.pools = self
        self.driver.set_revision(
            Revision(
                APP,
                container_concurrency=container_concurrency,
                probe=plain or QUEUE_PROXY,
                behind_queue_proxy=plain is None,
                readiness=readiness,
            )
        )
        self.revision: RevisionThrottler = self.driver.throttler.find(*APP)

    def of(self, pod: PodTracker) -> FakePod:
        return self.pods[pod.address]

    def follow(self, pods: Iterable[PodTracker]) -> None:
        """See activator.driver.Pools."""

    def forget(self, pod: PodTracker) -> None:
        """See activator.driver.Pools."""

    def list_pods(self, *ready: str, not_ready: Iterable[str] = ()) -> None:
        endpoints = ListedEndpoints(
            frozenset(map(Endpoint, ready)), frozenset(map(Endpoint, not_ready))
        )
        self.driver.set_endpoints(APP, {AppProtocol.HTTP1: endpoints})

    def ask(self, timeout: float = inf) -> Ticket:
        """Admit a request; it waits where no pod has a free slot."""
        ticket = Ticket(Nobody(), self.clock() + timeout)
        if self.revision.admit(ticket, self.clock()) is None:
            self.driver.began_waiting(self.revision)
        return ticket

    def tracker(self, address: str) -> PodTracker:
        return next(pod for pod in self.revision.backends.pods.values() if pod.address == address)

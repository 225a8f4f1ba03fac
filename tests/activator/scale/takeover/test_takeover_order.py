"""No request meets an empty Service: a random walk over the order of takeover and scaling.

A Service with pods that start late, an API server that is slow or away, activators that come and
go, and scalers that restart. Each proxy of the cluster has some state of the last ``PROPAGATION``
seconds of each slice.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from activator.discovery.api_server import no_response
from activator.kpa.decision import ScaleRules
from activator.objects.fields import ObjectKey
from activator.plain.annotations import Annotations, Route
from activator.plain.service import parse as parse_service
from activator.scale.decisions.engine import NEW_LEADER
from activator.scale.decisions.plan import PROPAGATION, Observed, Planner
from activator.scale.reasons import ScaleReason
from activator.scale.reports.load import ServiceName
from activator.scale.takeover.pods import Pods
from activator.scale.takeover.slices import ActivatorAddress, SliceFamily, Write
from activator.scale.takeover.takeovers import Takeovers
from tests.activator.plain.objects import endpoint, service, slice_of
from tests.activator.scale.takeover.slice_api import SliceApi, deliver
from tests.rows import naming

STEP = 0.25
HISTORY = int(PROPAGATION / STEP)
HELLO = ServiceName("shop", "hello")
ACTIVATORS = [ActivatorAddress(f"10.1.0.{n}", f"node-{n}") for n in range(1, 5)]
#: Seconds for which an activator serves after it has become not ready.
DRAIN = 20.0
#: Seconds until pods above the replicas end, at most.
ENDS = 5.0
NEVER = float("inf")
#: Seconds within which an empty Service has endpoints again, although requests fail.
HEALS = 120.0
#: Half of these worlds have a front, and half of the fronts have a limit.
SEEDS = (0, 1, 2, 3, 4, 5, 6, 11)


class Scaler:
    """One process: what it has of the cluster, and its decisions."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.takeovers = Takeovers(pods=world.kept)
        self.planner = Planner(world.now, world.ready)
        for obj in world.api.slices.values():
            self.takeovers.observe(obj, world.now)
        self.takeovers.set_activators(world.present())
        self.takeovers.start()
        self.events: deque[tuple[float, str, Any]] = deque()
        self.busy = float("-inf")
        self.since = world.now if world.now else float("-inf")

    def tick(self) -> None:
        world, now = self.world, self.world.now
        while self.events and self.events[0][0] <= now:
            _, event, obj = self.events.popleft()
            deliver(self.takeovers, event, obj, now)
        self.takeovers.set_activators(world.present())
        if world.load:
            self.busy = now
        load = world.load
        # The requests of an earlier process may still be carried out.
        frozen = ScaleReason.NEW_LEADER if now < self.since + NEW_LEADER else None
        seen = Observed(
            *(load, load, load, self.busy, frozen, world.replicas, world.ready),
            slice_since=self.takeovers.in_place_since(HELLO, now),
        )
        plan = self.planner.decide(world.asks, seen, now)
        self.takeovers.put(world.service, world.now, takes_over=plan.takes_over)
        if plan.replicas is not None and world.chance.random() > 0.2:
            world.scale(plan.replicas)
        while (write := self.takeovers.due(now)) is not None:
            world.send(self, write)


class World:
    """The cluster."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 0.0
        #: All endpoints of a front are in the scaler's slice.
        self.is_front = self.chance.random() < 0.5
        limit = self.chance.choice((0, 0, 5)) if self.is_front else 0
        idle = self.chance.choice((1.0, 5.0, 20.0))
        route = Route.FRONT if self.is_front else Route.TAKEOVER
        self.asks = Annotations(
            route=route, container_concurrency=limit, scale=ScaleRules(10, idle=idle)
        )
        found = parse_service(service({"route": route.value, "pods_service": "hello-pods"}))
        assert found is not None
        self.service = found
        #: What the watch of the scaler has of the pods.
        self.kept = Pods()
        self.kept_pods = -1
        self.api = SliceApi()
        self.load = 0.0
        self.replicas = self.ready = 0
        self.starts: list[float] = []
        #: When the pods above the replicas end.
        self.ends_at = 0.0
        #: Until when each activator serves, and whether it is listed.
        self.activators = {each: (float("inf"), True) for each in ACTIVATORS[:2]}
        #: Steps of requests under way, and when they happen.
        self.requests: list[tuple[float, Callable[[], object]]] = []
        self.pods: deque[int] = deque([0], HISTORY)
        self.listed: deque[frozenset[str]] = deque([frozenset()], HISTORY)
        self.excused_until = 20.0
        self.scaler = Scaler(self)
        self.slept = 0
        #: Since when a proxy may have an empty Service.
        self.empty_since: float | None = None

    # -- the API server ----------------------------------------------------------------------------

    def send(self, scaler: Scaler, write: Write) -> None:
        """Send a request that may take long, or whose response is lost.

        The server may carry out such a request long after the time-out.
        """
        at = self.now + self.chance.choice((0.0, 0.0, 0.0, 0.5, 3.0))
        if self.chance.random() < 0.2:
            at = self.now + self.chance.choice((0.0, 3.0, 20.0, 40.0, NEVER))
            self.requests.append((at, lambda: self.api.handle(*write.request)))
            lost = write, no_response("time-out")
            self.requests.append((self.now + 5, lambda: scaler.takeovers.done(*lost, self.now)))
        else:
            self.requests.append((at, lambda: self.respond(scaler, write)))

    def respond(self, scaler: Scaler, write: Write) -> None:
        scaler.takeovers.done(write, self.api.handle(*write.request), self.now)

    def serve(self) -> None:
        waiting, self.requests = self.requests, []
        for at, step in waiting:
            if at <= self.now:
                step()
            else:
                self.requests.append((at, step))
        lag = self.chance.choice((0.0, 0.0, 0.5, 2.0))
        while self.api.events:
            event = self.api.events.popleft()
            at = max([self.now + lag, *(each[0] for each in self.scaler.events)])
            self.scaler.events.append((at, *event))

    def scale(self, replicas: int) -> None:
        if replicas > self.replicas:
            delay = self.chance.choice((0.5, 3.0, 10.0))
            self.starts += [self.now + delay] * (replicas - self.replicas)
        if not replicas:
            self.slept += 1
        self.replicas = replicas
        self.starts = self.starts[: max(replicas - self.ready, 0)]
        self.ends_at = self.now + self.chance.choice((0.0, 0.5, ENDS))

    # -- what happens ------------------------------------------------------------------------------

    def present(self) -> dict[SliceFamily, tuple[ActivatorAddress, ...]]:
        found = tuple(each for each, (_, listed) in self.activators.items() if listed)
        return {SliceFamily.IPV4: found} if found else {}

    def excuse(self, seconds: float = 3.0 + ENDS) -> None:
        """Allow an empty Service for a while: a failure has taken its endpoints.

        The scaler sees it up to 3 seconds later. Pods that end until then conceal it.
        """
        self.excused_until = max(self.excused_until, self.now + seconds)

    def happen(self) -> None:
        chance = self.chance
        if chance.random() < 0.03:
            self.load = chance.choice((0, 0, 0, 0, 0.5, 12))
        self.ready += sum(at <= self.now for at in self.starts)
        self.starts = [at for at in self.starts if at > self.now]
        if self.now >= self.ends_at:
            self.ready = min(self.ready, self.replicas)
        if self.ready and chance.random() < 0.001:
            self.starts += [self.now + 5] * self.ready
            self.ready = 0
            self.excuse()
        if chance.random() < 0.01:  # an activator is added
            self.activators[chance.choice(ACTIVATORS)] = (float("inf"), True)
        if chance.random() < 0.01 and len(self.present().get(SliceFamily.IPV4, ())) > 1:
            leaving = chance.choice(self.present()[SliceFamily.IPV4])
            self.activators[leaving] = (self.now + DRAIN, False)
        self.activators = {
            each: (until, listed)
            for each, (until, listed) in self.activators.items()
            if until > self.now
        }
        if chance.random() < 0.001:  # the scaler is killed; its requests may still be carried out
            self.scaler = Scaler(self)
        if chance.random() < 0.001 and self.api.slices:
            self.api.delete("shop", "hello-activator")
            self.excuse()
        if chance.random() < 0.001 and self.api.slices:
            self.api.edit("shop", "hello-activator", lambda obj: obj.update(endpoints=[]))
            self.excuse()

    def list_pods(self) -> None:
        """List the ready pods, as Kubernetes does for the pods-service; it sends changes alone."""
        if self.ready == self.kept_pods:
            return
        self.kept_pods = self.ready
        pods = slice_of(*(endpoint(f"10.0.0.{n}") for n in range(self.ready)), of="hello-pods")
        self.kept.put(ObjectKey("EndpointSlice", "shop", "hello-pods-1"), pods)
        self.scaler.takeovers.touch(HELLO, self.now)

    def check(self) -> None:
        """Assert that no proxy has an empty Service."""
        slice_ = self.api.slices.get(("shop", "hello-activator"), {})
        listed = frozenset(
            address
            for endpoint in slice_.get("endpoints") or ()
            for address in endpoint["addresses"]
        )
        self.pods.append(self.ready)
        self.listed.append(listed)
        serving = {each.ip for each in self.activators}
        is_without_pods = self.is_front or not self.ready or not all(self.pods)
        if self.is_front:
            serving |= {f"10.0.0.{n}" for n in range(min(self.pods))}
        is_without_activators = not all(listed & serving for listed in self.listed)
        if not (is_without_pods and is_without_activators):
            self.empty_since = None
        elif self.empty_since is None:
            self.empty_since = self.now
            assert self.now < self.excused_until, f"at {self.now}"
        else:  # a failure caused it, and then requests of the scaler failed
            assert self.now < self.empty_since + HEALS, f"from {self.empty_since}"

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.now += STEP
            self.happen()
            self.list_pods()
            self.scaler.tick()
            self.serve()
            self.check()


@pytest.mark.untraced
def test_no_request_meets_an_empty_service() -> None:
    slept = 0
    for seed in SEEDS:
        with naming("seed", seed):
            world = World(seed)
            world.run(3000)
            slept += bool(world.slept)
    assert slept >= len(SEEDS) // 2, "the walk must show something"

"""Clients connect to a plain Service itself, by takeover or front."""

from __future__ import annotations

import asyncio

from activator.lab.client import open_and_close
from activator.lab.local_activator import Where
from activator.lab.plain.environment import PlainEnvironment
from activator.lab.plain.handles import ServiceHandle
from activator.lab.scenario import Scenario

RATE = 100
TIMES = 10
#: Seconds from a change of an EndpointSlice to its effect on new connections.
DELAY = 0.3
#: A pod serves new connections for this long after the last one, as a preStop hook achieves.
DRAIN = "--quiet-period=1.0"


async def takeover(environment: PlainEnvironment) -> None:
    """Run scenario 22: as scenario 21, with clients that connect to the Service itself."""
    base = environment.base
    annotations = {"owner": "none", "route": "takeover"}
    web = await environment.deploy(replicas=1, annotations=annotations, arguments=[DRAIN])
    where = await web.open(DELAY)
    await base.until(lambda: _leads_to_pods(web), "clients reach the pods")
    async with base.load(web, rate=RATE, where=where) as load:
        await load.more(RATE // 10)
        environment.roll_out(web, "b")
        await web.pods[0].until("stopped")
        for _ in range(TIMES):
            pod, before = web.pods[-1], len(web.pods)
            web.scale(0)
            await web.until_more_than(before)
            await pod.until("stopped")
            await web.pods[-1].until("responded")
            await web.until_listed(1)
        await load.more(RATE // 10)
    statuses = load.statuses("GET")
    base.expect("each request gets 200", set(statuses) == {200}, statuses)
    straight = [await pod.counters() for pod in web.pods[-1:]]
    base.expect("pods that are ready get the connections", straight[0]["requests"] > 0, straight)


def _leads_to_pods(web: ServiceHandle) -> bool:
    places = {(pod.options.address, pod.options.port) for pod in web.pods}
    return bool(web.endpoints) and set(web.endpoints) <= places


TAKEOVER = Scenario(
    22,
    "plain-takeover",
    f"The same with clients that connect to the Service itself, {RATE} a second",
    kubernetes="refuses all connections while there is no pod, and starts none.",
    here="the activators are endpoints of the Service while it sleeps; no request is lost.",
    plain=takeover,
)


#: Seconds from a change of an EndpointSlice to its effect on new connections.
SLEEP_DELAY = 1.0
#: Seconds between two connections.
PERIOD = 0.02
#: Seconds for which a new leader removes no pod, and then the last pod goes.
SLEEPS_WITHIN = 90.0
SLEEP_DRAIN = "--quiet-period=2.0"


async def sleep(environment: PlainEnvironment) -> None:
    """Run scenario 23: the scaler puts a Deployment to sleep behind its takeover slice."""
    base = environment.base
    annotations = {"route": "takeover", "idle-seconds": "5"}
    web = await environment.deploy(replicas=1, annotations=annotations, arguments=[SLEEP_DRAIN])
    where = await web.open(SLEEP_DELAY)
    await base.until(lambda: web.endpoints, "clients find an endpoint")
    knocking = base.tasks.create_task(_knock(where))
    (pod,) = web.pods
    async with asyncio.timeout(SLEEPS_WITHIN):
        while web.replicas:
            base.changed.clear()
            await base.changed.wait()
    base.expect(
        "the activators are endpoints before the last pod goes",
        any("targetRef" not in each for each in environment.cluster.listed(web.name)),
    )
    await pod.until("stopped")
    response = await base.request(web, where=where)
    base.expect("a request of a client wakes it", response.status == 200, response)
    await web.pods[-1].until("responded")
    knocking.cancel()
    await asyncio.wait([knocking])
    base.expect("no connection was refused meanwhile", not web.refused, web.refused)


async def _knock(where: Where) -> None:
    """Open connections without a request, which no component counts, until cancelled."""
    while True:
        await open_and_close(*where)
        await asyncio.sleep(PERIOD)


SLEEP = Scenario(
    23,
    "plain-sleep",
    "The scaler removes the last pod of a Service with route takeover (over a minute)",
    kubernetes="has no scaler that removes the last pod; without one, it refuses connections.",
    here="the activators are endpoints of the Service before the last pod goes; no connection is "
    "refused.",
    plain=sleep,
    is_long=True,
)


FRONT_RATE = 60
#: The delay of each response: two pods with one request at a time process 40 a second.
SLOW = "/sleep?ms=50"
ANNOTATIONS = {"owner": "none", "route": "front", "pods-service": "web-pods"}


async def front(environment: PlainEnvironment) -> None:
    """Run scenario 31: a concurrency limit holds for clients that connect to the Service itself."""
    base = environment.base
    annotations = {**ANNOTATIONS, "container-concurrency": "1"}
    web = await environment.deploy(replicas=2, annotations=annotations, arguments=[DRAIN])
    where = await web.open(0.3)  # seconds until a changed slice has an effect
    await base.until(lambda: web.endpoints, "clients find an endpoint")
    async with base.load(web, rate=FRONT_RATE, where=where, target=SLOW) as load:
        await load.more(FRONT_RATE)
        most = [(await pod.counters())["maxInFlight"] for pod in web.pods]
        web.scale(0)
        await base.until(lambda: len(web.pods) == 3, "the scaler starts a pod")
        for pod in web.pods[:2]:
            await pod.until("stopped")
        await web.pods[-1].until("responded")
    most.append((await web.pods[-1].counters())["maxInFlight"])
    base.expect("no pod ever has more than one request", most == [1, 1, 1], most)
    statuses = load.statuses("GET")
    base.expect("each request gets 200", set(statuses) == {200}, statuses)


FRONT = Scenario(
    31,
    "plain-front",
    f"Two pods that take one request at a time get {FRONT_RATE} a second, and go to zero and back",
    kubernetes="has no such limit, and refuses connections while there is no pod.",
    here="the limit holds, since the activators are the only endpoints; no request is lost.",
    plain=front,
)

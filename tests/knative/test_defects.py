"""Defects that Knative's activator shows when it runs, and that this activator must not have.

No Go test covers them; experiments with the program found each.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from fnmatch import fnmatch

import pytest

from tests.activator.proxy.world import PodConnection
from tests.knative.objects import private, private_service, public, revision
from tests.knative.peers import to
from tests.knative.pods import (
    PASSES,
    UNAVAILABLE,
    Reaction,
    ScriptedPod,
    after,
    breaks,
    chunked,
    http,
    slowly,
)
from tests.knative.world import World

NewWorld = Callable[..., Awaitable[World]]


async def served(world: World, **spec: object) -> ScriptedPod:
    (pod,) = await world.serving(1)
    world.apply(revision(**spec), private([pod.at]))  # type: ignore[arg-type] # any option
    await world.passes()
    return pod


@pytest.mark.parametrize("waits", [False, True], ids=["in flight", "queued"])
async def test_a_client_that_ends_its_sending_gets_its_response(world: World, waits: bool) -> None:
    """``nc -N`` ends its sending. In Knative: an empty 200 in flight, an empty 500 in the queue."""
    pod = await world.pod(UNAVAILABLE if waits else PASSES)
    pod.pieces = after(5)
    world.apply(revision(), private([pod.at]))
    await world.passes()
    client = await world.call()
    client.end_sending()
    await world.passes(2)
    pod.reacts(PASSES)
    answer = await client.answer()
    assert (answer.status, answer.body) == (200, b"hi")


async def test_trailers_of_a_request_reach_the_pod(world: World) -> None:
    """In Knative their announcement reaches the pod, and the trailers do not."""
    pod = await served(world)
    fields = b"Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n"
    data = to(method=b"POST", fields=fields) + b"2\r\nhi\r\n0\r\nX-Sum: 7\r\n\r\n"
    assert (await world.ask(data, b"POST")).status == 200
    (seen,) = pod.traffic
    assert [name.lower() for name in seen.all(b"trailer")] == [b"x-sum"]
    assert seen.trailers == [(b"x-sum", b"7")]


async def test_who_waits_longest_is_served_first(world: World) -> None:
    """No later request overtakes. In Knative one overtook a hundred."""
    (pod,) = await world.serving(1, holding=True)
    world.apply(revision(cc=1), private([pod.at]))
    await world.passes()
    for number in range(20):
        await world.call(to(target=b"/%d" % number))
    for number in range(20):
        await world.until(lambda: pod.in_flight)
        assert pod.traffic[-1].target == b"/%d" % number
        await world.call(to(target=b"/late"))
        pod.release(1)


async def test_a_negative_limit_is_refused_and_harms_nothing_else(world: World) -> None:
    """The Revision keeps its last valid state, and others work. In Knative the process ends."""
    (pod,) = await world.serving(1)
    for name in ("good", "other"):
        world.apply(revision(name, cc=1), private([pod.at], name=name))
    await world.passes()
    world.apply(revision("good", cc=-1), revision("new", cc=-1))
    await world.passes()
    for name, status in (("good", 200), ("other", 200), ("new", 404)):
        assert (await world.ask(to(name))).status == status


async def test_a_slow_pod_delays_no_other_revision(world: World) -> None:
    """Endpoints that arrive while another revision's probe hangs are used at once.

    In Knative they wait for the end of that round of probes, for at most 3.2 s.
    """
    slow, quick = await world.pod(slowly(60)), await world.pod()
    world.apply(revision("slow"), private([slow.at], name="slow"))
    await world.passes()
    world.apply(revision("quick"), private([quick.at], name="quick"))
    started = world.now()
    assert await (await world.call(to("quick"))).text() == quick.name
    assert world.now() - started < 0.05


async def test_endpoints_may_come_before_their_revision(new_world: NewWorld) -> None:
    """This holds for private and public Endpoints. Knative ignores both."""
    world = await new_world(pod_ip="10.0.0.2", borrow="false")
    pods = await world.serving(2, holding=True)
    world.apply(private(pod.at for pod in pods), public(["10.0.0.1", "10.0.0.2"]))
    await world.passes()
    world.apply(revision(cc=1))
    await world.passes()
    await world.calls(2)
    await world.passes()
    assert world.load() == {"pod-1": 1}


async def test_a_piece_of_a_response_is_passed_on_when_it_comes(world: World) -> None:
    """This also holds with a Content-Length. In Knative a piece waits for 4 KiB or the end."""
    pod = await served(world)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n"
    pod.pieces = [(0, head + b"four"), (30, b"more")]
    started = world.now()
    client = await world.call()
    await world.until(lambda: client.received.endswith(b"four"))
    assert world.now() - started < 0.1
    assert await client.text() == "fourmore"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", id="both framings"),
        pytest.param(b"X-Folded: a\r\n b\r\n", id="a folded line"),
        pytest.param(b"Transfer-Encoding: gzip, chunked\r\n", id="another coding"),
        pytest.param(b"Content-Length: 5, 5\r\nContent-Length: 6\r\n", id="two lengths"),
    ],
)
async def test_what_can_be_read_in_two_ways_is_refused(world: World, fields: bytes) -> None:
    """The activator also closes the connection. Knative forwards some, and leaves it open."""
    pod = await served(world)
    client = await world.call(to(method=b"POST", fields=fields) + b"0\r\n\r\n")
    answer = await client.answer(b"POST")
    assert answer.status in (400, 501)
    assert answer.get(b"connection") == b"close"
    await client.ended()
    assert not pod.traffic


async def test_chunked_in_http_1_0_loses_no_body(world: World) -> None:
    """The activator refuses it. In Knative the pod gets an empty body, and the client a 200."""
    pod = await served(world)
    data = to(method=b"POST", fields=b"Transfer-Encoding: chunked\r\n").replace(b"/1.1", b"/1.0")
    assert (await world.ask(data + b"2\r\nhi\r\n0\r\n\r\n", b"POST")).status == 400
    assert not pod.traffic


async def test_a_wrong_http_2_preface_reaches_no_pod(world: World) -> None:
    """The client sends ``PRI *``, but not the rest of the preface."""
    pod = await served(world)
    client = await world.call(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n")
    await client.ended()
    assert not pod.traffic


#: queue-proxy's response to a request without its application, and to a probe while it waits for
#: the application.
NOT_THERE = http(
    b"dial tcp 127.0.0.1:8080: connect: connection refused\n",
    502,
    b"Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n",
)


@pytest.mark.parametrize("restarts", [UNAVAILABLE, breaks], ids=["503", "reset"])
async def test_a_container_that_restarts_is_no_mesh(
    world: World, caplog: pytest.LogCaptureFixture, restarts: Reaction
) -> None:
    """queue-proxy responds 503 to the probe, as a mesh does.

    The pod has passed a probe earlier, so it is reachable and its requests wait. In Knative they
    all go to the ClusterIP from then on.
    """
    caplog.set_level(logging.INFO, "activator")
    pods = await world.serving(2)
    cluster_ip = await world.pod()
    world.apply(revision(), private_service(cluster_ip.at), private(pod.at for pod in pods))
    assert (await world.ask()).status == 200
    for pod in pods:
        pod.reacts(restarts)
        pod.answer = NOT_THERE
    clients = await world.calls(10)
    await world.passes(20)
    assert await world.outcome(clients) == {"waits": 10}
    for pod in pods:
        pod.reacts(PASSES)
        pod.answer = http(b"back")
    assert Counter([await client.text() for client in clients]) == {"back": 10}
    assert not cluster_ip.traffic
    assert "out of reach" not in caplog.text
    assert "ClusterIP" not in caplog.text


async def test_a_mesh_that_comes_between_us_and_a_pod_that_was_reached_is_noticed(
    world: World,
) -> None:
    """No pod passes a probe for longer than a restart takes, so requests go to the ClusterIP. They
    go there at once if no pod ever passed, and back to the first pod that passes a probe."""
    pod, cluster_ip = await world.serving(2)
    world.apply(revision(), private_service(cluster_ip.at), private([pod.at]))
    assert await (await world.call()).text() == pod.name
    await pod.refuse()
    for connection in pod.open:
        connection.reset()
    client = await world.call()
    await world.passes(50)
    assert await world.outcome([client]) == {"waits": 1}
    await world.passes(20)
    assert await client.text() == cluster_ip.name
    fresh = await world.pod(UNAVAILABLE)
    world.apply(private([fresh.at]))
    await world.passes()
    asked = world.now()
    assert await (await world.call()).text() == cluster_ip.name
    assert world.now() - asked < 1
    fresh.reacts(PASSES)
    await world.passes(40)
    assert await (await world.call()).text() == fresh.name


def hangs(connection: PodConnection) -> None:
    """A stopped process: its kernel accepts the bytes, and the process does not respond."""


async def used(world: World, count: int) -> Counter[str]:
    """Send requests one after the other; return the pods that responded."""
    return Counter([await (await world.call()).text() for _ in range(count)])


@pytest.mark.parametrize("cc", [1, 10, 0])
async def test_a_pod_that_hangs_gets_no_more_requests(
    world: World, caplog: pytest.LogCaptureFixture, cc: int
) -> None:
    """A probe after 5 s of silence ejects the pod; the next passed probe brings it back. In Knative
    it gets its share of all requests until Kubernetes lists it as not ready."""
    caplog.set_level(logging.INFO, "activator")
    stuck, well = await world.serving(2)
    world.apply(revision(cc=cc), private([stuck.at, well.at]))
    await world.passes()
    stuck.holding = True
    stuck.reacts(hangs)
    held = []
    while not stuck.in_flight:
        held.append(await world.call())
        await world.passes(0.01)
    await world.passes(5 + 1 + 1 + 0.1)  # until a scan finds it silent and its probe times out
    before = len(stuck.traffic)
    assert await used(world, 30) == {well.name: 30}
    assert len(stuck.traffic) == before
    why = "its probe failed: no response in * s, after * s without a response to 1 request; no *"
    assert [fnmatch(line, f"pod {stuck.host}:*: {why}") for line in caplog.messages].count(
        True
    ) == 1

    view = await world.api()
    (pod,) = [pod for pod in view["pods"] if pod["address"].startswith(stuck.host)]
    assert (pod["decision"], pod["decidedBy"], pod["inFlight"]) == ("wait", "probe-failed", 1)
    assert 7 < pod["silentSeconds"] < 8

    stuck.reacts(PASSES)
    stuck.holding = False
    stuck.release()
    assert {await client.text() for client in held} <= {stuck.name, well.name}
    await world.passes(3)
    assert stuck.name in await used(world, 50)


async def test_a_lone_pod_that_hangs_keeps_no_request_that_comes_later(world: World) -> None:
    """The request is queued, then goes to another pod, or to this one once it recovers."""
    (stuck,) = await world.serving(1, holding=True)
    world.apply(revision(), private([stuck.at]))
    await world.passes()
    first = await world.call()
    stuck.reacts(hangs)
    await world.passes(8)
    second = await world.call()
    await world.passes(20)
    assert stuck.in_flight == 1
    assert (await world.api())["reason"] == "probe-failing"
    other = await world.pod()
    world.apply(private([stuck.at, other.at]))
    assert await second.text() == other.name
    stuck.release()
    assert await first.text() == stuck.name


async def test_a_pod_that_computes_for_long_stays_in_use_and_is_probed_seldom(
    world: World,
) -> None:
    """Its queue-proxy responds to probes."""
    (pod,) = await world.serving(1)
    pod.pieces = after(120)
    world.apply(revision(), private([pod.at]))
    await world.passes()
    client = await world.call()
    probed = len(pod.probes)
    states = set()
    for _ in range(60):
        await world.passes(2)
        (view,) = (await world.api())["pods"]
        states.add((view["state"], view["decision"]))
    assert states == {("healthy", "use")}
    assert await client.text() == "hi"
    assert len(pod.probes) - probed <= 120 / 10


async def test_a_pod_that_streams_for_long_stays_in_use(world: World) -> None:
    """One response lasts two minutes and no other begins: the pod stays healthy."""
    (pod,) = await world.serving(1)
    pod.pieces = chunked(*((float(second), b"more") for second in range(120)))
    world.apply(revision(cc=1), private([pod.at]))
    await world.passes()
    client = await world.call()
    await world.passes(60)
    (view,) = (await world.api())["pods"]
    assert (view["state"], view["usable"]) == ("healthy", True)
    assert await client.text() == "more" * 120

"""Requests for plain Services: lookup, the request that a pod gets, and the end of connections."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from activator.proxy.client.connection import ClientPort
from activator.proxy.exchange.placement import ClientAddresses
from activator.settings.values import NETWORKS
from tests.activator.proxy.bound import Bound
from tests.activator.proxy.http2.peers import Http2Pod, Http2World, Peer
from tests.activator.proxy.world import Pod, World, request, until
from tests.conftest import both_loops
from throttler.capacity import ActivatorShare
from throttler.model import AppProtocol, Endpoint, ListedEndpoints, RevisionKind

H2C = AppProtocol.H2C
HOST = b"shop.example.com"


def asking(host: bytes = HOST, fields: bytes = b"", method: bytes = b"GET") -> bytes:
    return b"%b /a HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (method, host, fields)


async def served(world: World, **spec: Any) -> Pod:
    """A plain Service with one healthy pod, found by its host."""
    pod = await world.pod()
    throttler = world.serve(pod, hosts=[HOST.decode()], **spec)
    await until(lambda: throttler.statistics().healthy == 1)
    return pod


# -- what a pod gets ----------------------------------------------------------------------------


@both_loops
async def test_a_pod_gets_the_clients_host_and_no_field_of_knative(world: World) -> None:
    pod = await served(world)
    fields = (
        b"X-Forwarded-For: 10.0.0.9\r\nK-Original-Host: forged\r\nK-Proxy-Request: forged\r\n"
        b"Activator-Service: ns/rev\r\nK-Network-Hash: x\r\nAccept: */*\r\n"
    )
    assert (await world.ask(asking(HOST + b":8080", fields))).status == 200
    (seen,) = pod.requests
    assert seen.headers == [
        (b"Host", HOST + b":8080"),
        (b"X-Forwarded-For", b"10.0.0.9, 127.0.0.1"),
        (b"Accept", b"*/*"),
    ]


@pytest.mark.parametrize("traced", [False, True])
async def test_a_traced_request_keeps_its_host(world: World, traces: Any, traced: bool) -> None:
    pod = await served(world)
    if not traced:
        world.proxy.services.tracer = None
    assert (await world.ask(asking())).status == 200
    assert pod.requests[0].all(b"host") == [HOST]
    assert not pod.requests[0].all(b"k-original-host")


def knocks(client: Peer, *fields: tuple[bytes, bytes], host: bytes = HOST) -> int:
    """Begin a request of HTTP/2; return its stream."""
    stream = int(client.h2.get_next_available_stream_id())
    head = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/a"), (b":authority", host)]
    client.headers(stream, [*head, *fields], end=True)
    return stream


async def http2_service(http2: Http2World) -> Http2Pod:
    pod = await http2.pod()
    throttler = http2.world.serve(pod, hosts=[HOST.decode()], protocol=H2C)
    await until(lambda: throttler.statistics().healthy == 1)
    return pod


@both_loops
@pytest.mark.parametrize("traced", [False, True])
async def test_a_pod_of_http2_gets_the_clients_host(
    http2: Http2World, traces: Any, traced: bool
) -> None:
    pod = await http2_service(http2)
    if not traced:
        http2.world.proxy.services.tracer = None
    client = await http2.client()
    forged = (b"k-original-host", b"forged"), (b"cookie", b"secret")
    for _ in range(2):
        answer = await client.answer(knocks(client, *forged, (b"x-forwarded-for", b"10.0.0.9")))
        assert answer.body == b"hello"
    for seen in pod.requests:
        names = [name for name, _ in seen.headers]
        assert names[:4].count(b":authority") == 1
        assert seen.all(b":authority") == [HOST]
        assert seen.all(b"x-forwarded-for") == [b"10.0.0.9, 127.0.0.1"]
        assert seen.all(b"cookie") == [b"secret"]
        assert not [name for name in names if name.startswith((b"k-", b"knative"))]


async def test_a_client_of_http1_reaches_a_port_of_http2(http2: Http2World) -> None:
    pod = await http2_service(http2)
    assert (await http2.world.ask(asking())).body == b"hello"
    (seen,) = pod.requests
    assert seen.all(b":authority") == [HOST]
    assert seen.all(b"x-forwarded-for") == [b"127.0.0.1"]
    assert not seen.all(b"k-original-host")


async def test_a_client_of_http2_reaches_a_port_of_http1_without_a_try(http2: Http2World) -> None:
    world = http2.world
    pod = await served(world)
    client = await http2.client()
    answer = await client.answer(knocks(client))
    assert (answer.status, answer.body) == (200, b"hello")
    (seen,) = pod.requests
    assert (seen.version, seen.all(b"host")) == (b"1.1", [HOST])
    assert not any(each.received.startswith(b"PRI") for each in pod.connections)


@pytest.mark.parametrize("status", [502, 503])
async def test_words_of_queue_proxy_pass_as_the_applications_own(world: World, status: int) -> None:
    pod = await served(world)
    body = (
        b"pending request queue full\n"
        if status == 503
        else (b"dial tcp 127.0.0.1:8080: connect: connection refused\n")
    )
    pod.answer = (
        b"HTTP/1.1 %d Bad\r\nContent-Type: text/plain; charset=utf-8\r\n"
        b"X-Content-Type-Options: nosniff\r\nContent-Length: %d\r\n\r\n%b"
        % (status, len(body), body)
    )
    answer = await world.ask(asking())
    assert (answer.status, answer.body) == (status, body)
    assert len(pod.requests) == 1
    assert (await world.ask(asking())).status == status, "one response ejects no pod"


# -- which Service is meant -----------------------------------------------------------------------


async def test_the_field_wins_over_the_host(world: World) -> None:
    by_host, by_field = await served(world), await world.pod()
    world.serve(by_field, name="other")
    await world.ask(asking(fields=b"Activator-Service: ns/other \r\n"))
    await world.ask(
        asking(fields=b"activator-service: ns/other\r\nActivator-Service: ns/other\r\n")
    )
    assert (len(by_host.requests), len(by_field.requests)) == (0, 2)
    assert not by_field.requests[1].all(b"activator-service")


async def test_the_field_counts_only_from_clients_that_may_send_it(world: World) -> None:
    """From others it is absent, and no pod gets it."""
    by_host, by_field = await served(world), await world.pod()
    world.serve(by_field, name="other")
    for networks, is_trusted in (
        ("always", True),
        ("never", False),
        ("", False),
        ("127.0.0.0/8", True),
        ("10.0.0.0/8, fd00::/8", False),
        ("10.0.0.0/8,127.0.0.1", True),
    ):
        world.proxy.services.namers = ClientAddresses(NETWORKS.parse(networks))
        by_host.requests.clear()
        by_field.requests.clear()
        assert (await world.ask(asking(fields=b"Activator-Service: ns/other\r\n"))).status == 200
        assert (len(by_host.requests), len(by_field.requests)) == (
            (0, 1) if is_trusted else (1, 0)
        ), networks
        [seen] = by_host.requests + by_field.requests
        assert not seen.all(b"activator-service")
    stranger = b"GET / HTTP/1.1\r\nHost: unknown\r\nActivator-Service: ns/other\r\n\r\n"
    world.proxy.services.namers = ClientAddresses()
    answer = await world.ask(stranger)
    assert (answer.status, b"unknown" in answer.body) == (404, True)


async def test_the_field_counts_from_the_other_activators_of_the_service(world: World) -> None:
    """They pass on requests for pods that they do not own, also where no client may name any."""
    await served(world)
    pod = await world.pod()
    throttler = world.serve(pod, name="other")
    world.proxy.services.namers = ClientAddresses()
    for peer, requests in (("127.0.0.1", 1), ("127.0.0.11", 1), ("[127.0.0.1]", 2)):
        share = ActivatorShare(0, 2, (f"{peer}:8012", "10.0.0.9:8012"))
        world.driver.carry_out(throttler.set_share(share, world.driver.clock()))
        assert (await world.ask(asking(fields=b"Activator-Service: ns/other\r\n"))).status == 200
        assert len(pod.requests) == requests, peer


@both_loops
async def test_the_field_names_nothing_else_than_a_service(world: World) -> None:
    pod = await served(world)
    world.revise(name="only-a-revision")
    for name in (b"ns/none", b"rev", b"", b"/", b"ns/only-a-revision"):
        answer = await world.ask(asking(fields=b"Activator-Service: %b\r\n" % name))
        assert answer.status == 404
        assert (answer.get(b"activator-reason") or b"").startswith(b"unknown-revision")
        body = (
            b'the activator knows no annotated Service "%b"' % name
            if name.startswith(b"ns/")
            else b"the header Activator-Service has the form NAMESPACE/NAME"
        )
        assert not name or answer.body.rstrip() == body
    assert not pod.requests
    assert len(world.driver.entries) == 0, "invented names take no memory"


async def test_without_knative_an_unknown_host_gets_no_text_of_knative(new_world: Any) -> None:
    world = await new_world(knative=False)
    pod = await served(world)
    assert (await world.ask(asking())).status == 200
    for host in (b"no.example.com:80", b"rev.ns.svc.cluster.local"):
        for fields in (b"", b"Knative-Serving-Revision: rev\r\n"):
            answer = await world.ask(asking(host, fields))
            name = host.partition(b":")[0]
            assert (answer.status, answer.body) == (
                404,
                b'no annotated Service has the host "%b"\n' % name,
            )
            assert answer.get(b"activator-reason") == (
                b"unknown-revision; name the host in activator.dev/hosts, or send Activator-Service"
            )
    assert len(pod.requests) == 1
    told = json.loads((await world.ask(asking(b"x", b"Accept: application/json\r\n"))).body)
    assert told["title"] == "No annotated Service and no rule of a route object fits the request."


async def test_with_both_dialects_an_unknown_host_gets_a_text_about_both(world: World) -> None:
    await served(world)
    answer = await world.ask(asking(b"No.example.com:80"))
    assert (answer.status, answer.body) == (
        404,
        b'no Revision and no annotated Service has the host "no.example.com"\n',
    )
    reason = answer.get(b"activator-reason") or b""
    assert reason.startswith(b"unknown-revision; give Knative-Serving-Namespace and ")
    named = await world.ask(asking(b"no.example.com", b"Knative-Serving-Revision: rev\r\n"))
    assert named.body.startswith(b"Error getting active endpoint: ")


async def test_problem_details_name_a_service_in_a_member_of_its_own(world: World) -> None:
    json_only = b"Accept: application/json\r\n"
    world.serve(hosts=[HOST.decode()], timeout=0.05)
    told = json.loads((await world.ask(asking(HOST, json_only))).body)
    assert (told["namespace"], told["service"], told["revision"]) == ("ns", "rev", "rev")
    assert told["title"] == "Kubernetes lists no pod of this Service."
    unknown = b"Activator-Service: ns/none\r\n" + json_only
    told = json.loads((await world.ask(asking(HOST, unknown))).body)
    assert (told["namespace"], told["service"], told["revision"]) == ("ns", "none", "none")


async def test_a_service_whose_pod_is_the_activator_gets_508_after_some_rounds(
    http2: Http2World,
) -> None:
    world = http2.world
    world.healthy = lambda tracker: True
    throttler = world.serve(hosts=[HOST.decode()])
    itself = ListedEndpoints(frozenset({Endpoint(f"127.0.0.1:{world.port}", "u1")}))
    world.driver.set_endpoints(throttler.revision.id, {AppProtocol.HTTP1: itself})
    answer = await world.ask(asking())
    assert answer.status == 508
    assert answer.get(b"activator-reason") == (
        b"bad-request; X-Forwarded-For has 32 addresses: the request passes the activator again "
        b"and again"
    )
    client = await http2.client()
    assert (await client.answer(knocks(client))).status == 508
    world.driver.set_endpoints(throttler.revision.id, {})  # closes the idle connections


async def test_a_request_with_the_header_of_knatives_ingress_has_no_limit_of_addresses(
    world: World,
) -> None:
    await world.serving()
    hops = b"X-Forwarded-For: " + b", ".join([b"10.0.0.1"] * 99) + b"\r\n"
    assert (await world.ask(request(fields=hops))).status == 200


async def test_two_names_are_refused_in_both_versions(http2: Http2World) -> None:
    world = http2.world
    pod = await served(world)
    world.serve(name="other")
    two = b"Activator-Service: ns/rev\r\nActivator-Service: ns/other\r\n"
    answer = await world.ask(asking(fields=two))
    assert (answer.status, answer.body) == (
        400,
        b"400 Bad Request: activator-service occurs twice with different values",
    )
    client = await http2.client()
    name = b"activator-service"
    refused = await client.answer(knocks(client, (name, b"ns/rev"), (name, b"ns/other")))
    assert refused.status == 400
    assert (await client.answer(knocks(client, (name, b"ns/rev"), (name, b"ns/rev")))).status == 200
    assert len(pod.requests) == 1


async def test_a_service_and_a_revision_with_one_name_are_two(world: World) -> None:
    plain = await served(world)
    revision = await world.serving()
    await world.ask()
    await world.ask(asking())
    await world.ask(asking(b"rev.ns.svc.cluster.local"))
    assert (len(plain.requests), len(revision.requests)) == (1, 2)
    kinds = [entry.throttler.revision.id.kind for entry in world.driver.entries]
    assert sorted(kinds) == [RevisionKind.REVISION, RevisionKind.SERVICE]


async def test_knatives_fields_win_over_the_field_of_a_service(world: World) -> None:
    plain = await served(world)
    revision = await world.serving()
    names = b"Knative-Serving-Namespace: ns\r\nKnative-Serving-Revision: rev\r\n"
    await world.ask(asking(fields=b"Activator-Service: ns/rev\r\n" + names))
    assert (len(plain.requests), len(revision.requests)) == (0, 1)
    assert not revision.requests[0].all(b"activator-service")


@pytest.mark.parametrize("size", [1, 7])
async def test_the_field_counts_however_its_bytes_arrive(world: World, size: int) -> None:
    pod, other = await served(world), await world.pod()
    world.serve(other, name="other")
    client = await world.client()
    data = asking(fields=b"Activator-Service: ns/other\r\n") + asking()
    for at in range(0, len(data), size):
        client.send(data[at : at + size])
    assert (await client.answer()).status == 200
    assert (await client.answer()).status == 200, "the request behind it goes by its host"
    assert (len(other.requests), len(pod.requests)) == (1, 1)


# -- a port of one Service ----------------------------------------------------------------------


@pytest.fixture
async def bound(world: World) -> AsyncIterator[Bound]:
    bound = Bound(world, ClientPort(b"ns/rev"))
    await bound.open()
    yield bound
    bound.close()


@both_loops
async def test_the_port_of_a_service_decides_alone(world: World, bound: Bound) -> None:
    pod, other = await served(world), await world.pod()
    world.serve(other, name="other", hosts=["other.example.com"])
    client = await bound.client()
    for host in (b"10.0.0.1", b"other.example.com", HOST):
        client.send(asking(host))
        assert (await client.answer()).status == 200
    world.revise(other, name="private")
    names = b"Knative-Serving-Namespace: ns\r\nKnative-Serving-Revision: private\r\n"
    for fields in (names, b"Activator-Service: ns/other\r\n"):
        client.send(asking(fields=fields))
        assert (await client.answer()).status == 200
    assert (len(pod.requests), len(other.requests)) == (5, 0)
    assert not pod.requests[-1].all(b"activator-service")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"k-network-probe", b"activator"),
        (b"user-agent", b"kube-probe/1.36"),
        (b"k-kubelet-probe", b"kube-probe"),
        (b"activator-service", b"ns/one, ns/two"),
    ],
)
async def test_a_probe_on_the_port_of_a_service_goes_to_the_pod(
    world: World, bound: Bound, name: bytes, value: bytes
) -> None:
    pod = await served(world)
    client, http2 = await bound.client(), await bound.http2_client()
    client.send(asking(fields=b"%b: %b\r\n" % (name, value)))
    assert (await client.answer()).status == 200
    assert (await http2.answer(knocks(http2, (name, value)))).status == 200
    assert len(pod.requests) == 2


async def test_clients_are_asked_to_reconnect_once_the_pods_are_reachable(
    world: World, bound: Bound
) -> None:
    pod = await served(world)
    client, shared = await bound.client(), await world.client()
    for each in (client, shared):
        each.send(asking())
        assert (await each.answer()).get(b"connection") is None
    bound.port.reconnect = True
    for each in (client, shared):
        each.send(asking())
    assert (await client.answer()).get(b"connection") == b"close"
    await client.ended()
    assert (await shared.answer()).get(b"connection") is None, "an ingress keeps its connections"
    assert len(pod.requests) == 4


async def test_own_responses_end_the_connection_too(world: World, bound: Bound) -> None:
    bound.port.reconnect = True
    client = await bound.client()
    client.send(asking())
    answer = await client.answer()
    assert (answer.status, answer.get(b"connection")) == (404, b"close")
    await client.ended()


async def test_a_client_of_http2_gets_goaway_after_its_response(
    http2: Http2World, bound: Bound
) -> None:
    world = http2.world
    await served(world)
    client = await bound.http2_client()
    assert (await client.answer(knocks(client))).status == 200
    assert client.goaway is None
    bound.port.reconnect = True
    assert (await client.answer(knocks(client))).status == 200
    await until(lambda: client.goaway)


async def test_a_client_that_is_never_idle_gets_goaway_when_the_port_insists(
    http2: Http2World, bound: Bound
) -> None:
    world = http2.world
    pod = await served(world)
    pod.on_data = lambda _: None
    client = await bound.http2_client()
    knocks(client)
    await until(lambda: pod.requests)
    bound.port.reconnect = True
    knocks(client)
    await until(lambda: len(pod.requests) == 2)
    assert client.goaway is None
    bound.port.insists = True
    knocks(client)
    await until(lambda: client.goaway)
    assert client.goaway == (2**31 - 1, 0), "no stream is refused yet"
    await until(lambda: len(pod.requests) == 3)


# -- another activator ---------------------------------------------------------------------------


async def test_a_request_that_goes_to_another_activator_names_its_service(
    http2: Http2World,
) -> None:
    """Whatever host or port it came by: the other one may not have that port."""
    world = http2.world
    peer, h2_peer = await world.pod("127.0.0.2"), await http2.pod()
    for name, protocol, at in (("rev", AppProtocol.HTTP1, peer), ("two", H2C, h2_peer)):
        throttler = world.serve(
            *(await world.pod("127.0.0.3"),),  # the only pod, which is in the share of the other
            name=name,
            hosts=[f"{name}.example.com"],
            protocol=protocol,
            container_concurrency=1,
        )
        share = ActivatorShare(1, 2, (at.endpoint.address, "127.0.0.9:8012"))
        await until(lambda throttler=throttler: throttler.statistics().healthy == 1)
        world.driver.carry_out(throttler.set_share(share, world.driver.clock()))
    fields = b"Activator-Service: ns/rev\r\nX-Forwarded-For: 10.0.0.9\r\n"
    assert (await world.ask(asking(b"rev.example.com", fields))).status == 200
    assert peer.requests[0].all(b"activator-service") == [b"ns/rev"]
    assert peer.requests[0].all(b"host") == [b"rev.example.com"]
    assert (await world.ask(asking(b"two.example.com"))).status == 200
    assert h2_peer.requests[0].all(b"activator-service") == [b"ns/two"]

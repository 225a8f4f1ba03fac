"""The parts of a request by which it gets its pod and its place in the queue."""

from __future__ import annotations

import ipaddress
import tracemalloc
from ipaddress import ip_network
from typing import Any, cast

import pytest

from activator.proxy.exchange.placement import (
    ClientAddresses,
    cookie_line,
    flow_of,
    key_of,
    priority_of,
    token_in,
)
from activator.proxy.message.request import Request, RequestLimits, read_request
from tests.activator.proxy.http2.peers import Http2World
from tests.activator.proxy.world import Pod, World, ok, request, until
from tests.rows import in_one_test
from throttler.lb_policy import FirstAvailable
from throttler.model import FlowKey, HashKey, KeyKind, Overflow, Policies, QueueOrder
from throttler.rendezvous import Sticky
from throttler.request_policies import HIGH, LOW, NORMAL

TOKEN, OTHER = b"0123456789abcdef01234567", b"f" * 24
CLIENT_IP = HashKey(kind=KeyKind.CLIENT_IP)
PROXIES = ClientAddresses([ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8")])


STICKY = Sticky(FirstAvailable(), Overflow.OTHER)
STICKY.tokens[TOKEN] = cast(Any, None)  # TOKEN names a usable pod, and OTHER none


def asking(fields: bytes = b"", target: bytes = b"/") -> Request:
    head = b"GET %b HTTP/1.1\r\nHost: example.com\r\n%b\r\n" % (target, fields)
    return read_request(head, RequestLimits())


def key(
    kind: HashKey, fields: bytes = b"", target: bytes = b"/", peer: bytes = b"10.1.2.3"
) -> bytes:
    return key_of(asking(fields, target), kind, STICKY, peer, PROXIES)


def test_a_field_is_the_key_or_the_digest_of_a_long_one() -> None:
    field = HashKey(b"x-user")
    assert key(field, b"X-User: anna\r\n") == b"anna"
    assert key(field) == b""
    assert key(field, b"X-User: anna\r\nX-User: bert\r\n") == b"anna, bert"
    keys = {key(field, b"X-User: " + b"a" * size + b"\r\n") for size in (64, 65, 66, 60_000)}
    assert sorted(map(len, keys)) == [32, 32, 32, 64]


def test_the_path_is_the_target_without_its_query() -> None:
    path = HashKey(kind=KeyKind.PATH)
    assert key(path, target=b"/a/b?c=d?e") == key(path, target=b"/a/b") == b"/a/b"
    assert len(key(path, target=b"/" + b"a" * 5000)) == 32


@in_one_test(
    ("peer", "forwarded", "client"),
    [
        (b"192.0.2.1", b"198.51.100.7", b"192.0.2.1"),  # the peer is no trusted proxy
        (b"10.1.2.3", b"", b"10.1.2.3"),
        (b"10.1.2.3", b"198.51.100.7", b"198.51.100.7"),
        (b"10.1.2.3", b"203.0.113.9, 198.51.100.7", b"198.51.100.7"),
        (b"10.1.2.3", b"203.0.113.9,198.51.100.7:4711", b"198.51.100.7"),
        (b"10.1.2.3", b"[2001:DB8::1]:4711", b"2001:db8::1"),
        (b"10.1.2.3", b"2001:db8:0::1", b"2001:db8::1"),
        (b"fd00::1", b"198.51.100.7", b"198.51.100.7"),
        (b"::ffff:10.1.2.3", b"198.51.100.7", b"198.51.100.7"),  # a socket for both versions
        (b"::ffff:192.0.2.1", b"198.51.100.7", b"192.0.2.1"),
        (b"10.1.2.3", b"198.51.100.7, unknown", b"10.1.2.3"),
        (b"10.1.2.3", b"198.51.100.7,", b"10.1.2.3"),
        (b"10.1.2.3", b"9" * 5000, b"10.1.2.3"),
        (b"10.1.2.3", b"\xff\xfe", b"10.1.2.3"),
    ],
)
def test_the_client_is_the_peer_or_the_last_address_from_a_trusted_proxy(
    peer: bytes, forwarded: bytes, client: bytes
) -> None:
    fields = b"X-Forwarded-For: %b\r\n" % forwarded if forwarded else b""
    assert key(CLIENT_IP, fields, peer=peer) == client


def test_repeated_fields_of_a_trusted_proxy_count_in_their_order() -> None:
    fields = b"X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-For: 198.51.100.7\r\n"
    assert key(CLIENT_IP, fields) == b"198.51.100.7"
    nobody = ClientAddresses()
    assert key_of(asking(fields), CLIENT_IP, None, b"10.1.2.3", nobody) == b"10.1.2.3"


@pytest.mark.untraced
def test_addresses_that_clients_invent_take_little_memory() -> None:
    clients = ClientAddresses()
    tracemalloc.start()
    for number in range(20_000):
        clients.trusts(b"x%d" % number)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 2 << 20, "without a bound it is 5 MB"
    assert key(CLIENT_IP, b"X-Forwarded-For: 198.51.100.7\r\n") == b"198.51.100.7"


@in_one_test(
    ("cookies", "token"),
    [
        (b"activator-pod=" + TOKEN, TOKEN),
        (b"a=b; activator-pod=" + TOKEN + b"; c=d", TOKEN),
        (b"a=b;activator-pod=" + TOKEN + b" ;c=d", TOKEN),
        (b"activator-pod=" + TOKEN + b"; activator-pod=" + OTHER, TOKEN),
        (b"activator-pod=; activator-pod=" + OTHER, OTHER),
        (b"a=b, activator-pod=" + TOKEN, TOKEN),  # repeated fields, joined
        (b"", b""),
        (b"activator-pod=10.0.0.1:8012", b""),
        (b"activator-pod=" + TOKEN.upper(), b""),
        (b"activator-pod=" + TOKEN + b"0", b""),
        (b"activator-pod=" + TOKEN[1:], b""),
        (b'activator-pod="' + TOKEN + b'"', b""),
        (b"my-activator-pod=" + TOKEN, b""),
        (b"activator-pods=" + TOKEN, b""),
        (b"a=activator-pod=" + TOKEN, b""),
        (b"activator-pod=" * 20_000, b""),
        (b"; " * 30_000 + b"activator-pod=" + TOKEN, TOKEN),
    ],
)
def test_only_a_well_formed_token_is_a_key(cookies: bytes, token: bytes) -> None:
    assert token_in(cookies) == token
    assert key(HashKey(kind=KeyKind.COOKIE), b"Cookie: %b\r\n" % cookies) == token


def test_the_cookie_of_a_request_is_read_in_any_spelling() -> None:
    cookie = HashKey(kind=KeyKind.COOKIE)
    assert key(cookie, b"cOOkie: activator-pod=%b\r\n" % TOKEN) == TOKEN
    assert key(cookie, b"Cookie: a=b\r\nCookie: activator-pod=%b\r\n" % TOKEN) == TOKEN
    assert key(cookie) == b""


def test_a_token_in_another_field_is_no_cookie() -> None:
    cookie, other = HashKey(kind=KeyKind.COOKIE), b"X-Debug: activator-pod=%b\r\n" % TOKEN
    assert key(cookie, other) == b""
    assert key(cookie, other + b"Cookie: activator-pod=%b\r\n" % OTHER) == OTHER
    assert key(cookie, b"Cookie: a=b\r\n" + other) == b""
    assert key(cookie, b"Cookie: activator-pod=%b\r\n" % TOKEN + other) == TOKEN


def test_the_cookie_is_for_the_whole_site_and_not_for_scripts() -> None:
    line = b"\r\nSet-Cookie: activator-pod=%b; Path=/; HttpOnly; SameSite=Lax" % TOKEN
    assert cookie_line(TOKEN, secure=False) == line
    assert cookie_line(TOKEN, secure=True) == line + b"; Secure"


CLASSES = QueueOrder(has_classes=True, trusts_header=True)
TENANT = FlowKey(b"x-tenant")
FLOWS = QueueOrder(fair_by=TENANT)
DIRECT = ClientAddresses()


def asking_for_place(fields: bytes) -> Request:
    return read_request(b"GET / HTTP/1.1\r\nHost: a\r\n" + fields + b"\r\n", RequestLimits())


@in_one_test(
    ("fields", "priority"),
    [
        (b"", NORMAL),
        (b"Activator-Priority: high\r\n", HIGH),
        (b"activator-priority:LOW \t\r\n", LOW),
        (b"Activator-Priority: normal\r\n", NORMAL),
        (b"Activator-Priority: highest\r\n", NORMAL),
        (b"Activator-Priority:\r\n", NORMAL),
        (b"Activator-Priority: high\r\nActivator-Priority: low\r\n", NORMAL),
        (b"Activator-Priority: " + 60_000 * b"h" + b"\r\n", NORMAL),
        (b"Activator_Priority: high\r\n", NORMAL),
    ],
)
def test_a_request_selects_its_class(fields: bytes, priority: int) -> None:
    assert priority_of(asking_for_place(fields), CLASSES) == priority


def test_an_unknown_class_means_that_of_the_annotation() -> None:
    order = QueueOrder(has_classes=True, priority=LOW, trusts_header=True)
    assert priority_of(asking_for_place(b"Activator-Priority: 0\r\n"), order) == LOW
    untrusting = QueueOrder(has_classes=True, priority=LOW)
    assert priority_of(asking_for_place(b"Activator-Priority: high\r\n"), untrusting) == LOW


@pytest.mark.parametrize(
    ("fields", "flow"),
    [
        (b"", b""),
        (b"X-Tenant: a\r\n", b"a"),
        (b"x-tenant:\ta b \r\n", b"a b"),
        (b"X-Tenant: a\r\nX-Tenant: b\r\n", b"a, b"),
    ],
)
def test_a_header_names_the_flow(fields: bytes, flow: bytes) -> None:
    assert flow_of(asking_for_place(fields), FlowKey(b"x-tenant"), b"10.0.0.9", DIRECT) == flow


def test_the_address_of_the_client_names_the_flow() -> None:
    forwarded = asking_for_place(b"X-Forwarded-For: 192.0.2.1, 192.0.2.7\r\n")
    assert flow_of(forwarded, FlowKey(), b"10.0.0.9", DIRECT) == b"10.0.0.9"
    trusting = ClientAddresses([ip_network("10.0.0.0/8")])
    assert flow_of(forwarded, FlowKey(), b"10.0.0.9", trusting) == b"192.0.2.7"
    assert flow_of(forwarded, FlowKey(), b"11.0.0.9", trusting) == b"11.0.0.9"


def test_a_long_name_takes_little_memory_and_two_of_them_differ() -> None:
    names = [
        flow_of(asking_for_place(b"X-Tenant: %b%b\r\n" % (60_000 * b"a", end)), TENANT, b"", DIRECT)
        for end in (b"1", b"2")
    ]
    assert len(set(names)) == 2
    assert max(map(len, names)) == 32


async def queued(world: World, order: QueueOrder, *fields: bytes) -> None:
    """Queue a request for each line of fields; its path is its number."""
    world.revise(container_concurrency=1, policies=Policies(order=order))
    for number, each in enumerate(fields):
        client = await world.client()
        client.send(request(b"/%d" % number, fields=each))
        await until(lambda: world.waiting == number + 1)  # noqa: B023 # awaited in its turn


async def served(world: World, order: QueueOrder) -> Pod:
    """List a pod for one request at a time; wait until it has had all."""
    pod, count = await world.pod(), world.waiting
    world.revise(pod, container_concurrency=1, policies=Policies(order=order))
    await until(lambda: len(pod.requests) == count)
    await world.idle()
    return pod


def targets(pod: Pod) -> list[bytes]:
    return [seen.target for seen in pod.requests]


def selecting(name: bytes) -> bytes:
    return b"Activator-Priority: " + name + b"\r\n"


async def test_the_higher_class_goes_first_and_its_pod_reads_the_class(world: World) -> None:
    names = (b"low", b"normal", b"high", b"low", b"high")
    await queued(world, CLASSES, *map(selecting, names))
    pod = await served(world, CLASSES)
    assert targets(pod) == [b"/2", b"/4", b"/1", b"/0", b"/3"]
    assert [seen.all(b"activator-priority") for seen in pod.requests][:2] == [[b"high"], [b"high"]]


async def test_without_trust_the_class_has_no_effect_and_is_removed(world: World) -> None:
    order = QueueOrder(has_classes=True)
    await queued(world, order, *map(selecting, (b"low", b"high")))
    pod = await served(world, order)
    assert targets(pod) == [b"/0", b"/1"]
    assert [seen.all(b"activator-priority") for seen in pod.requests] == [[], []]


async def test_a_request_that_need_not_wait_passes_its_class_on_too(world: World) -> None:
    pod = await world.serving(policies=Policies(order=CLASSES))
    await world.ask(request(fields=selecting(b"high")))
    await world.ask(request(fields=b"X-Other: 1\r\n"))
    assert [seen.all(b"activator-priority") for seen in pod.requests] == [[b"high"], []]


async def test_tenants_take_turns(world: World) -> None:
    tenants = (b"a", b"a", b"a", b"b", b"c", b"b")
    await queued(world, FLOWS, *(b"X-Tenant: %b\r\n" % each for each in tenants))
    pod = await served(world, FLOWS)
    assert targets(pod) == [b"/0", b"/3", b"/4", b"/1", b"/5", b"/2"]


async def test_a_tenant_with_too_many_requests_is_refused_alone(world: World) -> None:
    world.driver.throttler.limits = type(world.driver.throttler.limits)(queue_depth=12)
    await queued(world, FLOWS, *11 * [b"X-Tenant: greedy\r\n"])
    refused = await world.ask(request(fields=b"X-Tenant: greedy\r\n"))
    assert refused.status == 503
    assert refused.get(b"activator-reason") == b"tenant-full; 11 queued"
    assert refused.get(b"retry-after") is not None
    client = await world.client()
    client.send(request(fields=b"X-Tenant: modest\r\n"))
    await until(lambda: world.waiting == 12)
    assert world.counters().outcomes["tenant-full"] == 1
    await served(world, FLOWS)


async def test_a_change_counts_for_the_next_request(world: World) -> None:
    await queued(world, CLASSES, selecting(b"low"))
    world.revise(container_concurrency=1)
    client = await world.client()
    client.send(request(b"/later", fields=selecting(b"high")))
    await until(lambda: world.waiting == 2)
    pod = await world.pod()
    world.revise(pod, container_concurrency=1)
    await until(lambda: len(pod.requests) == 2)
    assert targets(pod) == [b"/0", b"/later"]
    await world.idle()


async def test_a_request_that_lost_its_pod_precedes_others_of_its_class(world: World) -> None:
    pod = await world.serving(container_concurrency=1, policies=Policies(order=CLASSES))
    pod.on_data = lambda connection: None
    clients = []
    for number, name in enumerate((b"low", b"low", b"high")):
        clients.append(await world.client())
        clients[-1].send(request(b"/%d" % number, fields=selecting(name)))
        await until(lambda: world.waiting == number and len(pod.requests) == 1)  # noqa: B023
    await pod.refuse()
    pod.connections[0].close()
    await until(lambda: world.waiting == 3)
    other = await world.pod()
    world.revise(other, container_concurrency=1, policies=Policies(order=CLASSES))
    await until(lambda: len(other.requests) == 3)
    assert targets(other) == [b"/2", b"/0", b"/1"]
    await world.idle()


async def test_a_request_of_a_low_class_expires_outranked(world: World) -> None:
    policies = Policies(order=CLASSES)
    pod = await world.serving(container_concurrency=1, policies=policies, timeout=10.0)
    pod.on_data = lambda connection: None
    first = await world.client()
    first.send(request(b"/first"))
    await until(lambda: len(pod.requests) == 1)
    low = await world.client()
    low.send(request(b"/low", fields=selecting(b"low")))
    await until(lambda: world.waiting == 1)
    await world.clock_moves(2.0)
    high = await world.client()
    high.send(request(b"/high", fields=selecting(b"high")))
    await until(lambda: world.waiting == 2)
    pod.connections[0].write(ok())
    await until(lambda: [seen.target for seen in pod.requests][1:] == [b"/high"])
    answer = await low.answer()
    assert answer.status == 504
    assert answer.get(b"activator-reason") == b"outranked; class low, 1/1"
    pod.connections[0].write(ok())
    assert (await high.answer()).status == 200


async def test_a_request_that_waits_for_its_own_pod_has_a_class_too(world: World) -> None:
    """It is queued although another pod has a free slot."""
    key = HashKey(b"x-session")
    policies = Policies(sticky=key, sticky_overflow=Overflow.WAIT, order=CLASSES)
    pods = [await world.pod() for _ in range(2)]
    world.revise(*pods, container_concurrency=1, policies=policies)
    await until(lambda: world.revision().statistics().healthy == 2)
    for pod in pods:
        pod.on_data = lambda connection: None
    for number, fields in enumerate((b"", selecting(b"low"), selecting(b"high"))):
        client = await world.client()
        client.send(request(b"/%d" % number, fields=b"X-Session: a\r\n" + fields))
        await until(lambda: world.waiting == number)  # noqa: B023 # awaited in its turn
        await until(lambda: sum(len(pod.requests) for pod in pods) == 1)
    (own,) = [pod for pod in pods if pod.requests]
    for count in (2, 3):
        own.connections[-1].write(ok())
        await until(lambda: len(own.requests) == count)  # noqa: B023 # awaited in its turn
    assert targets(own) == [b"/0", b"/2", b"/1"]
    own.connections[-1].write(ok())
    await world.idle()


class TestHttp2:
    async def test_the_higher_class_goes_first(self, http2: Http2World) -> None:
        spec = {"container_concurrency": 1, "policies": Policies(order=CLASSES)}
        http2.list(**spec)
        client = await http2.client()
        names = (b"low", b"high", b"normal")
        grpc = (b"content-type", b"application/grpc")
        streams = [
            client.ask(b"/%b" % name, b"POST", (b"activator-priority", name), grpc)
            for name in names
        ]
        await until(lambda: http2.world.waiting == 3)
        pod = await http2.pod()
        http2.list(pod, **spec)
        for stream in streams:
            await client.answer(stream)
        seen = [message.all(b":path")[0] for message in pod.requests]
        assert seen == [b"/high", b"/normal", b"/low"]
        assert [each.all(b"activator-priority") for each in pod.requests] == [
            [b"high"],
            [b"normal"],
            [b"low"],
        ]
        forwarded = [each.all(b"x-forwarded-for") for each in pod.requests]
        assert forwarded == 3 * [[b"127.0.0.1"]]

    async def test_without_trust_the_field_is_removed(self, http2: Http2World) -> None:
        pod = await http2.serving(policies=Policies(order=FLOWS))
        client = await http2.client()
        for _ in range(2):
            await client.answer(client.ask(b"/", b"GET", (b"activator-priority", b"high")))
        assert [each.all(b"activator-priority") for each in pod.requests] == [[], []]

    async def test_a_recurring_head_keeps_its_class(self, http2: Http2World) -> None:
        pod = await http2.serving(policies=Policies(order=CLASSES))
        client = await http2.client()
        for _ in range(3):
            await client.answer(client.ask(b"/", b"GET", (b"activator-priority", b"low")))
        assert [each.all(b"activator-priority") for each in pod.requests] == 3 * [[b"low"]]

    async def test_tenants_take_turns(self, http2: Http2World) -> None:
        spec = {"container_concurrency": 1, "policies": Policies(order=FLOWS)}
        http2.list(**spec)
        client = await http2.client()
        streams = [
            client.ask(b"/%d" % number, b"GET", (b"x-tenant", tenant))
            for number, tenant in enumerate((b"a", b"a", b"b"))
        ]
        await until(lambda: http2.world.waiting == 3)
        pod = await http2.pod()
        http2.list(pod, **spec)
        for stream in streams:
            await client.answer(stream)
        assert [each.all(b":path")[0] for each in pod.requests] == [b"/0", b"/2", b"/1"]

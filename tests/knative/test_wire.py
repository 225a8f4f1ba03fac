"""The exact bytes that Knative's peers rely on: own responses, and header fields.

Sources: pkg/activator/handler, pkg/http, knative.dev/networking/pkg/http/probe and Go's http.Error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.activator.proxy.world import Answer
from tests.knative.objects import NAME, private, revision
from tests.knative.peers import to, without_date
from tests.knative.pods import ScriptedPod, http
from tests.knative.world import World

NewWorld = Callable[..., Awaitable[World]]

PORTS = ("http", "h2c")
#: Paths that a router would clean or redirect. The autoscaler's own probe requests ``//healthz``.
TARGETS = (b"/", b"//healthz", b"/healthz", b"/a/../b", b"/%2e%2e/", b"*", b"http://other/x?y=z")
METHODS = (b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"PROPFIND", b"ODD")

PLAIN = b"Content-Type: text/plain; charset=utf-8"
ERROR = PLAIN + b"\r\nX-Content-Type-Options: nosniff"


def raw(status: bytes, fields: bytes, body: bytes) -> bytes:
    """Return a response without its Date; ``fields`` are lines without the last CRLF."""
    lines = b"HTTP/1.1 " + status + b"\r\n" + (fields + b"\r\n" if fields else b"")
    return lines + b"Content-Length: %d\r\n\r\n" % len(body) + body


PROBES = {
    "kubelet": (b"User-Agent: kube-probe/1.34\r\n", raw(b"200 OK", b"", b"")),
    "kubelet, deprecated": (b"K-Kubelet-Probe: x\r\n", raw(b"200 OK", b"", b"")),
    "kubelet before ingress": (
        b"User-Agent: kube-probe/1.34\r\nK-Network-Probe: probe\r\nK-Network-Hash: h\r\n",
        raw(b"200 OK", b"", b""),
    ),
    "ingress": (
        b"K-Network-Probe: probe\r\nK-Network-Hash: 4f2a\r\n",
        raw(b"200 OK", b"K-Network-Hash: 4f2a", b""),
    ),
    "ingress, override": (
        b"K-Network-Hash: override\r\nUser-Agent: Knative-Ingress-Probe\r\n"
        b"K-Network-Probe: probe\r\n",
        raw(b"200 OK", b"K-Network-Hash: override", b""),
    ),
    "ingress, no hash": (
        b"K-Network-Probe: probe\r\n",
        raw(
            b"400 Bad Request",
            ERROR,
            b'a probe request must contain a non-empty "K-Network-Hash" header\n',
        ),
    ),
    "ingress, empty hash": (
        b"K-Network-Probe: probe\r\nK-Network-Hash:\r\n",
        raw(
            b"400 Bad Request",
            ERROR,
            b'a probe request must contain a non-empty "K-Network-Hash" header\n',
        ),
    ),
    "autoscaler": (
        b"K-Network-Probe: activator\r\nUser-Agent: Knative-Autoscaling-Probe\r\n",
        raw(b"200 OK", PLAIN, b"activator"),
    ),
    "queue": (
        b"K-Network-Probe: queue\r\n",
        raw(b"400 Bad Request", ERROR, b'unexpected probe header value: "queue"\n'),
    ),
    "markup": (
        b'K-Network-Probe: <a href="x">\'&\\\r\n',
        raw(
            b"400 Bad Request",
            ERROR,
            b'unexpected probe header value: "&lt;a href=&#34;x&#34;&gt;&#39;&amp;\\\\"\n',
        ),
    ),
}


def probe(fields: bytes, method: bytes = b"GET", target: bytes = b"/") -> bytes:
    return b"%b %b HTTP/1.1\r\nHost: 10.0.0.1:8012\r\n%b\r\n" % (method, target, fields)


@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize("port", PORTS)
async def test_probes_get_their_response_byte_for_byte(world: World, name: str, port: str) -> None:
    """The test sends probes to every port: whole, byte by byte, and before another request."""
    fields, expected = PROBES[name]
    data = probe(fields)
    client = await world.call(data, port)
    await client.answer()
    assert without_date(client.received) == expected
    await client.drip(data)
    await client.answer()
    assert without_date(client.received) == 2 * expected
    client.send(data + data)
    await client.answer()
    await client.answer()
    assert without_date(client.received) == 4 * expected


@pytest.mark.parametrize("name", PROBES)
async def test_probes_get_their_response_for_each_method_and_path(world: World, name: str) -> None:
    """The activator cleans and redirects no path; HEAD has the same head and no body."""
    fields, expected = PROBES[name]
    for method in METHODS:
        for target in TARGETS:
            if target == b"*" and method != b"OPTIONS":
                continue
            client = await world.call(probe(fields, method, target))
            answer = await client.answer(method)
            body = b"" if method == b"HEAD" else expected.partition(b"\r\n\r\n")[2]
            assert (answer.status, answer.body) == (int(expected.split()[1]), body)
            client.close()


@pytest.mark.parametrize("name", PROBES)
async def test_probes_get_their_response_before_the_search_for_a_revision(
    world: World, name: str
) -> None:
    """A revision's headers, a body, or a revision without pods do not delay the response."""
    fields, expected = PROBES[name]
    world.apply(revision(cc=1), private())
    await world.passes()
    client = await world.call(to(method=b"POST", fields=fields, body=b"0123456789"))
    await client.answer(b"POST")
    assert without_date(client.received).startswith(expected.partition(b"\r\nContent-Length")[0])


async def test_not_ready_is_told_to_kubelets_alone(new_world: NewWorld) -> None:
    """Kubelets get 500 without a connection to the autoscaler, and 200 with one."""
    world = await new_world(autoscaler=True)
    kubelet = probe(b"User-Agent: kube-probe/1.34\r\n")
    await world.autoscaler.connected()
    await world.passes(0.1)
    assert (await world.ask(kubelet)).status == 200
    await world.autoscaler.close()
    await world.passes(0.1)
    client = await world.call(kubelet)
    await client.answer()
    assert without_date(client.received) == raw(
        b"500 Internal Server Error", ERROR, b"connection has not yet been established\n"
    )
    assert (await world.ask(probe(b"K-Network-Probe: activator\r\n"))).body == b"activator"


async def test_draining_is_told_to_kubelets(world: World) -> None:
    """After SIGTERM kubelets get 500 with Knative's words; other responses do not change."""
    (pod,) = await world.serving(1)
    world.apply(revision(), private([pod.at]))
    world.runtime.begin_drain("received SIGTERM from kubelet")
    answer = await world.ask(probe(b"User-Agent: kube-probe/1.34\r\n"))
    assert (answer.status, answer.body) == (500, b"received SIGTERM from kubelet\n")
    assert (await world.ask(probe(b"K-Network-Probe: activator\r\n"))).body == b"activator"
    assert (await world.ask()).body == b"pod-0"


# Own responses to requests (section 12 of the wire: every status of the activator itself)


def plain(answer: Answer) -> tuple[int, bytes | None, bytes | None, bytes]:
    return (
        answer.status,
        answer.get(b"content-type"),
        answer.get(b"x-content-type-options"),
        answer.body,
    )


TEXT = b"text/plain; charset=utf-8"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("port", PORTS)
async def test_unknown_revision_is_a_404_in_knatives_words(
    world: World, method: bytes, port: str
) -> None:
    body = b'Error getting active endpoint: revision.serving.knative.dev "nobody" not found\n'
    answer = await world.ask(to("nobody", method=method), method, port)
    assert plain(answer) == (404, TEXT, b"nosniff", b"" if method == b"HEAD" else body)
    assert answer.get(b"content-length") == b"%d" % len(body)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("port", PORTS)
async def test_time_that_is_up_is_a_504_in_knatives_words(
    world: World, method: bytes, port: str
) -> None:
    """The body has 25 bytes and no line feed; there is no ``nosniff`` field."""
    world.apply(revision(timeoutSeconds=2), private())
    await world.passes()
    started = world.now()
    answer = await world.ask(to(method=method), method, port)
    body = b"" if method == b"HEAD" else b"activator request timeout"
    assert plain(answer) == (504, TEXT, None, body)
    assert answer.get(b"content-length") == b"25"
    assert world.now() - started == pytest.approx(2, abs=0.1)


async def test_timeout_of_zero_expires_at_once(world: World) -> None:
    """``timeoutSeconds: 0`` expires at once, also where a pod is free."""
    (pod,) = await world.serving(1)
    world.apply(revision(timeoutSeconds=0), private([pod.at]))
    await world.passes()
    started = world.now()
    answer = await world.ask()
    assert (answer.status, answer.body) == (504, b"activator request timeout")
    assert world.now() - started < 0.1


async def test_missing_timeout_is_the_default(world: World) -> None:
    """A Revision without ``timeoutSeconds`` has 300. (Knative's handler panics on each request.)"""
    world.apply(revision(timeoutSeconds=None), private())
    await world.passes()
    started = world.now()
    assert (await world.ask()).status == 504
    assert world.now() - started == pytest.approx(300, abs=0.2)


@pytest.mark.parametrize("port", PORTS)
async def test_full_queue_is_a_503_in_knatives_words(new_world: NewWorld, port: str) -> None:
    world = await new_world(queue_depth="1")
    world.apply(revision(), private())
    await world.passes()
    await world.call()
    await world.passes()
    answer = await world.ask(port=port)
    assert plain(answer) == (503, TEXT, b"nosniff", b"pending request queue full\n")


async def test_two_revision_headers_that_differ_are_a_400(world: World) -> None:
    """Two different revision headers get 400. (Knative uses the first: a client could choose.)"""
    (pod,) = await world.serving(1)
    world.apply(revision(), private([pod.at]))
    answer = await world.ask(to(fields=b"Knative-Serving-Revision: other\r\n"))
    assert answer.status == 400
    answer = await world.ask(to(fields=f"Knative-Serving-Revision: {NAME}\r\n".encode()))
    assert answer.status == 200, "two equal headers are valid"


async def test_4xx_and_5xx_of_the_application_pass(world: World) -> None:
    """An application's errors pass unchanged, also if they look like own responses."""
    (pod,) = await world.serving(1)
    world.apply(revision(), private([pod.at]))
    for status in (400, 404, 429, 500, 502, 503, 504):
        pod.answer = http(b"mine", status, b"Content-Type: text/x\r\n")
        answer = await world.ask()
        assert plain(answer) == (status, b"text/x", None, b"mine")


# Header fields (section 5 of the wire)


async def served(world: World) -> ScriptedPod:
    (pod,) = await world.serving(1)
    world.apply(revision(), private([pod.at]))
    await world.passes()
    return pod


@pytest.mark.parametrize(
    ("sent", "name", "seen"),
    [
        pytest.param(b"", b"knative-serving-revision", [], id="revision is taken out"),
        pytest.param(b"", b"knative-serving-namespace", [], id="namespace is taken out"),
        pytest.param(b"K-Network-Hash: h\r\n", b"k-network-hash", [], id="hash is taken out"),
        pytest.param(
            b"", b"k-proxy-request", [b"activator"], id="the activator names itself as the proxy"
        ),
        pytest.param(b"", b"k-original-host", [b"example.com"], id="the host that was asked for"),
        pytest.param(
            b"K-Original-Host: mapped.example\r\n",
            b"k-original-host",
            [b"mapped.example"],
            id="an original host stays",
        ),
        pytest.param(
            b"K-Original-Host:\r\n",
            b"k-original-host",
            [b"example.com"],
            id="an empty original host is none",
        ),
        pytest.param(b"", b"k-passthrough-lb", [], id="no passthrough"),
        pytest.param(
            b"Knative-Serving-Tag: t\r\n", b"knative-serving-tag", [b"t"], id="the tag passes"
        ),
        pytest.param(
            b"Knative-Serving-Default-Route: true\r\n",
            b"knative-serving-default-route",
            [b"true"],
            id="the default route passes",
        ),
        pytest.param(b"", b"x-forwarded-for", [b"127.0.0.1"], id="the client's address"),
        pytest.param(
            b"X-Forwarded-For: 10.0.0.1, 10.0.0.2\r\nX-Forwarded-For: 10.0.0.3\r\n",
            b"x-forwarded-for",
            [b"10.0.0.1, 10.0.0.2, 10.0.0.3, 127.0.0.1"],
            id="the client's address behind those before",
        ),
        pytest.param(b"", b"x-forwarded-proto", [], id="no proto is made up"),
        pytest.param(
            b"X-Forwarded-Proto: https\r\n", b"x-forwarded-proto", [b"https"], id="proto passes"
        ),
        pytest.param(
            b"X-Forwarded-Host: h\r\n", b"x-forwarded-host", [b"h"], id="forwarded host passes"
        ),
        pytest.param(b"Forwarded: for=1\r\n", b"forwarded", [b"for=1"], id="Forwarded passes"),
        pytest.param(b"", b"forwarded", [], id="no Forwarded is made up"),
        pytest.param(b"", b"user-agent", [], id="no user agent is made up"),
        pytest.param(b"User-Agent: gold\r\n", b"user-agent", [b"gold"], id="user agent passes"),
        pytest.param(b"", b"accept-encoding", [], id="no encoding is made up"),
        pytest.param(b"", b"via", [], id="no Via"),
        pytest.param(b"X-B3-TraceId: 1\r\n", b"x-b3-traceid", [b"1"], id="B3 passes"),
        pytest.param(b"Baggage: a=b\r\n", b"baggage", [b"a=b"], id="baggage passes"),
        pytest.param(b"Connection: X-Own\r\nX-Own: 1\r\n", b"x-own", [], id="named by Connection"),
        pytest.param(
            b"Connection: K-Proxy-Request, K-Original-Host, X-Forwarded-For\r\n",
            b"k-proxy-request",
            [b"activator"],
            id="Connection cannot remove the activator's field (in Knative it can)",
        ),
        pytest.param(b"Proxy-Connection: keep-alive\r\n", b"proxy-connection", [], id="P-C"),
        pytest.param(b"Keep-Alive: timeout=5\r\n", b"keep-alive", [], id="Keep-Alive"),
        pytest.param(b"Proxy-Authenticate: x\r\n", b"proxy-authenticate", [], id="P-Authenticate"),
        pytest.param(b"Proxy-Authorization: x\r\n", b"proxy-authorization", [], id="P-A"),
        pytest.param(b"Te: gzip\r\n", b"te", [], id="TE is hop by hop"),
        pytest.param(b"Te: trailers\r\n", b"te", [b"trailers"], id="TE: trailers is asked for"),
        pytest.param(b"Upgrade: x\r\n", b"upgrade", [], id="Upgrade without Connection"),
        pytest.param(b"Connection: close\r\n", b"connection", [], id="Connection"),
    ],
)
async def test_request_fields_reach_the_pod_as_the_table_says(
    world: World, sent: bytes, name: bytes, seen: list[bytes]
) -> None:
    """The pod gets each field as the table shows."""
    pod = await served(world)
    assert (await world.ask(to(fields=sent))).status == 200
    assert pod.traffic[0].all(name) == seen


async def test_host_is_the_pods_address(world: World) -> None:
    """The Host field is the pod's address; K-Original-Host is the name in the request."""
    pod = await served(world)
    await world.ask()
    assert pod.traffic[0].all(b"host") == [f"{pod.host}:{pod.port}".encode()]


@pytest.mark.parametrize("target", [b"/a//b/../c?x=%2F&y", b"/%41?", b"/;x=1", b"/a%00b", b"/?"])
async def test_targets_pass_as_they_came(world: World, target: bytes) -> None:
    """The activator neither decodes nor cleans targets."""
    pod = await served(world)
    await world.ask(to(target=target))
    assert pod.traffic[0].target == target


@pytest.mark.parametrize(
    "field", [b"Connection: X-Own\r\nX-Own: 1", b"Keep-Alive: timeout=5", b"Proxy-Authenticate: x"]
)
async def test_response_fields_that_concern_the_connection_are_taken_out(
    world: World, field: bytes
) -> None:
    """This holds for responses as for requests; all other fields pass."""
    pod = await served(world)
    pod.answer = http(b"x", fields=field + b"\r\nX-Stays: 1\r\n")
    answer = await world.ask()
    names = {name.lower() for name, _ in answer.headers}
    assert b"x-stays" in names
    assert not names & {b"connection", b"x-own", b"keep-alive", b"proxy-authenticate"}
    assert not names & {b"server", b"via"}, "never added"

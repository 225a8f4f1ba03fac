"""Own responses, byte for byte."""

from __future__ import annotations

import pytest

from activator.proxy.message import own_responses
from activator.proxy.message.fields import HTTP_1_0, HTTP_1_1
from tests.rows import in_one_test
from throttler.errors import RevisionNotFound, WaitTooLong
from throttler.reason import Reason

DATE = b"Thu, 01 Jan 1970 00:00:00 GMT"
NOSNIFF = b"Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"
PLAIN = b"Content-Type: text/plain; charset=utf-8\r\n"


def render(reply: own_responses.OwnResponse, **settings: object) -> bytes:
    defaults = {"date": DATE, "head_only": False, "keep_alive": True, "version": HTTP_1_1}
    return reply.render(**(defaults | settings))  # type: ignore[arg-type] # see above


def tail(body: bytes) -> bytes:
    return b"Date: " + DATE + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body


ANSWERS = {
    "healthy": (own_responses.HEALTHY, b"HTTP/1.1 200 OK\r\n", b""),
    "unhealthy": (
        own_responses.unhealthy("connection has not yet been established"),
        b"HTTP/1.1 500 Internal Server Error\r\n" + NOSNIFF,
        b"connection has not yet been established\n",
    ),
    "activator-probe": (
        own_responses.ACTIVATOR_PROBE,
        b"HTTP/1.1 200 OK\r\n" + PLAIN,
        b"activator",
    ),
    "ingress-probe": (
        own_responses.network_probe(b"abc"),
        b"HTTP/1.1 200 OK\r\nK-Network-Hash: abc\r\n",
        b"",
    ),
    "ingress-probe-without-hash": (
        own_responses.network_probe(b""),
        b"HTTP/1.1 400 Bad Request\r\n" + NOSNIFF,
        b'a probe request must contain a non-empty "K-Network-Hash" header\n',
    ),
    "unexpected-probe": (
        own_responses.unexpected_probe(b"queue"),
        b"HTTP/1.1 400 Bad Request\r\n" + NOSNIFF,
        b'unexpected probe header value: "queue"\n',
    ),
    "unexpected-probe-escaped": (
        own_responses.unexpected_probe(b"<a href='x'>&\"\\"),
        b"HTTP/1.1 400 Bad Request\r\n" + NOSNIFF,
        b'unexpected probe header value: "&lt;a href=&#39;x&#39;&gt;&amp;&#34;\\\\"\n',
    ),
    "not-found": (
        own_responses.not_found(RevisionNotFound("rev", "ns")),
        b"HTTP/1.1 404 Not Found\r\n" + NOSNIFF + b"Activator-Reason: unknown-revision\r\n",
        b'Error getting active endpoint: revision.serving.knative.dev "rev" not found\n',
    ),
    "queue-full": (
        own_responses.queue_full("revision-depth"),
        b"HTTP/1.1 503 Service Unavailable\r\n"
        + NOSNIFF
        + b"Activator-Reason: queue-full; revision-depth\r\n",
        b"pending request queue full\n",
    ),
    "shed": (
        own_responses.shed(WaitTooLong(3.22, 2.99), retry_after=64),
        b"HTTP/1.1 503 Service Unavailable\r\n"
        + NOSNIFF
        + b"Retry-After: 64\r\nActivator-Reason: wait-too-long; 3.2 s expected, 3.0 s left\r\n",
        b"expected wait exceeds the time-out\n",
    ),
    "timed-out": (
        own_responses.timed_out(Reason.NO_ENDPOINTS, ""),
        b"HTTP/1.1 504 Gateway Timeout\r\n" + PLAIN + b"Activator-Reason: no-endpoints\r\n",
        b"activator request timeout",
    ),
    "upstream-failed": (
        own_responses.upstream_failed("10.0.0.1:8012: gone"),
        b"HTTP/1.1 502 Bad Gateway\r\n"
        + NOSNIFF
        + b"Activator-Reason: upstream-failed; 10.0.0.1:8012: gone\r\n",
        b"10.0.0.1:8012: gone\n",
    ),
    "draining": (
        own_responses.draining("why"),
        b"HTTP/1.1 503 Service Unavailable\r\n"
        + NOSNIFF
        + b"Retry-After: 0\r\nActivator-Reason: draining; why\r\n",
        b"draining\n",
    ),
    "too-many-connections": (
        own_responses.too_many_connections(retry_after=2),
        b"HTTP/1.1 503 Service Unavailable\r\n"
        + PLAIN
        + b"Retry-After: 2\r\nActivator-Reason: queue-full; too many connections\r\n",
        b"503 Service Unavailable: too many connections",
    ),
    "asked-to-come-back": (
        own_responses.timed_out(Reason.AT_CAPACITY, "2/2", retry_after=7),
        b"HTTP/1.1 504 Gateway Timeout\r\n"
        + PLAIN
        + b"Retry-After: 7\r\nActivator-Reason: at-capacity; 2/2\r\n",
        b"activator request timeout",
    ),
    "refused": (
        own_responses.refused(431, "too many header fields"),
        b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
        + PLAIN
        + b"Activator-Reason: bad-request; too many header fields\r\n",
        b"431 Request Header Fields Too Large: too many header fields",
    ),
}


@in_one_test("name", ANSWERS)
def test_a_response_in_full(name):
    reply, head, body = ANSWERS[name]
    assert render(reply) == head + tail(body)


@in_one_test("name", ANSWERS)
def test_each_own_response_except_to_probes_has_a_reason(name):
    reply, _, _ = ANSWERS[name]
    assert bool(reply.why) is not ("probe" in name or "healthy" in name)


def test_the_time_out_is_25_bytes_as_knatives():
    assert len(own_responses.timed_out(Reason.NO_ENDPOINTS, "").body) == 25


def test_a_response_to_head_has_the_length_but_no_body():
    assert render(own_responses.ACTIVATOR_PROBE, head_only=True).endswith(
        b"\r\nContent-Length: 9\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"keep_alive": False}, b"\r\nConnection: close\r\n"),
        ({"keep_alive": False, "version": HTTP_1_0}, b"\r\nConnection: close\r\n"),
        ({"version": HTTP_1_0}, b"\r\nConnection: keep-alive\r\n"),
    ],
)
def test_what_becomes_of_the_connection(settings, line):
    assert line in render(own_responses.HEALTHY, **settings)
    assert b"Connection" not in render(own_responses.HEALTHY)


@pytest.mark.parametrize("evil", ["a\r\nSet-Cookie: x", "a\0", "\x7f", "é\u2028", "x" * 10_000])
def test_what_pods_and_clients_say_stays_one_short_line(evil):
    for reply in (
        own_responses.timed_out(Reason.PROBE_FAILING, evil),
        own_responses.upstream_failed(evil),
        own_responses.queue_full(evil),
    ):
        head = render(reply).partition(b"\r\n\r\n")[0]
        assert len(head) < 600
        assert head.count(b"\n") == head.count(b"\r\n")
        assert b"\r\nSet-Cookie" not in head
        assert head.isascii()
        assert not any((c < 0x20 and c not in b"\r\n") or c == 0x7F for c in head)


def test_every_refusal_that_is_raised_has_a_status_line():
    for status in (400, 405, 408, 414, 417, 431, 501, 505):
        assert render(own_responses.refused(status, "x")).startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        (b"a\tb", "a\\tb"),
        (b"caf\xe9", "caf\\xe9"),
        ("café".encode(), "café"),
        ("\u200b\U000e0001".encode(), "\\u200b\\U000e0001"),
    ],
)
def test_a_probe_value_is_quoted_as_go_does(value, quoted):
    assert own_responses.unexpected_probe(value).body.decode().endswith(f' "{quoted}"\n')


def test_a_probe_value_is_echoed_in_part_only():
    assert len(own_responses.unexpected_probe(b"<" * 100_000).body) < 2000

"""Which responses are queue-proxy's own, so that the application did not get the request."""

from __future__ import annotations

import pytest

from activator.knative.queue_proxy import Fate, claim_in_http1, claim_in_http2, complaint, fate_of
from activator.proxy.exchange.retry import Failure, claim_of, own_failure
from activator.proxy.message.response import read_response
from tests.rows import in_one_test

REFUSED = b"dial tcp 127.0.0.1:8080: connect: connection refused\n"
FULL = b"pending request queue full\n"
#: Go's texts for an error while it copied a request's body to the application.
WITH_BODY = b"readfrom tcp 127.0.0.1:4000->127.0.0.1:8080: "
#: Go's text for an error while it sent the bytes that it had buffered.
BROKEN = b"net/http: HTTP/1.x transport connection broken: "
GO = b"Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"


def _split(fields: bytes) -> list[tuple[bytes, bytes, bytes]]:
    return [each.partition(b": ") for each in fields.split(b"\r\n") if each]


def judged(status: int, body: bytes, fields: bytes = GO, length: int | None = None) -> str:
    size = len(body) if length is None else length
    head = b"HTTP/1.1 %d Reason\r\n%bContent-Length: %d\r\n\r\n" % (status, fields, size)
    failure = own_failure(claim_of(read_response(head, to_head=False), bodiless=False), [body])
    block = b"\r\n" + fields
    fate = fate_of(claim_in_http1(status, size, block, bodiless=False), [body])
    assert (failure is Failure.UNTOUCHED) is (fate is Fate.UNTOUCHED)
    assert (failure is None) is (fate is None)
    names = {name.lower(): value for name, _, value in _split(fields)}
    assert fate_of(claim_in_http2(status, size, names, bodiless=False), [body]) is fate
    return failure.value if failure else ""


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (502, REFUSED),
        (502, b"dial tcp [::1]:3000: connect: connection refused\n"),
        (502, b"dial tcp 127.0.0.1:8080: i/o timeout\n"),
        (503, FULL),
    ],
)
def test_its_own_words(status: int, body: bytes) -> None:
    assert judged(status, body) == "untouched"


@in_one_test(
    "body",
    [
        b"EOF\n",
        b"read tcp 127.0.0.1:4000->127.0.0.1:8080: read: connection reset by peer\n",
        b"write tcp 127.0.0.1:4000->127.0.0.1:8080: write: broken pipe\n",
        b"write tcp [::1]:4000->[::1]:8080: use of closed network connection\n",
        b"read tcp 127.0.0.1:4000->127.0.0.1:8080: use of closed network connection\n",
        WITH_BODY + b"write tcp 127.0.0.1:4000->127.0.0.1:8080: write: broken pipe\n",
        WITH_BODY + b"write tcp 127.0.0.1:4000->127.0.0.1:8080: write: connection reset by peer\n",
        WITH_BODY + b"write tcp 127.0.0.1:4000->127.0.0.1:8080: use of closed network connection\n",
        WITH_BODY + b"use of closed network connection\n",
        WITH_BODY + b"splice: broken pipe\n",
        BROKEN + b"write tcp 127.0.0.1:4000->127.0.0.1:8080: write: broken pipe\n",
        BROKEN + WITH_BODY + b"write tcp 127.0.0.1:4000->127.0.0.1:8080: write: broken pipe\n",
        b"net/http: cannot rewind body after connection loss\n",
    ],
)
def test_its_words_where_the_application_may_have_had_the_request(body: bytes) -> None:
    assert judged(502, body) == "application-lost"
    assert not judged(503, body)


@in_one_test(
    ("status", "body"),
    [
        (502, FULL),
        (503, REFUSED),
        (500, REFUSED),
        (200, REFUSED),
        (502, b"unexpected EOF\n"),
        (502, WITH_BODY + b"unexpected EOF\n"),
        (
            502,
            WITH_BODY + b"read tcp 10.0.0.1:8012->10.0.0.7:4000: read: connection reset by peer\n",
        ),
        (502, b"readfrom tcp 10.0.0.1:4000->10.0.0.7:5432: splice: broken pipe\n"),
        (502, BROKEN + b'malformed HTTP response "x"\n'),
        (502, BROKEN + b"EOF\n"),
        (502, b"use of closed network connection\n"),
        (502, b"read tcp 10.0.0.1:4000->10.0.0.7:5432: read: connection reset by peer\n"),
        (502, b"dial tcp 10.0.0.7:5432: connect: connection refused\n"),
        (502, REFUSED + b"more"),
        (502, REFUSED.strip()),
        (502, b"dial tcp 127.0.0.1:8080: " + b"x" * 600 + b"\n"),
        (503, b"try later\n"),
        (503, b"upstream connect error or disconnect/reset before headers\n"),
    ],
)
def test_words_of_the_application_or_of_a_mesh(status: int, body: bytes) -> None:
    assert not judged(status, body)


@pytest.mark.parametrize(
    "fields",
    [
        b"",
        b"Content-Type: text/plain; charset=utf-8\r\n",
        b"X-Content-Type-Options: nosniff\r\nContent-Type: text/html\r\n",
    ],
)
def test_the_same_words_without_the_fields_that_go_writes(fields: bytes) -> None:
    assert not judged(502, REFUSED, fields)


@pytest.mark.parametrize(
    ("status", "fields", "length", "failure"),
    [
        (502, GO, 53, Failure.APPLICATION_LOST),
        (503, GO, len(FULL), Failure.APPLICATION_LOST),
        (503, GO, 12, None),
        (502, GO, 600, None),
        (502, b"", 53, None),
        (500, GO, 53, None),
    ],
)
def test_a_response_to_head_is_known_by_its_fields_and_length(
    status: int, fields: bytes, length: int, failure: Failure | None
) -> None:
    head = b"HTTP/1.1 %d X\r\n%bContent-Length: %d\r\n\r\n" % (status, fields, length)
    response = read_response(head, to_head=True)
    assert own_failure(claim_of(response, bodiless=True), []) is failure
    assert complaint(status, []) == f"responded {status}"


def test_errors_show_the_words_of_queue_proxy_alone() -> None:
    assert complaint(502, [REFUSED]) == f"responded 502: {REFUSED.decode().strip()}"
    assert complaint(502, None) == "responded 502"

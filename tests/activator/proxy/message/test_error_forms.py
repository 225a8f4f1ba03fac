"""The forms of error responses: which one a client gets, and its contents."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator.proxy.message import own_responses
from activator.proxy.message.error_forms import (
    as_error,
    error_in,
    negotiate,
    prefers_json,
    wants_json,
)
from activator.proxy.message.fields import HTTP_1_1
from activator.proxy.message.request import Request
from tests.activator.proxy.world import PodConnection, about, request, until
from tests.rows import in_one_test
from throttler.errors import RevisionNotFound
from throttler.model import RevisionKind
from throttler.reason import ROWS, Reason
from throttler.throttler import Limits


def asks(*values: bytes) -> bool:
    block = b"\r\nUser-Agent: application/json" + b"".join(b"\r\nAccept: " + v for v in values)
    return prefers_json(block + b"\r\nX-Accept: application/json")


@in_one_test(
    "value",
    [
        b"application/json",
        b"application/problem+json",
        b"APPLICATION/JSON; charset=utf-8",
        b"application/json, text/plain, */*",  # axios
        b"application/json;q=0.001",
        b"text/html, application/json;q=0.9",
        b"text/plain;q=0.5, application/json;q=0.5",
        b"*/*;q=0.8,application/json",
        b"text/*;q=0.3, */*;q=0.2, application/json ; q = 0.4",
        b'text/html;level="1,2;q=0", application/json',
        b",, ,application/json",
        b"text/plain;q=2, application/json",  # an invalid quality counts as absent
        b"application/json;q=0, application/problem+json",
    ],
)
def test_json_is_named_and_liked_no_less_than_text(value):
    assert asks(value)


@in_one_test(
    "value",
    [
        b"",
        b"*/*",
        b"application/*",
        b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",  # a browser
        b"application/jsonp",
        b"application/json;q=0",
        b"application/json;q=0.000, */*",
        b"application/json;q=0.5, text/plain",
        b"application/json;q=0.5, */*",
        b"application/problem+json;q=0, application/json",
        b"application/json;q=1.1",
        b"application/json;q=0.0001",
        b"application/json;q=",
        b"application/json;q=nan",
        b'"application/json"',
        b"application/grpc",
    ],
)
def test_all_other_clients_get_text(value):
    assert not asks(value)


def test_who_says_nothing_gets_text():
    assert not prefers_json(b"")
    assert not prefers_json(b"\r\nHost: x")


def test_several_fields_are_one_list():
    assert asks(b"text/html", b"application/json")
    assert not asks(b"application/json;q=0.1", b"text/plain")


@given(st.binary(max_size=200))
def test_nothing_that_a_client_sends_is_too_much_for_it(junk):
    assert prefers_json(b"\r\nAccept: " + junk) in (True, False)


def test_a_field_of_a_megabyte_costs_no_more_than_its_beginning():
    begun = time.process_time()
    assert not prefers_json(b"\r\nAccept: " + b'"\\",' * 250_000 + b"application/json")
    assert time.process_time() - begun < 0.2


ASKS = b"Accept: application/json\r\n"
BLOCK = b"\r\nAccept: application/json"


def members(answer: Any) -> dict[str, Any]:
    """Return a response's members, after a check of its fields."""
    assert answer.get(b"content-type") == b"application/problem+json"
    assert answer.get(b"vary") == b"Accept"
    said: dict[str, Any] = json.loads(answer.body)
    assert said["status"] == answer.status
    assert said["type"] == "tag:activator.dev,2026:reasons/" + said["reason"]
    assert said["title"] == ROWS[Reason(said["reason"])].meaning
    assert answer.get(b"activator-reason").decode().partition(";")[0] == said["reason"]
    return said


async def test_an_expired_request_gets_the_reason_and_its_wait(world):
    world.revise(timeout=0.25)
    client = await world.client()
    client.send(request(fields=ASKS))
    answer = await client.answer()
    said = members(answer)
    assert answer.status == 504
    assert (said["reason"], said["detail"]) == ("no-endpoints", "activator request timeout")
    assert (said["namespace"], said["revision"]) == ("ns", "rev")
    assert said["waitedSeconds"] == about(0.25, within=0.1)
    assert "attempts" not in said
    assert said["retryAfterSeconds"] == 4
    client.send(request(fields=ASKS))  # the length was right: the connection can be used again
    assert members(await client.answer())["reason"] == "no-endpoints"


async def test_other_clients_get_knatives_bytes_for_the_same_request(world):
    world.revise(timeout=0.05)
    answer = await world.ask(request(fields=b"Accept: */*\r\n"))
    assert answer.body == b"activator request timeout"
    assert answer.get(b"content-type") == b"text/plain; charset=utf-8"
    assert answer.get(b"vary") == b"Accept", "else a cache gives the text to who asks for JSON"


async def test_the_text_of_an_unknown_revision_is_kept_by_no_cache_for_who_asks_for_json(world):
    answer = await world.ask(request())
    assert (answer.status, answer.get(b"vary")) == (404, b"Accept")


async def test_head_has_the_length_of_the_problem_and_no_body(world):
    world.revise(timeout=0.05)
    client = await world.client()
    client.send(request(method=b"HEAD", fields=ASKS) + request(fields=ASKS))
    head = await client.answer(b"HEAD")
    assert (head.status, head.body) == (504, b"")
    assert head.get(b"content-type") == b"application/problem+json"
    said = members(await client.answer())
    assert int(head.get(b"content-length")) >= len(json.dumps(said, separators=(",", ":"))) - 8


async def test_a_full_queue(new_world):
    world = await new_world(queue=Limits(queue_depth=1))
    world.revise()
    first = await world.client()
    first.send(request())
    await until(lambda: world.waiting == 1)
    said = members(await world.ask(request(fields=ASKS)))
    assert (said["status"], said["reason"], said["detail"]) == (503, "queue-full", "revision-depth")
    first.abort()


async def test_a_pod_that_fails_each_time_is_shown_with_the_number_of_attempts(world):
    def close(connection: PodConnection) -> None:
        connection.close()

    pod = await world.serving()
    pod.on_data = close
    answer = await world.ask(request(fields=ASKS))
    said = members(answer)
    assert (said["status"], said["reason"]) == (502, "upstream-failed")
    assert said["detail"].startswith(pod.endpoint.address)
    assert said["attempts"] == len(pod.requests) > 1


async def test_no_revision_no_members_of_one(world):
    answer = await world.ask(b"GET / HTTP/1.1\r\nHost: x\r\n" + ASKS + b"\r\n")
    said = members(answer)
    assert (said["status"], said["reason"]) == (404, "unknown-revision")
    assert set(said) == {"type", "title", "status", "detail", "reason"}


async def test_a_revision_that_is_not_known_is_named(world):
    names = b"Knative-Serving-Namespace: default\r\nKnative-Serving-Revision: n\xf6pe\r\n"
    said = members(await world.ask(b"GET / HTTP/1.1\r\nHost: x\r\n" + names + ASKS + b"\r\n"))
    assert (said["status"], said["namespace"], said["revision"]) == (404, "default", "n?pe")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\nExpect: foo\r\n", 417),
        (b"CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n", 405),
    ],
)
async def test_a_head_that_can_be_read_and_asks_for_what_is_not_there(world, head, status):
    said = members(await world.ask(head + ASKS + b"\r\n"))
    assert (said["status"], said["reason"]) == (status, "bad-request")
    answer = await world.ask(head + b"\r\n")
    assert answer.get(b"content-type") == b"text/plain; charset=utf-8"


async def test_a_head_with_a_malformed_name_gets_text(world):
    answer = await world.ask(b"GET / HTTP/1.1\r\nHost: x\r\nA b: c\r\n" + ASKS + b"\r\n")
    assert answer.status == 400
    assert answer.get(b"content-type") == b"text/plain; charset=utf-8"


async def test_an_end_of_the_process(world):
    world.revise()
    client = await world.client()
    client.send(request(fields=ASKS))
    await until(lambda: world.waiting == 1)
    world.proxy.drain()
    said = members(await client.answer())
    assert (said["status"], said["reason"], said["retryAfterSeconds"]) == (503, "draining", 0)


async def test_two_revisions_in_one_request(world):
    twice = b"Knative-Serving-Revision: other\r\n"
    answer = await world.ask(request(fields=ASKS + twice))
    assert (answer.status, members(answer)["reason"]) == (400, "bad-request")


async def test_a_body_that_is_malformed(world):
    await world.serving()
    client = await world.client()
    client.send(request(method=b"POST", fields=ASKS + b"Transfer-Encoding: chunked\r\n"))
    await until(lambda: world.revision().slots.in_flight == 1)
    client.send(b"nonsense\r\n")
    answer = await client.answer()
    assert (answer.status, members(answer)["reason"]) == (400, "bad-request")
    await client.ended()


async def test_a_head_with_two_hosts_gets_text(world):
    answer = await world.ask(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n" + ASKS + b"\r\n")
    assert (answer.status, answer.get(b"vary")) == (400, None)
    assert answer.get(b"activator-reason").startswith(b"bad-request; ")


async def test_probes_get_their_usual_response(world):
    world.not_ready = "not yet"
    answer = await world.ask(
        b"GET / HTTP/1.1\r\nHost: x\r\nK-Kubelet-Probe: a\r\n" + ASKS + b"\r\n"
    )
    assert (answer.status, answer.body) == (500, b"not yet\n")
    assert answer.get(b"activator-reason") is None


@pytest.mark.parametrize("evil", ['"}\r\n', "\x00\x1b[31m", "é\u2028", "\ud800", "x" * 10_000])
def test_what_pods_and_clients_say_stays_a_string_of_bounded_length(evil):
    reply = negotiate(own_responses.timed_out(Reason.PROBE_FAILING, evil), BLOCK)
    assert len(reply.body) < 600
    assert json.loads(reply.body)["detail"]
    assert reply.body.isascii()
    assert not any(c < 0x20 for c in reply.body)


def test_other_fields_of_the_response_stay():
    reply = negotiate(own_responses.refused(405, "CONNECT is not supported"), BLOCK)
    assert b"\r\nAllow: GET" in reply.fields
    assert b"text/plain" not in reply.fields
    reply = negotiate(own_responses.not_found(RevisionNotFound('a"b', "ns")), BLOCK)
    assert b"\r\nX-Content-Type-Options: nosniff" in reply.fields
    assert json.loads(reply.body)["detail"].endswith('"a"b" not found')


JSON = b"\r\nContent-Type: application/json"


@in_one_test(
    ("lines", "wants"),
    [
        (b"\r\nAccept: application/json", True),
        (b"\r\nAccept: */*" + JSON, True),
        (JSON, True),
        (b"\r\nAccept: text/event-stream" + JSON, True),
        (b"\r\nContent-Type: application/vnd.api+json; charset=utf-8", True),
        (b"\r\nAccept: text/plain" + JSON, False),
        (b"\r\nAccept: text/html, */*" + JSON, False),
        (b"\r\nAccept: */*", False),
        (b"", False),
        (b"\r\nContent-Type: text/plain", False),
    ],
)
def test_clients_of_json(lines, wants):
    request = Request(b"POST", b"/", HTTP_1_1, b"a", {}, lines, has_body=True)
    assert wants_json(request) is wants


def test_an_error_names_reason_and_detail():
    late = own_responses.timed_out(Reason.NO_ENDPOINTS, "wait-seconds 5", 7)
    response = as_error(late, b"\r\nA: b", RevisionKind.SERVICE)
    assert json.loads(response.body) == {
        "error": {
            "message": "Kubernetes lists no pod of this Service. (wait-seconds 5)",
            "type": "server_error",
            "code": "no-endpoints",
        }
    }
    assert response.fields == JSON + b"\r\nVary: Accept\r\nA: b"
    assert (response.status, response.retry_after) == (504, 7)
    refused = as_error(own_responses.refused(431, "too large"), b"", RevisionKind.REVISION)
    assert json.loads(refused.body)["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"error":{"message":"no\\nmodel"}}', ("no\nmodel", "invalid_request_error", "word")),
        (b'{"error":{"message":"m","type":"t","code":"c"},"x":1}', ("m", "t", "c")),
        (
            b'{"error":{"message":"m","type":null,"code":404}}',
            ("m", "invalid_request_error", "word"),
        ),
    ],
)
def test_the_error_of_a_pod_passes_in_one_line(body, error):
    found = error_in(body, 404, "word")
    assert b"\n" not in found
    assert tuple(json.loads(found)["error"].values()) == error


@in_one_test(
    "body",
    [
        *(b"", b"no", b"[]", b"{}", b'{"error":"text"}', b'{"error":{"message":1}}'),
        *(b"[" * 100_000, b'{"error":{"message":"cut', b"\xff\xfe"),
    ],
)
def test_other_bodies_have_no_error(body):
    assert error_in(body, 404, "word") == b""

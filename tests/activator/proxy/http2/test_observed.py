"""What traces, request log, counters and responses show of requests in HTTP/2."""

from __future__ import annotations

import json

from activator.knative.configmaps.observability import DEFAULT_TEMPLATE, RequestLogConfig
from activator.telemetry.request_log import RequestLog
from tests.activator.proxy.http2.peers import Http2World, Message, Peer
from tests.activator.proxy.observers import steps_of_a_get
from tests.activator.proxy.world import until
from tests.conftest import in_virtual_time

GRPC = (b"content-type", b"application/grpc")


async def waits_in_vain(http2: Http2World, client: Peer, *more: tuple[bytes, bytes]) -> Message:
    """Return the response to a request that gets no pod within its revision's 0.05 s."""
    stream = client.ask(b"/", b"GET", *more)
    await until(lambda: http2.world.waiting == 1)
    await http2.world.clock_moves(0.06)
    return await client.answer(stream)


async def test_a_trace_gets_each_step_and_gives_the_pod_its_context(http2, traces):
    pod = await http2.serving()
    client = await http2.client()
    given = ((b"traceparent", b"theirs"), (b"tracestate", b"theirs"), (b"baggage", b"b"))
    await client.answer(client.ask(b"/x", b"GET", *given))
    assert traces.told == steps_of_a_get(b"/x", minor=2)
    assert (traces.secure, traces.origins) == ([False], [f"http://{pod.endpoint.address}"])
    (seen,) = pod.requests
    assert seen.all(b"traceparent") == seen.all(b"tracestate") == [b"ours"]
    assert seen.all(b"baggage") == [b"b"]
    assert seen.all(b":authority") == [pod.endpoint.address.encode()]


async def test_each_of_many_identical_requests_gives_its_context_to_the_trace(http2, traces):
    """From the second on, each header block is a list of references to the HPACK table."""
    pod = await http2.serving()
    client = await http2.client()
    given = ((b"traceparent", b"theirs"), (b"tracestate", b"theirs"), (b"baggage", b"b"))
    for _ in range(5):
        assert (await client.answer(client.ask(b"/x", b"GET", *given))).status == 200
    assert traces.told == 5 * steps_of_a_get(b"/x", minor=2)
    assert [seen.all(b"traceparent") for seen in pod.requests] == [[b"ours"]] * 5


async def test_a_context_passes_untouched_when_tracing_is_turned_off(http2, traces):
    pod = await http2.serving()
    client = await http2.client()
    for _ in range(4):
        await client.answer(client.ask(b"/x", b"GET", (b"traceparent", b"theirs")))
    http2.world.proxy.services.tracer = None
    await client.answer(client.ask(b"/x", b"GET", (b"traceparent", b"theirs")))
    http2.world.proxy.services.tracer = traces
    await client.answer(client.ask(b"/x", b"GET", (b"traceparent", b"theirs")))
    passed = [seen.all(b"traceparent") for seen in pod.requests]
    assert passed == [*[[b"ours"]] * 4, [b"theirs"], [b"ours"]]
    assert [told[-1] for told in traces.told if told[0] == "begin"] == [True] * 5


async def test_identical_requests_that_run_at_a_time_have_the_same_records(http2, traces, records):
    """A held request keeps its record while others of the same header block are traced."""
    pod = await http2.serving()
    client = await http2.client()
    given = ((b"traceparent", b"theirs"), (b"x-mine", b"2"))
    streams = [client.ask(b"/x", b"GET", *given) for _ in range(4)]
    http2.world.proxy.services.tracer = None
    streams += [client.ask(b"/x", b"GET", *given) for _ in range(2)]
    for stream in streams:
        await client.answer(stream)
    assert len(pod.requests) == 6
    assert len({record.headers for record in records}) <= 2
    assert all(b"\r\nx-mine: 2" in record.headers for record in records)
    asked = [told for told in traces.told if told[0] == "begin"]
    assert asked == [("begin", b"GET", b"/x", b"example.com", 2, True)] * len(asked)


@in_virtual_time
async def test_a_trace_has_the_reason_why_a_request_waits(http2, traces):
    http2.list(timeout=0.05)
    client = await http2.client()
    assert (await waits_in_vain(http2, client)).status == 504
    assert [told for told in traces.told if told[0] == "no-pod"] == [("no-pod", "no-endpoints")] * 2
    assert traces.told[-1] == ("ended", 504, "timed-out")


async def test_the_log_gets_a_record_of_each_request(http2, records):
    def answer(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"201")])
            peer.data(stream, b"seven!!")
            peer.headers(stream, [(b"grpc-status", b"0")], end=True)

    pod = await http2.serving()
    pod.on_message = answer
    client = await http2.client()
    stream = client.ask(b"/a?b", b"POST", (b"x-mine", b"2"), (b"content-length", b"4"), end=False)
    client.data(stream, b"body", end=True)
    await client.answer(stream)

    (record,) = records
    assert (record.method, record.target, record.host) == (b"POST", b"/a?b", b"example.com")
    assert (record.minor, record.status) == (2, 201)
    assert (record.content_length, record.response_size) == (4, 7)
    assert b"\r\nx-mine: 2" in record.headers
    assert record.client.startswith("127.0.0.1:")


async def test_the_line_that_knatives_pipelines_read_says_http2(http2):
    lines: list[bytes] = []
    log = RequestLog(lines.append, lambda: 5.0)
    log.configure(RequestLogConfig(True, DEFAULT_TEMPLATE))
    http2.world.proxy.services.request_log = log
    await http2.serving()
    client = await http2.client()
    given = ((b"user-agent", b"grpc-python/1"), (b"referer", b"there"))
    await client.answer(client.ask(b"/shop.Cart/Add", b"POST", GRPC, *given))
    (said,) = [json.loads(line)["httpRequest"] for line in lines]
    assert said["protocol"] == "HTTP/2.0"
    assert (said["requestMethod"], said["requestUrl"]) == ("POST", "/shop.Cart/Add")
    assert (said["status"], said["responseSize"]) == (200, "5")
    assert (said["userAgent"], said["referer"]) == ("grpc-python/1", "there")


@in_virtual_time
async def test_the_log_tells_no_coding_and_no_body_that_were_not_there(http2):
    """gRPC frames its body otherwise than HTTP/1, and its own response is a head alone."""
    lines: list[bytes] = []
    template = "{{.Request.ContentLength}} {{.Request.TransferEncoding}} {{.Response.Size}}"
    log = RequestLog(lines.append, lambda: 5.0)
    log.configure(RequestLogConfig(True, template))
    http2.world.proxy.services.request_log = log
    http2.list(timeout=0.05)
    client = await http2.client()
    stream = client.ask(b"/shop.Cart/Add", b"POST", GRPC, end=False)
    client.data(stream, b"message", end=True)
    await until(lambda: http2.world.waiting == 1)
    await http2.world.clock_moves(0.06)
    assert (await client.answer(stream)).all(b"grpc-status") == [b"4"]
    assert lines == [b"-1 [] 0\n"]


async def test_probes_are_neither_traced_nor_logged(http2, traces, records):
    client = await http2.client()
    await client.answer(client.ask(b"/", b"GET", (b"user-agent", b"kube-probe/1.34")))
    assert (traces.told, records) == ([], [])


async def test_requests_are_counted_by_the_version_that_both_sides_speak(http2):
    pod = await http2.serving()
    client = await http2.client()
    await client.answer(client.ask(b"/", b"POST", GRPC))
    counters = http2.world.counters()
    assert list(counters.server) == [(b"POST", 2, 200)]
    assert list(counters.client) == [(pod.endpoint.address, b"POST", 2, 200)]
    assert counters.outcomes["served"] == 1


@in_virtual_time
async def test_a_response_of_ours_says_why_as_in_http1(http2):
    http2.list(timeout=0.05)
    client = await http2.client()
    answer = await waits_in_vain(http2, client)
    assert answer.all(b"activator-reason") == [b"no-endpoints"]
    assert len(answer.all(b"retry-after")) == 1
    assert answer.body.startswith(b"activator request timeout")
    problem = await waits_in_vain(http2, client, (b"accept", b"application/json"))
    assert json.loads(problem.body)["reason"] == "no-endpoints"


async def test_those_that_wait_are_counted_and_explained_as_in_http1(http2):
    http2.list()
    client = await http2.client()
    streams = [client.ask() for _ in range(3)]
    await until(lambda: http2.world.waiting == 3)
    revision = http2.world.revision()
    assert http2.world.driver.why(revision)[0].value == "no-endpoints"
    assert revision.statistics().waiting == 3
    http2.list(await http2.pod())
    for stream in streams:
        assert (await client.answer(stream)).status == 200

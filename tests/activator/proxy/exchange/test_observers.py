"""What traces and the request log record of a request."""

from __future__ import annotations

from tests.activator.proxy.observers import Records, Traces, steps_of_a_get
from tests.activator.proxy.world import ok, request, until
from throttler.model import RevisionID


async def test_a_trace_gets_each_step_and_gives_the_pod_its_context(world, traces):
    pod = await world.pod()
    world.revise(pod)
    fields = b"traceparent: theirs\r\nTraceState: theirs\r\nbaggage: b\r\n"

    assert (await world.ask(request(b"/x", fields=fields))).status == 200

    assert traces.told == steps_of_a_get(b"/x", minor=1)
    assert (traces.secure, traces.origins) == ([False], [f"http://{pod.endpoint.address}"])
    (seen,) = pod.requests
    assert seen.all(b"traceparent") == seen.all(b"tracestate") == [b"ours"]
    assert seen.all(b"baggage") == [b"b"]


async def test_without_traces_a_clients_context_passes_untouched(world):
    pod = await world.pod()
    world.revise(pod)
    fields = b"traceparent: theirs\r\nTraceState: theirs\r\n"

    await world.ask(request(fields=fields))

    (seen,) = pod.requests
    assert (b"TraceState", b"theirs") in seen.headers
    assert seen.all(b"traceparent") == [b"theirs"]


async def test_a_trace_has_the_retry_of_a_request(world, traces):
    pods = [await world.pod(), await world.pod()]
    gone, _ = sorted(pods, key=lambda pod: pod.endpoint)
    world.revise(*pods, container_concurrency=1)
    await until(lambda: world.revision().statistics().healthy == 2)
    await gone.refuse()

    await world.ask(request())

    steps = [told[0] for told in traces.told]
    assert steps == [
        *("begin", "found", "assigned", "failed", "waiting"),
        *("assigned", "sending", "responded", "ended"),
    ]


async def test_a_trace_has_the_reason_why_a_request_waits_and_of_its_end(new_world):
    world = await new_world()
    world.proxy.services.tracer = traces = Traces()
    world.revise(timeout=0.05)

    assert (await world.ask(request())).status == 504

    assert [told for told in traces.told if told[0] == "no-pod"] == [("no-pod", "no-endpoints")] * 2
    assert traces.told[-1] == ("ended", 504, "timed-out")


async def test_a_trace_has_an_unknown_revision(world, traces):
    assert (await world.ask(request())).status == 404
    assert traces.told[-2:] == [("no-pod", "unknown-revision"), ("ended", 404, "unknown-revision")]


async def test_a_trace_has_the_reason_of_an_own_response_without_a_wait(world, traces):
    pod = await world.serving()
    pod.on_data = lambda connection: connection.close()
    assert (await world.ask(request(method=b"POST"))).status == 502
    assert traces.told[-2:] == [("no-pod", "upstream-failed"), ("ended", 502, "upstream-failed")]


async def test_probes_are_neither_traced_nor_logged(world, traces, records):
    client = await world.client()
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: kube-probe/1.34\r\n\r\n")
    await client.answer()
    assert (traces.told, records) == ([], [])


async def test_the_log_gets_a_record_of_each_request(world, traces, records):
    pod = await world.pod()
    pod.answer = ok(b"four", b"X-Own: 1\r\n")
    world.revise(pod)

    await world.ask(request(b"/a?b", b"POST", b"X-Mine: 2\r\n", b"body"), b"POST")

    (record,) = records
    assert record.revision.id == RevisionID("ns", "rev")
    assert (record.method, record.target, record.host) == (b"POST", b"/a?b", b"example.com")
    assert (record.minor, record.status) == (1, 200)
    assert (record.content_length, record.response_size) == (4, 4)
    assert b"\r\nX-Mine: 2" in record.headers
    assert b"\r\nknative-serving-revision: rev" in record.headers
    assert record.client.startswith("127.0.0.1:")
    assert record.latency >= 0
    assert record.trace_id == "ab" * 16


async def test_a_relayed_103_is_not_the_status_that_is_logged(world, records):
    pod = await world.pod()
    pod.answer = (
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    )
    world.revise(pod)
    await world.ask(request())
    assert [record.status for record in records] == [404]


async def test_a_response_of_ours_is_logged_with_its_size(new_world):
    world = await new_world()
    world.proxy.services.request_log = records = Records()
    world.revise(timeout=0.0)
    assert (await world.ask(request())).status == 504
    assert [(r.status, r.response_size, r.trace_id) for r in records] == [(504, 25, "")]
    assert records[0].why == "no-endpoints"


async def test_a_response_of_a_pod_has_no_reason_in_the_log(world, records):
    await world.serving()
    await world.ask(request())
    assert [record.why for record in records] == [""]


async def test_clients_that_send_requests_one_at_a_time_keep_a_revision_awake(world):
    pod = await world.serving()
    entry = world.driver.entries.find(b"ns", b"rev")
    for _ in range(4):
        await world.ask(request(fields=b"User-Agent: Prometheus/3.5.0\r\n"))
    assert entry.agents.keep_awake(world.now()) == [("Prometheus", 4)]
    pod.on_data = lambda connection: None
    for count in (1, 2, 3):  # only the first one arrives alone
        client = await world.client()
        client.send(request(fields=b"User-Agent: Prometheus/3.5.0\r\n"))
        await until(lambda: world.in_flight == count)  # noqa: B023 # awaited in its turn
    assert entry.agents.keep_awake(world.now()) == [("Prometheus", 5)]
    assert entry.agents.sample_from > world.now()
    await until(lambda: len(pod.requests) == 7)
    for connection in pod.connections:
        connection.write(ok())
    await world.idle()


async def test_a_client_in_http2_keeps_a_revision_awake(http2):
    await http2.serving()
    client = await http2.client()
    for _ in range(3):
        await client.answer(client.ask(b"/", b"GET", (b"user-agent", b"kube-probe-like/1")))
    entry = http2.world.driver.entries.find(b"ns", b"rev")
    assert entry.agents.keep_awake(http2.world.now()) == [("kube-probe-like", 3)]

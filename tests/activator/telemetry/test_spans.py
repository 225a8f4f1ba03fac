"""The spans of a request, as a collector gets them."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from activator.telemetry.otlp import spans_of
from tests.activator.telemetry.tracing_world import REVISION, WALL, Requests

POD = "10.0.0.1:8012"


def spans(trace) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans_of(trace, Resource({}))}


def parent(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent is not None else None


def own(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def test_a_request_is_a_wait_and_a_pod_under_one_server_span():
    """TestActivationHandlerTraceSpans of Knative: the spans in the order of their ends."""
    trace = Requests().served()
    found = spans_of(trace, Resource({"service.name": "activator"}))
    assert [span.name for span in found] == [
        *("throttler_try", "POST /buy", "activator_proxy", "POST")
    ]
    wait, client, pod, server = found
    assert parent(wait) == parent(pod) == own(server)
    assert parent(client) == own(pod)
    assert parent(server) is None
    assert [span.kind for span in found] == [
        *(SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.INTERNAL, SpanKind.SERVER)
    ]
    assert {span.context.trace_id for span in found if span.context} == {trace.number}
    assert {span.instrumentation_scope.name for span in found if span.instrumentation_scope} == {
        "knative.dev/serving/pkg/activator"
    }
    assert {span.resource.attributes["service.name"] for span in found} == {"activator"}
    assert {span.status.status_code for span in found} == {StatusCode.UNSET}
    assert (wait.start_time, wait.end_time) == (WALL, WALL)
    assert (client.start_time, client.end_time) == (WALL, WALL + 1_000)


def test_attributes_are_those_of_the_semantic_conventions_and_queries_are_left_out():
    requests = Requests()
    trace = requests.begin(host=b"cart.example.com:8080", block=b"\r\nUser-Agent: curl/8")
    trace.found(REVISION)
    trace.assigned("[2001:db8::1]:8012")
    trace.sending("http://[2001:db8::1]:8012")
    trace.responded(200)
    trace.ended(200, "served")
    found = spans(trace)
    assert found["POST"].attributes == {
        "http.request.method": "POST",
        "url.scheme": "http",
        "url.path": "/buy",
        "server.address": "cart.example.com",
        "server.port": 8080,
        "network.protocol.version": "1.1",
        "user_agent.original": "curl/8",
        "http.response.status_code": 200,
        "activator.outcome": "served",
        "kn.service.name": "cart",
        "kn.configuration.name": "cart-cfg",
        "kn.revision.name": "cart-00001",
        "k8s.namespace.name": "shop",
    }
    assert found["POST /buy"].attributes == {
        "http.request.method": "POST",
        "url.full": "http://[2001:db8::1]:8012/buy",
        "server.address": "2001:db8::1",
        "server.port": 8012,
        "network.protocol.version": "1.1",
        "http.response.status_code": 200,
    }


def test_over_tls_the_scheme_is_https_and_the_port_is_the_one_that_was_dialled():
    requests = Requests()
    trace = requests.begin(secure=True)
    trace.found(REVISION)
    trace.assigned("10.0.0.1:8012")
    trace.sending("https://10.0.0.1:8112")
    trace.ended(200, "served")
    found = spans(trace)
    assert (found["POST"].attributes or {})["url.scheme"] == "https"
    client = found["POST /buy"].attributes or {}
    assert (client["url.full"], client["server.port"]) == ("https://10.0.0.1:8112/buy", 8112)


@pytest.mark.parametrize(
    ("minor", "asked", "sent"), [(0, "1.0", "1.1"), (1, "1.1", "1.1"), (2, "2", "2")]
)
def test_each_side_has_the_version_that_it_speaks(minor, asked, sent):
    requests = Requests()
    trace = requests.begin(minor=minor)
    trace.found(REVISION)
    trace.assigned("10.0.0.1:8012")
    trace.sending("http://10.0.0.1:8012")
    trace.ended(200, "served")
    found = spans(trace)
    versions = [
        (found[name].attributes or {})["network.protocol.version"] for name in ("POST", "POST /buy")
    ]
    assert versions == [asked, sent]


@pytest.mark.parametrize(
    ("status", "server", "client"),
    [(200, "UNSET", "UNSET"), (404, "UNSET", "ERROR"), (500, "ERROR", "ERROR")],
)
def test_who_is_to_blame_for_a_status(status, server, client):
    found = spans(Requests().served(status))
    assert found["POST"].status.status_code.name == server
    assert found["POST /buy"].status.status_code.name == client
    expected = str(status) if client == "ERROR" else None
    assert (found["POST /buy"].attributes or {}).get("error.type") == expected


def test_a_wait_that_ends_without_a_pod_is_an_error_and_says_why():
    requests = Requests()
    trace = requests.begin()
    trace.found(REVISION)
    trace.no_pod("no-endpoints")
    requests.later()
    trace.no_pod("probe-failing")
    trace.ended(504, "timed-out")
    wait, server = spans_of(trace, Resource({}))
    assert (wait.status.status_code, wait.status.description) == (StatusCode.ERROR, "timed-out")
    assert [(e.timestamp, (e.attributes or {})["activator.reason"]) for e in wait.events] == [
        (WALL, "no-endpoints"),
        (WALL + 1_000, "probe-failing"),
    ]
    assert (server.attributes or {})["activator.reason"] == "probe-failing"
    assert (server.status.status_code, server.status.description) == (StatusCode.ERROR, "timed-out")


def test_a_wait_that_ended_well_tells_its_reason_too():
    requests = Requests()
    trace = requests.begin()
    trace.found(REVISION)
    trace.no_pod("at-capacity")
    requests.later(2_000)
    trace.assigned(POD)
    trace.sending(f"http://{POD}")
    trace.responded(200)
    trace.ended(200, "served")
    wait = spans(trace)["throttler_try"]
    assert wait.attributes == {"activator.reason": "at-capacity"}
    assert wait.status.status_code is StatusCode.UNSET
    assert (wait.start_time, wait.end_time) == (WALL, WALL + 2_000)


def test_a_request_that_is_sent_again_has_a_span_for_each_attempt():
    requests = Requests()
    trace = requests.begin()
    trace.found(REVISION)
    trace.assigned("10.0.0.1:8012")
    trace.failed("connection refused")  # while dialling: no byte was sent
    trace.waiting()
    trace.assigned("10.0.0.2:8012")
    trace.sending("http://10.0.0.2:8012")
    trace.failed("connection reset")  # a kept connection: one retry to the same pod
    trace.assigned("10.0.0.2:8012")
    trace.sending("http://10.0.0.2:8012")
    trace.responded(200)
    trace.ended(200, "served")
    found = spans_of(trace, Resource({}))
    assert [(span.name, span.status.description) for span in found] == [
        ("throttler_try", None),
        ("activator_proxy", "connection refused"),
        ("throttler_try", None),
        ("POST /buy", "connection reset"),
        ("POST /buy", None),
        ("activator_proxy", None),
        ("POST", None),
    ]
    _, first, _, failed, good, second, server = found
    assert own(first) != own(second)
    assert parent(failed) == parent(good) == own(second)
    assert server.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("outcome", ["cancelled", "timed-out", "upstream-failed"])
def test_a_response_that_is_not_completed_is_an_error_of_the_client_span(outcome):
    requests = Requests()
    trace = requests.begin()
    trace.found(REVISION)
    trace.assigned(POD)
    trace.sending(f"http://{POD}")
    trace.responded(200)
    trace.ended(200, outcome)
    found = spans(trace)
    assert found["POST /buy"].status.description == outcome
    assert found["activator_proxy"].status.description == outcome
    blamed = outcome != "cancelled"  # a client that cancels is no error of the server
    assert (found["POST"].status.status_code is StatusCode.ERROR) is blamed


def test_an_unknown_revision_is_one_span_without_its_name():
    trace = Requests().begin()
    trace.ended(404, "unknown-revision")
    (server,) = spans_of(trace, Resource({}))
    assert server.name == "POST"
    assert "kn.revision.name" not in (server.attributes or {})
    assert server.status.status_code is StatusCode.UNSET


def test_a_made_up_method_and_odd_bytes_make_no_span_names():
    requests = Requests()
    trace = requests.begin(b"BREW", b"/\xff", b"[::1]")
    trace.ended(404, "unknown-revision")
    (server,) = spans_of(trace, Resource({}))
    attributes = server.attributes or {}
    assert server.name == "HTTP"
    assert attributes["http.request.method"] == "_OTHER"
    assert attributes["http.request.method_original"] == "BREW"
    assert (attributes["url.path"], attributes["server.address"]) == ("/\ufffd", "[::1]")


def test_a_remote_parent_and_its_state_are_kept():
    fields = b"\r\ntraceparent: 00-%032x-%016x-01\r\ntracestate: a=1,b=2" % (7, 8)
    trace = Requests().begin(block=fields)
    trace.ended(404, "unknown-revision")
    (server,) = spans_of(trace, Resource({}))
    assert server.parent is not None
    assert server.context is not None
    assert (server.parent.span_id, server.parent.is_remote) == (8, True)
    assert server.context.trace_id == 7
    assert server.context.trace_state.to_header() == "a=1,b=2"

"""What a span records of a request on the byte path, and which headers its pod gets."""

from __future__ import annotations

from activator.telemetry.sampling import by_parent, never
from activator.telemetry.trace_context import parent_of
from activator.telemetry.tracing import MAX_STEPS, MAX_TEXT, What
from tests.activator.telemetry.tracing_world import REVISION, WALL, Requests

PARENT = b"\r\ntraceparent: 00-%032x-%016x-01\r\ntracestate: a=1" % (7, 8)


def test_the_pod_gets_the_trace_and_a_new_span_with_each_attempt():
    trace = Requests().begin(block=PARENT)
    told = [parent_of(b"\r\n" + trace.sending("http://10.0.0.1:80")[:-2]) for _ in range(2)]
    first, second = told
    assert first is not None
    assert second is not None
    assert first.trace_id == second.trace_id == 7
    assert len({first.span_id, second.span_id, trace.span_id, 8}) == 4
    assert (first.sampled, first.state) == (True, b"a=1")
    assert trace.trace_id == f"{7:032x}"


def test_without_a_parent_each_request_is_a_trace_of_its_own():
    requests = Requests()
    one, other = requests.begin(), requests.begin(block=b"\r\ntraceparent: nonsense")
    assert one.number != other.number
    assert one.parent is other.parent is None


def test_an_unsampled_span_is_not_kept_but_its_context_is_sent_on():
    requests = Requests(never)
    trace = requests.tracer.begin(b"GET", b"/", b"h", 1, PARENT, False)
    told = parent_of(b"\r\n" + trace.sending("http://10.0.0.1:80")[:-2])
    trace.found(REVISION)
    trace.no_pod("at-capacity")
    trace.assigned("a")
    trace.waiting()
    trace.responded(200)
    trace.failed("e")
    trace.ended(200, "served")
    assert requests.ended == []
    assert told is not None
    assert (told.trace_id, told.sampled, told.state) == (7, False, b"a=1")
    assert trace.trace_id == f"{7:032x}"


def test_the_callers_decision_is_followed_where_the_sampler_says_so():
    requests = Requests(by_parent(never))
    requests.begin(block=PARENT).ended(200, "served")
    requests.tracer.begin(b"GET", b"/", b"h", 1, PARENT.replace(b"-01", b"-00"), False).ended(
        200, "x"
    )
    assert len(requests.ended) == 1


def test_what_is_noted_is_in_order_and_handed_over_at_the_end():
    requests = Requests()
    trace = requests.served()
    assert requests.ended == [trace]
    assert [step.what for step in trace.steps] == [
        *(What.FOUND, What.ASSIGNED, What.SENDING, What.RESPONDED)
    ]
    assert (trace.began, trace.ended_at, trace.wall) == (5_000, 6_000, WALL)
    assert (trace.status, trace.outcome) == (200, "served")


def test_what_clients_may_make_long_is_cut():
    agent = b"\r\nUser-Agent: " + b"u" * 70_000
    trace = Requests().begin(target=b"/" + b"t" * 70_000, host=b"h" * 70_000, block=agent)
    assert {len(text) for text in (trace.head.target, trace.head.host, trace.head.user_agent)} == {
        MAX_TEXT
    }
    for _ in range(10_000):
        trace.waiting()
    assert len(trace.steps) == MAX_STEPS

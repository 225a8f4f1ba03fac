"""What a span records of a request on the byte path, and which headers its pod gets."""

from __future__ import annotations

import pytest

from activator.settings.config import SETTINGS
from activator.telemetry.tracing import (
    MAX_STEPS,
    MAX_TEXT,
    SAMPLERS,
    Parent,
    What,
    by_parent,
    context_lines,
    never,
    parent_of,
    sampler_of,
)
from tests.activator.telemetry.tracing_world import REVISION, WALL, Requests
from tests.rows import in_one_test

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


YES = Parent(1, 2, True, b"")
NO = Parent(1, 2, False, b"")
LOW, HIGH = 1 << 127, (1 << 64) - 1


def test_a_rate_of_one_traces_all_and_of_zero_nothing_whatever_the_caller_did():
    assert sampler_of("", None, 1.0)(NO, HIGH)
    assert not sampler_of("", None, 0.0)(YES, LOW)


def test_a_rate_between_follows_the_caller_and_decides_by_the_id_without_one():
    quarter = sampler_of("", None, 0.25)
    assert quarter(YES, HIGH)
    assert not quarter(NO, LOW)
    assert quarter(None, (1 << 62) - 1)
    assert not quarter(None, 1 << 62)


@pytest.mark.parametrize("argument", [0.25, 1.0, 0.0])
def test_the_environments_share_wins_over_the_rate(argument):
    decide = sampler_of("", argument, 0.5)
    assert decide(None, (1 << 62) - 1) is (argument > 0)
    assert decide(None, 1 << 62) is (argument == 1)


@pytest.mark.parametrize(
    ("word", "yes", "no", "low", "high"),
    [
        ("always_on", 1, 1, 1, 1),
        ("always_off", 0, 0, 0, 0),
        ("traceidratio", 0, 0, 1, 0),
        ("parentbased_always_on", 1, 0, 1, 1),
        ("parentbased_always_off", 1, 0, 0, 0),
        ("parentbased_traceidratio", 1, 0, 1, 0),
    ],
)
def test_the_samplers_of_the_specification(word, yes, no, low, high):
    decide = sampler_of(word, 0.5, 1.0)
    asked = ((YES, HIGH), (NO, HIGH), (None, LOW), (None, HIGH))
    assert [decide(*each) for each in asked] == [bool(each) for each in (yes, no, low, high)]


def test_a_sampler_without_argument_takes_all():
    assert sampler_of("traceidratio", None, 0.0)(None, HIGH)


def test_the_setting_takes_these_words_and_no_others():
    (row,) = (row for row in SETTINGS if row.variable == "OTEL_TRACES_SAMPLER")
    assert row.kind.metavar.split("|") == list(SAMPLERS)


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01"


def block(*fields: str) -> bytes:
    return b"".join(b"\r\n" + field.encode() for field in fields)


def state(*values: str) -> bytes | None:
    fields = [f"traceparent: {GOOD}", *(f"tracestate: {value}" for value in values)]
    parent = parent_of(block(*fields))
    return parent.state if parent is not None else None


def test_a_parent_is_read_whole_whatever_stands_around_it():
    fields = block("Accept: */*", f"TraceParent:{GOOD}  ", "Tracestate: a=1", "X-Last: x")
    assert parent_of(fields) == Parent(int(TRACE, 16), int(SPAN, 16), True, b"a=1")


@pytest.mark.parametrize(("flags", "sampled"), [("00", 0), ("01", 1), ("02", 0), ("ff", 1)])
def test_only_the_last_bit_says_that_it_is_sampled(flags, sampled):
    parent = parent_of(block(f"traceparent: 00-{TRACE}-{SPAN}-{flags}"))
    assert parent is not None
    assert parent.sampled is bool(sampled)


@in_one_test(
    "value",
    [
        "",
        GOOD[:-1],
        GOOD + "0",
        GOOD + "-more",
        GOOD.upper(),
        GOOD.replace("-", "_"),
        f"ff-{TRACE}-{SPAN}-01",
        f"0x-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"01-{TRACE}-{SPAN}-01x",
        f"00-{TRACE}-{SPAN}-0g",
        f"{GOOD},{GOOD}",
        "٠" * 55,
    ],
)
def test_a_malformed_parent_begins_a_new_trace(value):
    assert parent_of(block(f"traceparent: {value}", "tracestate: a=1")) is None


def test_what_a_later_version_adds_is_left_out():
    for value in (f"01-{TRACE}-{SPAN}-01", f"cc-{TRACE}-{SPAN}-01-what-the-future-brings"):
        parent = parent_of(block(f"traceparent: {value}"))
        assert parent is not None
        assert context_lines(parent.trace_id, 1, parent.sampled, b"").startswith(
            b"Traceparent: 00-4bf9"
        )


def test_two_parents_are_none_as_is_none_at_all():
    assert parent_of(block(f"traceparent: {GOOD}", f"Traceparent: {GOOD}")) is None
    assert parent_of(block(f"X-Traceparent: {GOOD}", f"traceparent-x: {GOOD}")) is None
    assert parent_of(b"") is None


def test_several_state_fields_are_one_list_in_their_order():
    assert state("a=1,b=2", "", " c=3 ,, \t,d@e=4 x") == b"a=1,b=2,c=3,d@e=4 x"


@in_one_test(
    "value",
    ["a", "a=", "A=1", "a=1,a=2", "=1", "a=b=c", "a=1,b", "@a=1", "a@1=1", "ü=1"],
)
def test_one_malformed_member_spoils_the_state_but_not_the_parent(value):
    assert state("ok=1", value) == b""


def test_a_state_is_passed_on_up_to_its_limits():
    many = ",".join(f"k{number}=v" for number in range(32))
    assert state(many) == many.encode()
    assert state(many + ",more=1") == b""
    long = f"{'k' * 256}={'v' * 256}"
    assert state(long) == long.encode()
    assert state(long + "v") == b""


def test_what_is_written_is_what_is_read():
    written = context_lines(int(TRACE, 16), int(SPAN, 16), True, b"a=1")
    assert written == f"Traceparent: {GOOD}\r\nTracestate: a=1\r\n".encode()
    assert parent_of(b"\r\n" + written[:-2]) == Parent(int(TRACE, 16), int(SPAN, 16), True, b"a=1")
    assert context_lines(1, 2, False, b"") == f"Traceparent: 00-{1:032x}-{2:016x}-00\r\n".encode()

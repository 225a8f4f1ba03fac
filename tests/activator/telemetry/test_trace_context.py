"""W3C Trace Context: which headers of a client the activator accepts, and which a pod gets."""

from __future__ import annotations

import pytest

from activator.telemetry.trace_context import Parent, lines, parent_of, without_context

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


@pytest.mark.parametrize(
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
        assert lines(parent.trace_id, 1, parent.sampled, b"").startswith(b"Traceparent: 00-4bf9")


def test_two_parents_are_none_as_is_none_at_all():
    assert parent_of(block(f"traceparent: {GOOD}", f"Traceparent: {GOOD}")) is None
    assert parent_of(block(f"X-Traceparent: {GOOD}", f"traceparent-x: {GOOD}")) is None
    assert parent_of(b"") is None


def test_several_state_fields_are_one_list_in_their_order():
    assert state("a=1,b=2", "", " c=3 ,, \t,d@e=4 x") == b"a=1,b=2,c=3,d@e=4 x"


@pytest.mark.parametrize(
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
    written = lines(int(TRACE, 16), int(SPAN, 16), True, b"a=1")
    assert written == f"Traceparent: {GOOD}\r\nTracestate: a=1\r\n".encode()
    assert parent_of(b"\r\n" + written[:-2]) == Parent(int(TRACE, 16), int(SPAN, 16), True, b"a=1")
    assert lines(1, 2, False, b"") == f"Traceparent: 00-{1:032x}-{2:016x}-00\r\n".encode()


def test_old_context_is_taken_out_and_nothing_else():
    fields = block("A: 1", "TRACEPARENT: x", "Baggage: y", "tracestate:", "traceparents: z")
    assert without_context(fields) == block("A: 1", "Baggage: y", "traceparents: z")

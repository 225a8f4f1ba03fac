"""W3C Trace Context: what an incoming request says of its trace, and what a pod is told.

Bytes in, bytes out; knows no span and no sampling. ``baggage`` is not read: nothing here adds to
it, so it passes with the other fields as it came. Source: https://www.w3.org/TR/trace-context/
(level 1, sections 3.2, 3.3 and 4); Go's propagation.TraceContext does the same.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

#: Members of a tracestate that may be passed on (section 3.3.1.1); a longer list is not.
MAX_MEMBERS: Final = 32
_SAMPLED: Final = 1

_FIELDS = re.compile(rb"\r\n(trace(?:parent|state)):[ \t]*([^\r\n]*)", re.IGNORECASE)
_PARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_NO_TRACE: Final = b"0" * 32
_NO_SPAN: Final = b"0" * 16
_KEY: Final = (
    rb"(?:[a-z0-9][_0-9a-z*/-]{0,255}|[a-z0-9][_0-9a-z*/-]{0,240}@[a-z][_0-9a-z*/-]{0,13})"
)
_VALUE: Final = rb"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
_MEMBER = re.compile(rb"(%b)=%b" % (_KEY, _VALUE))


class Parent(NamedTuple):
    """Whose child a request is.

    Attributes:
        trace_id, span_id: never zero.
        sampled: whether its spans are recorded.
        state: the tracestate to pass on, valid and unchanged; empty where there is none.
    """

    trace_id: int
    span_id: int
    sampled: bool
    state: bytes


def parent_of(block: bytes) -> Parent | None:
    """Return what a head says of its trace.

    A malformed ``traceparent``, or more than one, counts as none, and then ``tracestate`` counts
    as none too (section 4.3). A malformed ``tracestate`` alone is left out (section 3.3).

    Arguments:
        block: header fields, each preceded by its CRLF.

    Returns:
        The parent; None where a new trace has to begin.
    """
    parents: list[bytes] = []
    states: list[bytes] = []
    for name, value in _FIELDS.findall(block):
        # Both names are eleven and ten letters long, and nothing else matches.
        (parents if len(name) == len(b"traceparent") else states).append(value)
    if len(parents) != 1:
        return None
    match = _PARENT.fullmatch(parents[0].rstrip(b" \t"))
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    # What a version above 00 adds stands at the end and is not known here (section 3.2.4).
    wrong_version = version == b"ff" or (version == b"00" and more is not None)
    if wrong_version or trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    state = _valid_state(b",".join(states)) if states else b""
    return Parent(int(trace_id, 16), int(span_id, 16), bool(int(flags, 16) & _SAMPLED), state)


def _valid_state(value: bytes) -> bytes:
    """Return a tracestate's members, or nothing: one that is malformed spoils all of them."""
    members = [member for each in value.split(b",") if (member := each.strip(b" \t"))]
    keys = {match[1] for each in members if (match := _MEMBER.fullmatch(each)) is not None}
    # A member that does not match and a key that comes twice both make the numbers differ.
    if len(members) > MAX_MEMBERS or len(keys) != len(members):
        return b""
    return b",".join(members)


def without_context(block: bytes) -> bytes:
    """Return the fields without those that ``lines`` writes anew."""
    return _FIELDS.sub(b"", block)


def lines(trace_id: int, span_id: int, sampled: bool, state: bytes) -> bytes:
    """Write the fields for a pod, each with its CRLF, under Go's spelling."""
    written = b"Traceparent: 00-%032x-%016x-%02x\r\n" % (trace_id, span_id, sampled)
    return b"%bTracestate: %b\r\n" % (written, state) if state else written

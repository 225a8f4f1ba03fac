"""Parses the W3C Trace Context of a client's request, and writes the fields for a pod.

The module knows no span and no sampling. It does not read ``baggage``: the activator adds nothing
to it, so the field passes unchanged. Source: https://www.w3.org/TR/trace-context/ (level 1,
sections 3.2, 3.3 and 4). Go's propagation.TraceContext does the same.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

#: Most members of a tracestate (section 3.3.1.1). The activator drops a longer list.
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
    """The parent span of a request.

    Attributes:
        trace_id, span_id: never zero.
        sampled: whether its spans are recorded.
        state: the tracestate for the pod, valid and unchanged; empty if there is none.
    """

    trace_id: int
    span_id: int
    sampled: bool
    state: bytes


def parent_of(block: bytes) -> Parent | None:
    """Return the parent span that a request head names.

    A malformed ``traceparent``, or more than one, counts as none, and then ``tracestate`` counts
    as none too (section 4.3). A malformed ``tracestate`` alone is left out (section 3.3).

    Arguments:
        block: header fields, each preceded by its CRLF.

    Returns:
        The parent; None if a new trace has to begin.
    """
    parents: list[bytes] = []
    states: list[bytes] = []
    for name, value in _FIELDS.findall(block):
        # Only these two names match, and their lengths differ: eleven and ten letters.
        (parents if len(name) == len(b"traceparent") else states).append(value)
    if len(parents) != 1:
        return None
    match = _PARENT.fullmatch(parents[0].rstrip(b" \t"))
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    # A version above 00 adds fields at the end, which this code does not know (section 3.2.4).
    wrong_version = version == b"ff" or (version == b"00" and more is not None)
    if wrong_version or trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    state = _valid_state(b",".join(states)) if states else b""
    return Parent(int(trace_id, 16), int(span_id, 16), bool(int(flags, 16) & _SAMPLED), state)


def _valid_state(value: bytes) -> bytes:
    """Return the members of a tracestate; nothing if any member is malformed."""
    members = [member for each in value.split(b",") if (member := each.strip(b" \t"))]
    keys = {match[1] for each in members if (match := _MEMBER.fullmatch(each)) is not None}
    # A member that does not match and a key that comes twice both make the numbers differ.
    if len(members) > MAX_MEMBERS or len(keys) != len(members):
        return b""
    return b",".join(members)


def without_context(block: bytes) -> bytes:
    """Return the fields without ``traceparent`` and ``tracestate``, which ``lines`` writes."""
    return _FIELDS.sub(b"", block)


def lines(trace_id: int, span_id: int, sampled: bool, state: bytes) -> bytes:
    """Return the fields for a pod in Go's spelling, each followed by its CRLF."""
    written = b"Traceparent: 00-%032x-%016x-%02x\r\n" % (trace_id, span_id, sampled)
    return b"%bTracestate: %b\r\n" % (written, state) if state else written

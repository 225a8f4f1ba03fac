"""The numbers that a GOAWAY or RST_STREAM says."""

from __future__ import annotations

from h2.errors import ErrorCodes

from activator.proxy.http2.errors import ConnectionFault, ErrorCode


def test_codes_are_those_of_the_rfc():
    assert {each.name: int(each) for each in ErrorCode} == {
        each.name: int(each) for each in ErrorCodes
    }


def test_a_fault_says_its_code_and_its_reason():
    fault = ConnectionFault(ErrorCode.PROTOCOL_ERROR, "why")
    assert (fault.code, fault.reason, str(fault)) == (1, "why", "why")

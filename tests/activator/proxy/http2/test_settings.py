"""Settings and error codes: which values a peer may send."""

from __future__ import annotations

import pytest
from h2.errors import ErrorCodes

from activator.proxy.http2.frame_reader import Http2Setting, read_settings, write_settings
from activator.proxy.http2.frames import ConnectionFault, ErrorCode


def test_what_is_written_is_read_in_order_and_unknown_ones_too():
    values = [
        (1, 0),
        (3, 100),
        (4, (1 << 31) - 1),
        (5, 1 << 14),
        (5, (1 << 24) - 1),
        (9999, 7),
        (2, 1),
    ]
    assert read_settings(write_settings(values)) == values
    assert read_settings(b"") == []


@pytest.mark.parametrize(
    ("setting", "value", "code"),
    [
        (Http2Setting.ENABLE_PUSH, 2, ErrorCode.PROTOCOL_ERROR),
        (Http2Setting.INITIAL_WINDOW_SIZE, 1 << 31, ErrorCode.FLOW_CONTROL_ERROR),
        (Http2Setting.MAX_FRAME_SIZE, (1 << 14) - 1, ErrorCode.PROTOCOL_ERROR),
        (Http2Setting.MAX_FRAME_SIZE, 1 << 24, ErrorCode.PROTOCOL_ERROR),
        (Http2Setting.ENABLE_CONNECT_PROTOCOL, 2, ErrorCode.PROTOCOL_ERROR),
    ],
)
def test_a_value_out_of_bounds_ends_the_connection(setting, value, code):
    with pytest.raises(ConnectionFault) as caught:
        read_settings(write_settings([(1, 4096), (setting, value)]))
    assert caught.value.code is code


def test_half_a_setting():
    with pytest.raises(ConnectionFault) as caught:
        read_settings(write_settings([(1, 4096)])[:-1])
    assert caught.value.code is ErrorCode.FRAME_SIZE_ERROR


def test_codes_are_those_of_the_rfc():
    assert {each.name: int(each) for each in ErrorCode} == {
        each.name: int(each) for each in ErrorCodes
    }


def test_a_fault_says_its_code_and_its_reason():
    fault = ConnectionFault(ErrorCode.PROTOCOL_ERROR, "why")
    assert (fault.code, fault.reason, str(fault)) == (1, "why", "why")

"""Frames that are read: their order, their rules, and settings."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import h2.config
import h2.connection
import pytest
from h2.errors import ErrorCodes
from hyperframe import frame as library
from hypothesis import example, given, settings
from hypothesis import strategies as st

from activator.proxy.http2.frame_reader import (
    MAX_BLOCK,
    MAX_BLOCK_FRAMES,
    RULES,
    FrameReader,
    Http2Setting,
    read_settings,
    write_settings,
)
from activator.proxy.http2.frames import HEAD, PREFACE, ConnectionFault, ErrorCode, FrameType
from activator.proxy.http2.hpack import Decoder
from tests.rows import in_one_test, naming


class Told:
    """Records the calls of a handler, in order."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, *arguments))


SETTINGS = library.SettingsFrame(0).serialize()


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    return (
        HEAD.pack((len(payload) if length is None else length) << 8 | kind, flags, stream) + payload
    )


def told_of(*pieces, preface=False):
    """Return the calls for pieces behind a first SETTINGS, without the call for SETTINGS."""
    told = Told()
    reader = FrameReader(told, preface=preface)
    reader.feed((PREFACE if preface else b"") + SETTINGS)
    told.calls.clear()
    for piece in pieces:
        reader.feed(piece)
    return told.calls


def fault_of(*pieces):
    with pytest.raises(ConnectionFault) as caught:
        told_of(*pieces)
    return caught.value.code


def of_library(each):
    """Return the expected call for a frame of the library."""
    ended = "END_STREAM" in each.flags
    match each:
        case library.DataFrame():
            return ("data", each.stream_id, each.data, each.flow_controlled_length, ended)
        case library.HeadersFrame():
            return ("headers", each.stream_id, each.data, ended)
        case library.RstStreamFrame():
            return ("reset", each.stream_id, each.error_code)
        case library.SettingsFrame() if "ACK" in each.flags:
            return ("idle_frame",)
        case library.SettingsFrame():
            return ("settings", list(each.settings.items()))
        case library.PingFrame():
            return ("ping", each.opaque_data, "ACK" in each.flags)
        case library.GoAwayFrame():
            return ("goaway", each.last_stream_id, each.error_code, each.additional_data)
        case library.WindowUpdateFrame():
            return ("window_update", each.stream_id, each.window_increment)
        case _:
            return ("idle_frame",)


STREAMS = st.integers(1, (1 << 31) - 1)
NUMBERS = st.integers(1, (1 << 31) - 1)
BYTES = st.binary(max_size=60)
ENDED = st.sampled_from([[], ["END_STREAM"]])


def padded(make):
    return st.builds(
        lambda stream, data, flags, padding: make(
            stream,
            data,
            flags=[*flags, *(["PADDED"] if padding is not None else [])],
            pad_length=padding or 0,
        ),
        STREAMS,
        BYTES,
        ENDED,
        st.none() | st.integers(0, 255),
    )


def with_priority(stream, data, flags, pad_length):
    return library.HeadersFrame(
        stream,
        data,
        depends_on=3,
        stream_weight=9,
        flags=[*flags, "END_HEADERS", "PRIORITY"],
        pad_length=pad_length,
    )


def without_priority(stream, data, flags, pad_length):
    return library.HeadersFrame(stream, data, flags=[*flags, "END_HEADERS"], pad_length=pad_length)


def extension(kind, body):
    made = library.ExtensionFrame(kind, 0, 255, body)
    made.body_len = len(body)  # the library sets it when it reads one
    return made


FRAMES = st.one_of(
    padded(library.DataFrame),
    padded(with_priority),
    padded(without_priority),
    st.builds(library.RstStreamFrame, STREAMS, NUMBERS),
    st.builds(library.PriorityFrame, STREAMS, st.just(5), st.just(1)),
    st.builds(lambda: library.SettingsFrame(0, flags=["ACK"])),
    st.builds(lambda table: library.SettingsFrame(0, {1: table, 77: 1}), NUMBERS),
    st.builds(
        lambda data, flags: library.PingFrame(0, data, flags=flags),
        st.binary(min_size=8, max_size=8),
        st.sampled_from([[], ["ACK"]]),
    ),
    st.builds(library.GoAwayFrame, st.just(0), NUMBERS, NUMBERS, BYTES),
    st.builds(library.WindowUpdateFrame, STREAMS | st.just(0), NUMBERS),
    st.builds(extension, st.integers(10, 255), BYTES),
)


@settings(deadline=None, max_examples=40)
@given(st.lists(FRAMES, max_size=6), st.lists(st.integers(0, 2000), max_size=6), st.booleans())
def test_each_frame_is_reported_for_all_cuts_of_the_bytes(sent, cuts, preface):
    data = b"".join(each.serialize() for each in sent)
    expected = [of_library(each) for each in sent]
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(places)]
    assert told_of(data, preface=preface) == expected
    assert told_of(*pieces, preface=preface) == expected
    assert told_of(*(data[at : at + 1] for at in range(len(data)))) == expected


@settings(deadline=None, max_examples=80)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 12), st.integers(0, 255), st.integers(0, 3), st.binary(max_size=20)
        ),
        max_size=8,
    ),
    st.binary(max_size=12),
)
@example([(1, 0x28, 1, b"\x05aaaaaa")], b"")
def test_nothing_but_a_connection_fault_comes_of_anything(sent, rest):
    with suppress(ConnectionFault):
        told_of(b"".join(frame(*each) for each in sent) + rest)


def test_there_is_a_rule_for_each_type():
    assert len(RULES) == len(FrameType)
    assert [rule.take.__name__.strip("_") for rule in RULES] == [
        kind.name.lower() for kind in FrameType
    ]


# What a connection begins with.


def test_a_wrong_preface_is_known_by_its_first_wrong_byte():
    for end in range(len(PREFACE)):
        reader = FrameReader(Told(), preface=True)
        reader.feed(PREFACE[:end])
        with naming(end), pytest.raises(ConnectionFault) as caught:
            reader.feed(b"\x00")
        assert caught.value.code is ErrorCode.PROTOCOL_ERROR


@pytest.mark.parametrize(
    "first", [frame(FrameType.PING, 0, 0, bytes(8)), frame(FrameType.SETTINGS, 1), frame(77)]
)
@pytest.mark.parametrize("preface", [False, True])
def test_the_first_frame_is_settings(first, preface):
    reader = FrameReader(Told(), preface=preface)
    with pytest.raises(ConnectionFault) as caught:
        reader.feed((PREFACE if preface else b"") + first)
    assert caught.value.code is ErrorCode.PROTOCOL_ERROR


def test_a_beginning_in_single_bytes():
    told = Told()
    reader = FrameReader(told, preface=True)
    for byte in PREFACE + SETTINGS:
        reader.feed(bytes((byte,)))
    assert told.calls == [("settings", [])]


# The rules of each type.

ON_STREAM = [
    FrameType.DATA,
    FrameType.HEADERS,
    FrameType.PRIORITY,
    FrameType.RST_STREAM,
    FrameType.PUSH_PROMISE,
    FrameType.CONTINUATION,
]
ON_CONNECTION = [FrameType.SETTINGS, FrameType.PING, FrameType.GOAWAY]


@in_one_test(
    ("kind", "stream"), [*((kind, 0) for kind in ON_STREAM), *((kind, 1) for kind in ON_CONNECTION)]
)
def test_a_frame_where_it_must_not_stand(kind, stream):
    assert fault_of(frame(kind, 0, stream, bytes(8))) is ErrorCode.PROTOCOL_ERROR


@in_one_test(
    ("kind", "flags", "stream", "payload"),
    [
        (FrameType.RST_STREAM, 0, 1, bytes(3)),
        (FrameType.RST_STREAM, 0, 1, bytes(5)),
        (FrameType.SETTINGS, 0, 0, bytes(5)),
        (FrameType.SETTINGS, 1, 0, bytes(6)),
        (FrameType.PING, 0, 0, bytes(7)),
        (FrameType.PING, 1, 0, bytes(9)),
        (FrameType.GOAWAY, 0, 0, bytes(7)),
        (FrameType.WINDOW_UPDATE, 0, 0, bytes(3)),
        (FrameType.WINDOW_UPDATE, 0, 1, bytes(5)),
        (FrameType.DATA, 0x8, 1, b""),
        (FrameType.HEADERS, 0x4 | 0x8, 1, b""),
        (FrameType.HEADERS, 0x4 | 0x20, 1, bytes(4)),
        (FrameType.HEADERS, 0x4 | 0x28, 1, bytes(5)),
    ],
)
def test_a_wrong_length_ends_the_connection(kind, flags, stream, payload):
    assert fault_of(frame(kind, flags, stream, payload)) is ErrorCode.FRAME_SIZE_ERROR


@pytest.mark.parametrize(
    ("kind", "flags", "payload"),
    [
        (FrameType.DATA, 0x8, b"\x01"),
        (FrameType.DATA, 0x8, b"\x05abcd"),
        (FrameType.HEADERS, 0xC, b"\x05abcd"),
        (FrameType.HEADERS, 0x2C, b"\x02" + bytes(6)),
    ],
)
def test_padding_longer_than_the_frame(kind, flags, payload):
    assert fault_of(frame(kind, flags, 1, payload)) is ErrorCode.PROTOCOL_ERROR


def test_padding_of_all_that_is_there():
    assert told_of(frame(FrameType.DATA, 0x8, 1, b"\x04abcd")) == [("data", 1, b"", 5, False)]
    assert told_of(frame(FrameType.DATA, 0x8, 1, b"\x00")) == [("data", 1, b"", 1, False)]


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(FrameType.PRIORITY, 0, 5, bytes(4)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(FrameType.WINDOW_UPDATE, 0, 5, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (frame(FrameType.WINDOW_UPDATE, 0, 5, b"\x80\x00\x00\x00"), ErrorCode.PROTOCOL_ERROR),
    ],
)
def test_what_costs_one_stream_alone(sent, code):
    calls = told_of(sent, frame(FrameType.PING, 0, 0, b"still on"))
    assert [call[:3] for call in calls] == [("stream_error", 5, code), ("ping", b"still on", False)]


def test_a_window_of_the_connection_is_not_widened_by_nothing():
    assert fault_of(frame(FrameType.WINDOW_UPDATE, 0, 0, bytes(4))) is ErrorCode.PROTOCOL_ERROR


def test_a_promise_of_any_peer_is_refused():
    assert fault_of(frame(FrameType.PUSH_PROMISE, 4, 1, bytes(8))) is ErrorCode.PROTOCOL_ERROR


def test_a_setting_is_looked_at():
    wrong = frame(FrameType.SETTINGS, 0, 0, b"\x00\x04\xff\xff\xff\xff")
    assert fault_of(wrong) is ErrorCode.FLOW_CONTROL_ERROR


def test_a_frame_that_is_too_long_is_refused_by_its_head():
    assert fault_of(frame(FrameType.DATA, 0, 1, length=(1 << 14) + 1)) is ErrorCode.FRAME_SIZE_ERROR
    assert len(told_of(frame(FrameType.DATA, 0, 1, bytes(1 << 14)))) == 1


def test_the_reserved_bit_means_nothing():
    reserved = 1 << 31
    sent = frame(FrameType.RST_STREAM, 0, reserved | 5, bytes(4)) + frame(
        FrameType.GOAWAY, 0, 0, b"\x80\x00\x00\x05" + bytes(4)
    )
    assert told_of(sent) == [("reset", 5, 0), ("goaway", 5, 0, b"")]


def test_flags_that_a_type_does_not_have_mean_nothing():
    assert told_of(frame(FrameType.DATA, 0xF6, 1, b"x")) == [("data", 1, b"x", 1, False)]
    assert told_of(frame(FrameType.PING, 0xFE, 0, bytes(8))) == [("ping", bytes(8), False)]


# Header blocks.


def test_a_block_in_several_frames_is_one():
    sent = (
        frame(FrameType.HEADERS, 0x1 | 0x8 | 0x20, 3, b"\x02" + bytes(5) + b"ab" + bytes(2)),
        frame(FrameType.CONTINUATION, 0, 3, b"cd"),
        frame(FrameType.CONTINUATION, 0, 3, b""),
        frame(FrameType.CONTINUATION, 0x4, 3, b"ef"),
        frame(FrameType.HEADERS, 0x4, 5, b"gh"),
    )
    assert told_of(*sent) == [("headers", 3, b"abcdef", True), ("headers", 5, b"gh", False)]


@pytest.mark.parametrize(
    "between",
    [
        frame(FrameType.PING, 0, 0, bytes(8)),
        frame(FrameType.DATA, 0, 3, b"x"),
        frame(FrameType.HEADERS, 4, 3, b"x"),
        frame(FrameType.CONTINUATION, 4, 5, b"x"),
        frame(77, 0, 0, b"x"),
    ],
)
def test_nothing_may_stand_inside_of_a_block(between):
    assert fault_of(frame(FrameType.HEADERS, 0, 3, b"a"), between) is ErrorCode.PROTOCOL_ERROR


def test_continuation_of_nothing():
    assert fault_of(frame(FrameType.CONTINUATION, 4, 3, b"a")) is ErrorCode.PROTOCOL_ERROR
    ended = frame(FrameType.HEADERS, 4, 3, b"a")
    assert fault_of(ended, frame(FrameType.CONTINUATION, 4, 3, b"a")) is ErrorCode.PROTOCOL_ERROR


@pytest.mark.parametrize(
    ("size", "most"), [(0, MAX_BLOCK_FRAMES), (1, MAX_BLOCK_FRAMES), (1 << 14, MAX_BLOCK >> 14)]
)
def test_a_flood_of_continuations_ends_the_connection(size, most):
    begun = [frame(FrameType.HEADERS, 0, 3, bytes(size))]
    more = frame(FrameType.CONTINUATION, 0, 3, bytes(size))
    assert told_of(*begun, *[more] * (most - 1)) == []
    assert fault_of(*begun, *[more] * most) is ErrorCode.ENHANCE_YOUR_CALM


# Another implementation as the peer.


def test_a_client_s_whole_conversation():
    client = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=False))
    client.initiate_connection()
    request = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")]
    client.send_headers(1, [*request, ("x-long", "x" * 30_000)])
    client.send_data(1, b"body", end_stream=True, pad_length=3)
    client.ping(b"12345678")
    client.send_headers(3, request, end_stream=True)
    client.reset_stream(3, 8)
    client.close_connection()
    told = Told()
    FrameReader(told, preface=True).feed(client.data_to_send())
    names = [call[0] for call in told.calls]
    assert names == ["settings", "headers", "data", "ping", "headers", "reset", "goaway"]
    assert told.calls[2] == ("data", 1, b"body", 8, True)
    fields = Decoder().decode(told.calls[1][2])
    assert fields[-1] == (b"x-long", b"x" * 30_000)


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

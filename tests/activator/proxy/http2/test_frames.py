"""Frames as they are sent: the library hyperframe reads each, and h2 takes them for a peer's."""

from __future__ import annotations

from typing import Any, cast

import h2.config
import h2.connection
import h2.events
import pytest
from hyperframe import frame as library

from activator.proxy.http2 import frames
from activator.proxy.http2.frame_reader import Http2Setting, write_settings
from activator.proxy.http2.hpack import NO_TABLE, line
from tests.rows import naming


def parsed(data: bytes) -> list[library.Frame]:
    found = []
    while data:
        each, length = library.Frame.parse_frame_header(memoryview(data)[:9])
        each.parse_body(memoryview(data)[9 : 9 + length])
        found.append(each)
        data = data[9 + length :]
    return found


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (frames.rst_stream(5, 8), library.RstStreamFrame(5, error_code=8)),
        (frames.SETTINGS_ACK, library.SettingsFrame(0, flags=["ACK"])),
        (
            frames.settings(write_settings([(Http2Setting.ENABLE_PUSH, 0), (4, 1 << 20)])),
            library.SettingsFrame(0, settings={2: 0, 4: 1 << 20}),
        ),
        (frames.ping(b"12345678", ack=False), library.PingFrame(0, b"12345678")),
        (frames.ping(b"12345678", ack=True), library.PingFrame(0, b"12345678", flags=["ACK"])),
        (
            frames.goaway(frames.MAX_31_BITS, 11, b"calm"),
            library.GoAwayFrame(0, (1 << 31) - 1, error_code=11, additional_data=b"calm"),
        ),
        (frames.window_update(0, 1 << 30), library.WindowUpdateFrame(0, 1 << 30)),
        (frames.data_head(7, 3, ended=False) + b"abc", library.DataFrame(7, b"abc")),
        (
            frames.data_head(frames.MAX_31_BITS, 0, ended=True),
            library.DataFrame((1 << 31) - 1, b"", flags=["END_STREAM"]),
        ),
        (
            frames.headers(1, b"block", ended=True),
            library.HeadersFrame(1, b"block", flags=["END_STREAM", "END_HEADERS"]),
        ),
    ],
)
def test_a_frame_is_the_library_s(ours, theirs):
    assert ours == theirs.serialize()


@pytest.mark.parametrize("ended", [False, True])
def test_a_long_block_is_continued(ended):
    for size in (0, 1, 99, 100, 101, 199, 200, 201, 1000):
        with naming(size):
            is_continued(size, ended)


def is_continued(size: int, ended: bool) -> None:
    block = bytes(range(256)) * 4
    sent = parsed(frames.headers(3, block[:size], ended=ended, limit=100))
    assert b"".join(cast(Any, each).data for each in sent) == block[:size]
    assert [type(each).__name__ for each in sent[1:]] == ["ContinuationFrame"] * (len(sent) - 1)
    assert {each.stream_id for each in sent} == {3}
    assert all(each.body_len <= 100 for each in sent)
    assert ["END_HEADERS" in each.flags for each in sent] == [False] * (len(sent) - 1) + [True]
    assert ("END_STREAM" in sent[0].flags) is ended


def test_a_peer_understands_a_whole_conversation():
    peer = h2.connection.H2Connection(
        h2.config.H2Configuration(client_side=False, header_encoding=False)
    )
    peer.initiate_connection()
    block = NO_TABLE + b"".join(
        line(*field)
        for field in (
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", b"/"),
            (b":authority", b"pod"),
            (b"x-long", b"x" * 40_000),
        )
    )
    events = peer.receive_data(
        frames.PREFACE
        + frames.settings(write_settings([(Http2Setting.ENABLE_PUSH, 0)]))
        + frames.SETTINGS_ACK
        + frames.window_update(0, 1 << 20)
        + frames.headers(1, block, ended=False)
        + frames.data_head(1, 4, ended=True)
        + b"body"
        + frames.ping(b"12345678", ack=False)
        + frames.headers(3, block, ended=False)
        + frames.rst_stream(3, 8)
        + frames.goaway(0, 0)
    )
    kinds = [type(event) for event in events]
    assert kinds == [
        h2.events.RemoteSettingsChanged,
        h2.events.SettingsAcknowledged,
        h2.events.WindowUpdated,
        h2.events.RequestReceived,
        h2.events.DataReceived,
        h2.events.StreamEnded,
        h2.events.PingReceived,
        h2.events.RequestReceived,
        h2.events.StreamReset,
        h2.events.ConnectionTerminated,
    ]
    request = events[3]
    assert isinstance(request, h2.events.RequestReceived)
    assert (b"x-long", b"x" * 40_000) in request.headers

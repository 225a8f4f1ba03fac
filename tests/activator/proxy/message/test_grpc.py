"""What a gRPC client sends and understands."""

from __future__ import annotations

from math import inf

import pytest

from activator.proxy.http2.hpack import NO_TABLE, Decoder
from activator.proxy.http2.section import grpc_status
from activator.proxy.message import grpc
from tests.rows import in_one_test


@in_one_test(
    ("value", "seconds"),
    [
        (b"1H", 3600),
        (b"2M", 120),
        (b"3S", 3),
        (b"250m", 0.25),
        (b"99999999u", 99.999999),
        (b"5n", 5e-9),
        (b"", inf),
        (b"5", inf),
        (b"-5S", inf),
        (b"123456789S", inf),
    ],
)
def test_the_deadline_is_read(value, seconds):
    assert grpc.timeout({b"grpc-timeout": value}) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        (b"application/grpc", True),
        (b"application/grpc+proto", True),
        (b"application/grpc;charset=x", True),
        (b"application/grpc-web", False),
        (b"application/json", False),
        (b"", False),
    ],
)
def test_what_is_grpc(kind, known):
    assert grpc.is_grpc({b"content-type": kind}) is known


@pytest.mark.parametrize(
    ("http", "status"), [(404, 12), (502, 14), (503, 14), (504, 4), (400, 13), (431, 2)]
)
def test_statuses_are_mapped(http, status):
    assert grpc.status_of(http) == status


def test_a_message_is_percent_encoded():
    assert grpc.message("100% ä\n") == b"100%25 %C3%A4%0A"


@pytest.mark.parametrize(("outcome", "status"), [("upstream-failed", b"14"), ("timed-out", b"4")])
def test_a_response_that_is_broken_off_says_so_in_trailers(outcome, status):
    assert Decoder().decode(NO_TABLE + grpc_status(*grpc.broken_off(outcome))) == [
        (b"grpc-status", status),
        (b"grpc-message", b"%b; the response had begun" % outcome.encode()),
    ]

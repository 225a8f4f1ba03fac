"""The messages of gRPC's health service, compared with protobuf's own encoding."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from activator.probing.probe import check, problem_of


def _messages() -> tuple[Any, Any]:
    """Return the request and the response of health.proto, made from their fields alone."""
    file = descriptor_pb2.FileDescriptorProto(name="health.proto", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto
    for message, name, kind in (
        ("HealthCheckRequest", "service", field.TYPE_STRING),
        ("HealthCheckResponse", "status", field.TYPE_INT32),
    ):
        file.message_type.add(name=message).field.add(
            name=name, number=1, type=kind, label=field.LABEL_OPTIONAL
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = (pool.FindMessageTypeByName(each.name) for each in file.message_type)
    request, response = map(message_factory.GetMessageClass, found)
    return request, response


HealthCheckRequest, HealthCheckResponse = _messages()


def framed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


@pytest.mark.parametrize("name", ["", "a", "shop.v1.Cart", "x" * 127, "x" * 128, "x" * 20_000])
def test_a_call_is_what_protobuf_writes(name: str) -> None:
    message = HealthCheckRequest(service=name).SerializeToString()
    assert check(name.encode()) == framed(message)


@pytest.mark.parametrize(
    ("status", "problem"),
    [(0, "UNKNOWN"), (1, ""), (2, "NOT_SERVING"), (3, "SERVICE_UNKNOWN"), (99, "99")],
)
def test_only_serving_passes(status: int, problem: str) -> None:
    message = HealthCheckResponse(status=status).SerializeToString()
    assert problem_of(framed(message)) == (problem and f"status {problem}")


#: Fields that this activator does not know: a number, a string, eight bytes and four.
UNKNOWN = b"\x10\xac\x02" + b"\x1a\x03abc" + b"\x21" + b"8" * 8 + b"\x2d" + b"4" * 4


@pytest.mark.parametrize("message", [UNKNOWN + b"\x08\x01", b"\x08\x01" + UNKNOWN])
def test_unknown_fields_are_skipped(message: bytes) -> None:
    assert problem_of(framed(message)) == ""


def test_the_last_status_counts() -> None:
    assert problem_of(framed(b"\x08\x01\x08\x02")) == "status NOT_SERVING"


@pytest.mark.parametrize("cut", range(7))
def test_a_cut_response_does_not_pass(cut: int) -> None:
    assert problem_of(framed(b"\x08\x01")[:cut]) == "no health response of gRPC"


@pytest.mark.parametrize(
    "payload",
    [
        framed(b"\x08\x01") + b"x",
        framed(b"\x08\x01") * 2,
        b"\1" + framed(b"\x08\x01")[1:],
        framed(b"\x08"),
        framed(b"\x08" + b"\xff" * 10 + b"\x01"),
        framed(b"\x0b"),
        framed(b"\x1a\x09abc"),
        framed(b"\x21" + b"8" * 7),
        b"HTTP/1.1 200 OK\r\n\r\n",
    ],
    ids=["trailing byte", "two", "compressed", "cut", "long", "group", "string", "fixed", "text"],
)
def test_anything_else_does_not_pass(payload: bytes) -> None:
    assert problem_of(payload) == "no health response of gRPC"

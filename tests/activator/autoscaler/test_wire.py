"""The bytes that the autoscaler reads."""

from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from activator.autoscaler import stat_pb2, wire
from activator.autoscaler.concurrency import Stat
from tests.stats import decode
from throttler.model import RevisionID, RevisionKind

A = RevisionID("default", "a-00001")
B = RevisionID("other", "b-00002")
PROTO = "activator/autoscaler/stat.proto"


def test_a_poke_is_these_very_bytes():
    # Written by hand from the field numbers: messages=1 {namespace=1 name=2 stat=3 {...}}.
    stat = b"\x0a\x05act-0" + b"\x11" + b"\0\0\0\0\0\0\xf0\x3f" + b"\x21" + b"\0\0\0\0\0\0\xf0\x3f"
    message = b"\x0a\x02ns" + b"\x12\x03rev" + b"\x1a" + bytes([len(stat)]) + stat
    frame = b"\x0a" + bytes([len(message)]) + message
    assert wire.encode([Stat(RevisionID("ns", "rev"), 1.0, 1)], "act-0") == frame


def test_what_is_encoded_is_decoded():
    stats = [Stat(A, 0.5, 3), Stat(B, 0.0, 0)]
    assert decode(wire.encode(stats, "act-0")) == (stats, {"act-0"})


def test_an_all_zero_stat_without_a_pod_name_still_has_a_stat():
    assert decode(wire.encode([Stat(A, 0.0, 0)], "")) == ([Stat(A, 0.0, 0)], {""})


def test_route_objects_are_in_a_list_that_older_scalers_do_not_read():
    route = RevisionID("default", "a-00001", RevisionKind.HTTP_ROUTE)
    stats = [Stat(route, 2.0, 5), Stat(A, 0.5, 3)]
    frame = wire.encode(stats, "act-0")
    assert decode(frame) == ([Stat(A, 0.5, 3), Stat(route, 2.0, 5)], {"act-0"})
    assert [each.name for each in stat_pb2.WireStatMessages.FromString(frame).messages] == [A.name]


def test_a_message_without_stat_is_skipped():
    frame = stat_pb2.WireStatMessages()
    frame.messages.add(namespace="default", name="a-00001")
    assert decode(frame.SerializeToString()) == ([], frozenset())


def nan_frame():
    frame = stat_pb2.WireStatMessages()
    frame.messages.add(namespace="default", name="a").stat.request_count = float("nan")
    return frame.SerializeToString()


@pytest.mark.parametrize("frame", [b"\xff", b"\x0a\x7fshort", nan_frame()])
def test_rubbish_is_refused_with_its_size(frame):
    with pytest.raises(ValueError, match=f"stat frame of {len(frame)} bytes"):
        decode(frame)


def test_the_sink_sends_one_frame_per_batch():
    frames = []
    sink = wire.frame_sink(lambda frame, on_sent: frames.append(frame), "act-0")
    sink([Stat(A, 1.0, 1), Stat(B, 2.0, 2)])
    assert [decode(frame) for frame in frames] == [([Stat(A, 1.0, 1), Stat(B, 2.0, 2)], {"act-0"})]


def test_when_a_frame_has_left_it_is_known_what_was_in_it():
    waiting, left = [], []

    def on_sent_of(stats):
        return lambda: left.append(stats)

    sink = wire.frame_sink(lambda frame, on_sent: waiting.append(on_sent), "act-0", on_sent_of)
    sink([Stat(A, 1.0, 1)])
    sink([Stat(B, 2.0, 2)])
    assert not left
    waiting[1]()
    assert left == [[Stat(B, 2.0, 2)]]


def test_the_generated_code_is_of_the_checked_in_proto(tmp_path):
    root = Path(wire.__file__).parents[2]
    compiled = tmp_path / "stat.desc"
    assert protoc.main(["protoc", f"-I{root}", f"--descriptor_set_out={compiled}", PROTO]) == 0
    described = descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes())
    for field in (field for message in described.file[0].message_type for field in message.field):
        field.ClearField("json_name")  # derived from the name; generated code leaves it out
    generated = descriptor_pb2.FileDescriptorProto()
    stat_pb2.DESCRIPTOR.CopyToProto(generated)
    assert list(described.file) == [generated]


def test_the_generated_code_runs_with_the_oldest_supported_protobuf():
    source = Path(stat_pb2.__file__).read_text()
    assert "# Protobuf Python Version: 6.31.0\n" in source

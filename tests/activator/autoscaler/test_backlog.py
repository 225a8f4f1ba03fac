"""Which frames survive a time without the autoscaler."""

import pytest

from activator.autoscaler.link import Backlog


@pytest.fixture
def backlog():
    return Backlog(stale_after=1.5, max_frames=3)


def drain(backlog, now):
    payloads = []
    while (frame := backlog.pop(now)) is not None:
        payloads.append(frame.payload)
    return payloads


def test_frames_leave_in_the_order_of_their_arrival(backlog):
    backlog.push(b"1", 0.0)
    backlog.push(b"2", 0.1)
    assert drain(backlog, 0.2) == [b"1", b"2"]
    assert backlog.dropped == 0


def test_the_oldest_go_when_there_is_no_room(backlog):
    for name in (b"1", b"2", b"3", b"4", b"5"):
        backlog.push(name, 0.0)
    assert len(backlog) == 3
    assert backlog.dropped == 2
    assert drain(backlog, 0.0) == [b"3", b"4", b"5"]


def test_stale_frames_are_not_sent(backlog):
    backlog.push(b"old", 0.0)
    backlog.push(b"fresh", 1.0)
    assert drain(backlog, 1.6) == [b"fresh"]
    assert backlog.dropped == 1


def test_the_newest_frame_never_grows_stale(backlog):
    backlog.push(b"poke", 0.0)
    assert drain(backlog, 3600.0) == [b"poke"]
    assert backlog.dropped == 0


def test_a_frame_put_back_is_first_again(backlog):
    backlog.push(b"1", 0.0)
    backlog.push(b"2", 0.0)
    backlog.push_front(backlog.pop(0.0), 0.5)
    assert drain(backlog, 0.5) == [b"1", b"2"]


def test_a_frame_put_back_too_late_is_dropped_for_newer_ones(backlog):
    backlog.push(b"1", 0.0)
    frame = backlog.pop(0.0)
    backlog.push(b"2", 9.0)
    backlog.push_front(frame, 10.0)
    assert drain(backlog, 10.0) == [b"2"]
    assert backlog.dropped == 1


def test_what_waits_stays_bounded_for_ever(backlog):
    for turn in range(1000):
        backlog.push(b"x", turn / 1000)
        assert len(backlog) <= 3
    assert backlog.dropped == 997

"""How many streams a pod accepts, by its settings and its refusals."""

from __future__ import annotations

from math import inf

from activator.proxy.pods.http2 import FIRST_STREAMS, Capacity


def test_a_pod_that_takes_no_streams_now_may_take_as_many_as_before_later() -> None:
    capacity = Capacity()
    capacity.announced(7)
    assert capacity.max_streams == 7
    capacity.announced(0)
    assert capacity.max_streams == FIRST_STREAMS


def test_a_refusal_bounds_streams_by_those_that_were_left() -> None:
    capacity = Capacity()
    capacity.refused(5)
    assert capacity.refusal_limit == 5
    capacity.refused(9)
    assert capacity.refusal_limit == 5


def test_a_pod_that_refuses_the_only_stream_sets_no_bound() -> None:
    capacity = Capacity()
    capacity.refused(0)
    assert capacity.refusal_limit == inf

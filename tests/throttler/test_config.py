"""The settings in force for a revision, as its pods and requests see them."""

from __future__ import annotations

from dataclasses import replace

from tests.throttler.world import One, addresses
from throttler.model import REACH, MeshMode


def test_pods_and_requests_see_each_change_at_once() -> None:
    one = One(1)
    (pod,) = one.healthy(addresses(1))
    ticket = one.request()
    other = replace(one.throttler.revision, container_concurrency=7)
    one.throttler.set_revision(other, one.now)
    reach = REACH[MeshMode.DISABLED, False]
    one.throttler.set_reach(reach, one.now)
    assert pod.config is ticket.config is one.throttler.config
    assert (pod.config.revision, pod.config.reach) == (other, reach)
    assert pod.limit == 7

"""Requests that go to another activator, which owns the pod."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.throttler.world import HTTP1, Many, revision
from throttler.model import NO_POLICIES, HashKey, KeyKind, Policies, RevisionID, RevisionKind
from throttler.ticket import QUEUED

SHOP = RevisionID("default", "shop", RevisionKind.SERVICE)


def world(own_ip: str, limit: int = 1, policies: Policies = NO_POLICIES) -> Many:
    """Return an activator beside one pod of a Service."""
    many = Many(own_ip=own_ip)
    chosen = revision(limit, id=SHOP, behind_queue_proxy=False)
    many.throttler.set_revision(replace(chosen, policies=policies), 0.0)
    many.pass_all(many.set_endpoints(["10.0.0.1:80"], id=SHOP))
    return many


def list_both(many: Many) -> None:
    many.throttler.set_activators(SHOP, {HTTP1: ["10.9.0.1", "10.9.0.2"]}, many.now)


def sent(many: Many) -> str:
    """Return where a request goes."""
    pod = many.request(SHOP).pod
    return "" if pod is None else pod.address


def test_without_a_pod_of_its_own_an_activator_sends_requests_to_the_one_that_has_it() -> None:
    """The owner alone counts them, so the limit of the pod holds."""
    many = world("10.9.0.2")
    list_both(many)
    assert [sent(many) for _ in range(3)] == 3 * ["10.9.0.1:8012"]
    assert many.find(SHOP).passes_on
    assert many.find(SHOP).capacity_terms().sentence == (
        "fewer pods than activators: activator 2 of 2 sends requests to activator 10.9.0.1:8012"
    )
    many.pass_all(many.set_endpoints(["10.0.0.1:80", "10.0.0.2:80"], id=SHOP))
    assert sent(many) == "10.0.0.2:80"
    assert not many.find(SHOP).passes_on
    many.set_endpoints([], id=SHOP)
    assert many.request(SHOP).state is QUEUED


def test_requests_at_a_pod_that_goes_to_another_activator_still_count_here() -> None:
    many = world("10.9.0.2")
    list_both(many)
    assert many.throttler.kept(SHOP) == 0
    many.pass_all(many.set_endpoints(["10.0.0.1:80", "10.0.0.2:80"], id=SHOP))
    assert sent(many) == "10.0.0.2:80"
    assert many.throttler.kept(SHOP) is None
    many.set_endpoints(["10.0.0.2:80"], id=SHOP)
    assert sent(many) == "10.9.0.1:8012"
    assert many.throttler.kept(SHOP) == 1


def test_only_the_owner_gives_a_client_the_cookie_of_its_pod() -> None:
    many = world("10.9.0.2", policies=Policies(sticky=HashKey(kind=KeyKind.COOKIE)))
    list_both(many)
    sticky = many.find(SHOP).sticky
    assert sticky is not None
    assert sticky.cookie_for(many.request(SHOP)) == b""


@pytest.mark.parametrize("limit", [0, 1])
def test_the_first_activator_and_pods_without_a_limit_need_no_other(limit: int) -> None:
    many = world("10.9.0.1" if limit else "10.9.0.2", limit)
    list_both(many)
    assert sent(many) == "10.0.0.1:80"


def test_an_activator_that_refuses_requests_gets_none_until_it_listens() -> None:
    many = world("10.9.0.2")
    list_both(many)
    throttler, ticket = many.find(SHOP), many.request(SHOP)
    peer = ticket.pod
    assert peer is not None
    changes = throttler.connect_failed(peer, "connection refused", many.now)
    assert changes is not None
    assert changes.probe == [peer]
    assert throttler.requeue(ticket, many.now).assigned == [ticket]
    assert ticket.pod is not None
    assert ticket.pod.address == "10.0.0.1:80"
    throttler.probe_passed(peer, peer.epoch, many.now)
    assert sent(many) == "10.9.0.1:8012"


def test_the_backend_ends_with_its_last_request() -> None:
    many = world("10.9.0.2")
    list_both(many)
    busy, pods = many.request(SHOP), ["10.0.0.1:80", "10.0.0.2:80"]
    peer = busy.pod
    listed = many.set_endpoints(pods, id=SHOP)
    assert listed is not None
    assert not listed.gone
    many.pass_all(listed)
    changes = many.find(SHOP).release(busy, many.now)
    assert changes is not None
    assert changes.gone == [peer]
    many.set_endpoints(pods[:1], id=SHOP)
    idle = many.request(SHOP).pod
    assert idle is not None
    assert idle is not peer


def test_an_idle_backend_ends_at_once() -> None:
    many = world("10.9.0.2")
    list_both(many)
    changes = many.throttler.set_activators(SHOP, {HTTP1: ["10.9.0.2"]}, many.now)
    assert changes is not None
    assert [pod.address for pod in changes.gone] == ["10.9.0.1:8012"]
    assert sent(many) == "10.0.0.1:80"


def test_another_owner_at_the_same_place_gets_the_requests() -> None:
    many = world("10.9.0.2")
    list_both(many)
    many.throttler.set_activators(SHOP, {HTTP1: ["10.9.0.0", "10.9.0.2"]}, many.now)
    assert sent(many) == "10.9.0.0:8012"

"""Requests stay in the activator's own zone, as far as no pod gets more than its even share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.throttler.world import HTTP1, NAME, Many, revision, unhurried
from throttler.balancing import POLICIES
from throttler.model import AdaptiveMode, HashKey, Policies
from throttler.ticket import QUEUED, Ticket

KEY: Final = HashKey(b"x-user")
#: These policies pick each pod equally often, if no request is slower than another.
EVEN: Final = ("round-robin", "least-loaded")
REQUESTS: Final = 600


class World(Many):
    """One activator, and the pods of one revision.

    Arguments:
        zone: of the activator.
        pods: their zones, in the order of their addresses.
        activators: the number of activators in each zone; empty if it is not known.
    """

    def __init__(
        self,
        zone: str,
        pods: str,
        activators: Mapping[str, int] | None = None,
        limit: int = 0,
        policies: Policies = Policies("round-robin"),  # noqa: B008 # a value
    ) -> None:
        super().__init__(own_ip="10.9.0.1", zone=zone)
        self.throttler.set_revision(replace(revision(limit), policies=policies), 0.0)
        others = Counter(activators or {})
        others[zone] -= 1
        listed = {f"10.9.0.{n + 2}": each for n, each in enumerate(sorted(others.elements()))}
        if activators:
            zones = {"10.9.0.1": zone} | listed
            self.throttler.set_activators(NAME, {HTTP1: zones}, 0.0)
        self.list(pods)

    def list(self, pods: str, ready: str = "") -> list[Ticket]:
        """List the pods, one for each letter, which is its zone: ``-`` for an unknown one.

        Arguments:
            ready: leaves out each pod with another character than ``+`` at its place.
        """
        all_of_them = {f"10.0.0.{100 + n}:80": each for n, each in enumerate(pods)}
        zones = {at: each for at, each in all_of_them.items() if each != "-"}
        places = [at for n, at in enumerate(all_of_them) if not ready or ready[n] == "+"]
        rest = all_of_them.keys() - set(places)
        changes = self.set_endpoints(places, rest, zones=zones)
        assert changes is not None
        changes.probe = [pod for pod in changes.probe if pod.ready]
        return self.pass_all(changes)

    def send(self, count: int = REQUESTS) -> Counter[str]:
        """Send requests, each after the end of the one before; return how many each pod got."""
        found = Counter[str]()
        for _ in range(count):
            ticket = self.request()
            assert ticket.pod is not None
            found[ticket.pod.address] += 1
            self.find().release(ticket, self.now)
        return found

    def zone_of(self, ticket: Ticket) -> str:
        """Return the zone of the pod that has a request; empty for none."""
        return "" if ticket.pod is None else ticket.pod.zone

    def zones(self, count: int = REQUESTS) -> Counter[str]:
        """Send requests; return how many went to each zone."""
        at = {pod.address: pod.zone for pod in self.find().backends.pods.values()}
        found = Counter[str]()
        for address, requests in self.send(count).items():
            found[at[address]] += requests
        return found

    @property
    def left(self) -> int:
        zones = self.find().slots.zones
        assert zones is not None
        return zones.left


@pytest.mark.untraced
@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "hash"])
@pytest.mark.parametrize("limit", [0, 100])
@pytest.mark.parametrize("adaptive", AdaptiveMode)
def test_with_as_many_pods_as_activators_in_each_zone_no_request_leaves_it(
    policy: str, limit: int, adaptive: AdaptiveMode
) -> None:
    world = World("b", "abcabc", limit=limit, policies=Policies(policy, adaptive=adaptive))
    assert world.zones() == {"b": REQUESTS}
    assert world.left == 0


_LAYOUT = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 5), min_size=1, max_size=4)


@pytest.mark.untraced
@given(pods=_LAYOUT, activators=_LAYOUT, policy=st.sampled_from(EVEN))
@unhurried
def test_each_pod_gets_an_even_share_of_all_activators_and_no_more_leaves_than_must(
    pods: dict[str, int], activators: dict[str, int], policy: str
) -> None:
    count, senders = sum(pods.values()), sum(activators.values())
    listed = "".join(zone * number for zone, number in pods.items())
    loads, left = Counter[str](), 0.0
    for zone, number in activators.items():
        world = World(zone, listed, activators, policies=Policies(policy))
        for address, requests in world.send().items():
            loads[address] += number * requests
        left += number * world.left
    even = senders * REQUESTS / count
    # Rounding: a few requests of each activator, at each pod.
    assert all(abs(load - even) <= 3 * senders for load in loads.values()), (even, loads)
    assert len(loads) == count
    kept = sum(min(pods.get(z, 0) / count, n / senders) for z, n in activators.items())
    assert left == pytest.approx((1 - kept) * senders * REQUESTS, abs=3 * senders)


@pytest.mark.untraced
def test_without_known_activators_each_zone_counts_as_having_as_many() -> None:
    """A third of the activators is in each zone, with 1, 2 and 3 of 6 pods."""
    shares = {zone: World(zone, "abbccc").zones() for zone in "abc"}
    assert shares["c"] == {"c": REQUESTS}
    assert shares["b"] == {"b": REQUESTS}
    assert shares["a"]["a"] == pytest.approx(REQUESTS / 2, abs=2)
    assert shares["a"]["c"] == pytest.approx(REQUESTS / 2, abs=2)


def test_the_part_that_leaves_is_spread_over_any_few_requests() -> None:
    world = World("a", "abbb", {"a": 1, "b": 1})
    for _ in range(30):
        assert world.zones(8)["a"] in (3, 4, 5)


@pytest.mark.untraced
def test_with_many_zones_each_pod_still_gets_an_even_share() -> None:
    loads = World("a", "bcdefghijklmnopqrstuvwxyz").send()
    assert set(loads.values()) <= {23, 24, 25}
    assert len(loads) == 25


@pytest.mark.untraced
def test_an_activator_without_a_pod_in_its_zone_uses_the_zones_with_pods_to_spare() -> None:
    assert World("c", "ab", {"a": 2, "b": 1, "c": 1}).zones() == {"b": REQUESTS}
    world = World("c", "ab")
    assert world.zones()["a"] == pytest.approx(REQUESTS / 2, abs=2)
    assert world.left == REQUESTS


def test_with_a_limit_free_slots_of_the_zone_come_first_then_all_others_then_requests_wait() -> (
    None
):
    world = World("a", "abbc", {"a": 5, "b": 1}, limit=2)
    tickets = [world.request() for _ in range(9)]
    zones = [world.zone_of(ticket) for ticket in tickets]
    assert zones[:2] == ["a", "a"]
    assert Counter(zones) == {"a": 2, "b": 4, "c": 2, "": 1}
    assert tickets[-1].state is QUEUED
    far = next(ticket for ticket in tickets if world.zone_of(ticket) == "c")
    world.find().release(far, world.now)
    assert world.zone_of(tickets[-1]) == "c", "a free slot of another zone is used at once"
    world.find().release(tickets[0], world.now)
    assert world.zone_of(world.request()) == "a"


def test_what_a_full_zone_cannot_take_goes_to_the_other_zones_by_their_pods() -> None:
    world = World("a", "abcccc", limit=100)
    zones = Counter(world.zone_of(world.request()) for _ in range(350))
    assert zones["a"] == 100
    assert zones["b"] == pytest.approx(50, abs=5)
    assert zones["c"] == pytest.approx(200, abs=5)


def test_slots_that_the_activator_borrows_are_of_its_zone_first() -> None:
    """Of eight pods, the first four are its own; each has one slot."""
    world = World("a", "abababab", {"a": 2}, limit=1)
    zones = [world.zone_of(world.request()) for _ in range(9)]
    assert zones == [*"aabbaabb", ""]


def test_pods_that_lose_readiness_leave_no_request_waiting_and_get_requests_again() -> None:
    world = World("a", "abab", limit=1)
    world.list("abab", "-+-+")
    tickets = [world.request() for _ in range(3)]
    assert [world.zone_of(ticket) for ticket in tickets] == ["b", "b", ""]
    (assigned,) = world.list("abab", "++-+")
    assert (assigned, world.zone_of(assigned)) == (tickets[-1], "a")
    for ticket in tickets:
        world.find().release(ticket, world.now)
    assert world.zones(8) == {"a": 8}


def test_a_pod_that_fails_a_request_is_followed_by_another_of_its_zone() -> None:
    world = World("a", "aabb")
    ticket = world.request()
    first = ticket.pod
    world.find().requeue(ticket, world.now)
    assert ticket.pod is not first
    assert world.zone_of(ticket) == "a"


@pytest.mark.untraced
def test_zones_that_change_count_at_once() -> None:
    world = World("a", "abab")
    assert world.zones(4) == {"a": 4}
    before = world.send(4).keys()
    world.list("baba")
    after = world.send(4)
    assert world.zones(4) == {"a": 4}
    assert not before & after.keys()
    world.throttler.set_activators(NAME, {HTTP1: {"10.9.0.1": "a", "10.9.0.2": "a"}}, 0.0)
    assert world.zones()["a"] == pytest.approx(REQUESTS / 2, abs=2), "the other one is here too"
    world.throttler.set_activators(NAME, {HTTP1: {"10.9.0.1": "a", "10.9.0.2": "b"}}, 0.0)
    assert world.zones() == {"a": REQUESTS}


@pytest.mark.parametrize(("zone", "pods"), [("", "abab"), ("a", "----"), ("a", "aaaa")])
def test_without_a_choice_there_is_no_preference(zone: str, pods: str) -> None:
    loads = World(zone, pods).send(80)
    assert set(loads.values()) == {20}


def test_a_pod_of_an_unknown_zone_gets_its_share() -> None:
    world = World("a", "ab-", {"a": 1, "b": 1})
    assert world.zones()[""] == pytest.approx(REQUESTS / 3, abs=2)
    assert world.left == pytest.approx(REQUESTS / 3, abs=2)


@pytest.mark.parametrize(
    "policies", [Policies("hash", KEY), Policies("round-robin", sticky=KEY)], ids=["hash", "sticky"]
)
def test_requests_with_a_key_keep_their_pod_in_any_zone(policies: Policies) -> None:
    near, far = (World(zone, "abababab", policies=policies) for zone in "ab")
    keys = [b"%d" % n for n in range(40)]
    found = []
    for world in (near, far):
        pods = []
        for key in keys:
            ticket = world.tickets.make(60.0)
            ticket.key = key
            pod = world.find().admit(ticket, world.now)
            assert pod is not None
            pods.append(pod.address)
        found.append(pods)
    assert found[0] == found[1]
    assert len(set(found[0])) > 4


def test_pods_in_turn_stay_in_turn_when_others_come() -> None:
    world = World("a", "aabb")
    first = world.send(1)
    world.list("aabbab")
    assert not world.send(1).keys() & first.keys()

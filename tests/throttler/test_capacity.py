"""A revision's capacity, and how activators share its pods, with Knative's own cases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rows import in_one_test
from tests.throttler.world import One, addresses, unhurried
from throttler.capacity import (
    MAX_CAPACITY,
    ActivatorShare,
    CapacityTerms,
    assign_share,
    infer_share,
    revision_capacity,
    service_capacity,
)
from throttler.model import Revision, RevisionID, RevisionKind
from throttler.throttler import Limits, Throttler


@in_one_test(
    ("own", "addresses", "index"),
    [
        ("10.0.0.1", [], None),
        ("10.0.0.9", ["10.0.0.1", "10.0.0.2"], None),
        ("", ["10.0.0.1"], None),
        ("10.0.0.1", ["10.0.0.3", "10.0.0.2", "10.0.0.1"], 0),
        ("10.0.0.2", ["10.0.0.3", "10.0.0.2", "10.0.0.1"], 1),
        ("10.0.0.3", ["10.0.0.3", "10.0.0.2", "10.0.0.1"], 2),
        ("fd00::2", ["fd00::10", "fd00::2", "fd00::1"], 2),
        ("fd00:0::2", ["fd00::2"], None),  # another string: Kubernetes writes the short form
    ],
)
def test_our_index_is_our_place_among_the_sorted_addresses(
    own: str, addresses: list[str], index: int | None
) -> None:
    expected = None if index is None else (index, len(addresses))
    assert position(own, addresses) == expected


def position(own: str, addresses: list[str]) -> tuple[int, int] | None:
    """Return the index of an activator, and the number of activators."""
    share = infer_share(own, addresses)
    return None if share is None else (share.index, share.count)


def test_addresses_are_sorted_as_strings_as_all_other_activators_do() -> None:
    assert position("10.0.0.10", ["10.0.0.9", "10.0.0.10"]) == (0, 2)


def test_an_address_that_is_listed_twice_counts_once() -> None:
    assert position("b", ["a", "a", "b", "b"]) == (1, 2)


@pytest.mark.untraced
@unhurried
@given(st.sets(st.ip_addresses().map(str), min_size=1, max_size=20))
def test_each_of_several_activators_infers_another_index(own: set[str]) -> None:
    shares = [infer_share(address, own) for address in own]
    assert {s.index for s in shares if s} == set(range(len(own)))


@in_one_test(
    ("pods", "index", "count", "ours"),
    [
        (0, 0, 3, None),
        (1, 0, 1, None),
        (1, 0, 2, None),
        (1, 1, 2, None),
        (2, 0, 3, {0}),
        (2, 1, 3, {1}),
        (2, 2, 3, {0}),
        (3, 0, 2, {0, 2}),
        (3, 1, 2, {1}),
        (3, 1, 3, {1}),
        (3, 2, 3, {2}),
        (6, 3, 4, {3}),
        (3, -1, 3, None),
        (3, 0, 1, None),
        (3, 0, 0, None),
        (3, -1, 0, None),
        (4, 0, 2, {0, 1}),
        (4, 1, 2, {2, 3}),
        (5, 0, 2, {0, 1, 4}),
        (5, 1, 2, {2, 3}),
        (6, 0, 4, {0, 4}),
        (10, 0, 3, {0, 1, 2, 9}),
        (10, 1, 3, {3, 4, 5}),
        (10, 2, 3, {6, 7, 8}),
        (150, 0, 5, set(range(30))),
        (150, 1, 5, set(range(30, 60))),
        (150, 4, 5, set(range(120, 150))),
    ],
)
def test_pods_are_dealt_out_as_knative_deals_them(
    pods: int, index: int, count: int, ours: set[int] | None
) -> None:
    assert assign_share(pods, ActivatorShare(index, count)) == ours


@unhurried
@given(pods=st.integers(1, 60), count=st.integers(1, 60))
def test_the_slices_cover_all_pods_and_overlap_only_where_activators_outnumber_pods(
    pods: int, count: int
) -> None:
    slices = [assign_share(pods, ActivatorShare(i, count)) for i in range(count)]
    whole = [set(range(pods)) if s is None else set(s) for s in slices]
    assert set().union(*whole) == set(range(pods))
    assert all(whole), "an activator without a pod could serve no request"
    if count <= pods:
        assert sum(map(len, whole)) == pods
        sizes = [len(s) for s in whole]
        assert max(sizes) - min(sizes) <= 1
    else:
        assert all(len(s) == 1 for s in whole)


@in_one_test(
    ("container_concurrency", "pods", "capacity"),
    [
        (0, 0, 0),
        (10, 0, 0),
        (0, 1, MAX_CAPACITY),
        (0, 3, MAX_CAPACITY),
        (1, 5, 5),
        (10, 1, 10),
        (10, 10, 100),
        (10, 100, 1000),
        (42, 2, 84),
        (1000, 3_000_000, MAX_CAPACITY),
        (0, 3_000_000_000, MAX_CAPACITY),
    ],
)
def test_capacity_is_pods_times_concurrency_within_bounds(
    container_concurrency: int, pods: int, capacity: int
) -> None:
    assert revision_capacity(container_concurrency, pods) == capacity
    assert MAX_CAPACITY == 2**31 - 1


@in_one_test(
    ("container_concurrency", "ready", "activators", "capacity"),
    [
        (10, 1, 0, 10),
        (10, 10, 0, 100),
        (10, 100, 0, 1000),
        (10, 10, 5, 20),
        (10, 10, 200, 1),
        (10, 0, 200, 0),
        (10, 0, 0, 0),
        (7, 3, 2, 10),
        (0, 1, 0, MAX_CAPACITY),
        (0, 5, 100, MAX_CAPACITY),
        (0, 0, 1, 0),
        (1000, 3_000_000, 1, MAX_CAPACITY),
    ],
)
def test_a_cluster_ip_may_have_what_its_ready_pods_have_divided_among_activators(
    container_concurrency: int, ready: int, activators: int, capacity: int
) -> None:
    assert service_capacity(container_concurrency, ready, activators) == capacity


@in_one_test(
    ("container_concurrency", "pods", "index", "count", "capacity"),
    [
        (10, 1, 0, 1, 10),
        (10, 2, 0, 1, 20),
        (10, 2, 0, 2, 10),
        (10, 3, 0, 2, 20),
        (10, 3, 1, 2, 10),
        (1, 5, 0, 2, 3),
        (1, 5, 1, 2, 2),
        (42, 6, 0, 4, 84),
        (42, 6, 2, 4, 42),
        (10, 1, 1, 2, 10),  # both share the pod, each at its full limit
        (10, 2, 2, 3, 10),
        (10, 3, -1, 0, 30),
        (10, 0, 0, 2, 0),
        (0, 3, 1, 2, MAX_CAPACITY),
        (0, 0, 0, 1, 0),
    ],
)
def test_without_borrowing_our_share_of_the_pods_is_all_that_we_have(
    container_concurrency: int, pods: int, index: int, count: int, capacity: int
) -> None:
    one = One(container_concurrency, borrow=False)
    one.healthy(addresses(pods))
    one.throttler.set_share(ActivatorShare(index, count), one.now)
    assert one.throttler.statistics().capacity == capacity
    if capacity < MAX_CAPACITY:
        states = [one.request().pod is not None for _ in range(capacity + 1)]
        assert states == [True] * capacity + [False]


def test_without_a_limit_no_pod_is_left_to_others() -> None:
    one = One(0, borrow=False)
    one.healthy(addresses(3))
    one.throttler.set_share(ActivatorShare(1, 2), one.now)
    assert all(pod.in_share for pod in one.throttler.backends.pods.values())


ALONE, FIRST, SECOND = ActivatorShare(), ActivatorShare(0, 2), ActivatorShare(1, 2)


def test_the_sentence_of_a_service_names_its_annotation() -> None:
    service = RevisionID("shop", "hello", RevisionKind.SERVICE)
    throttler = Throttler(Limits(), lambda: 0.0)
    throttler.set_revision(Revision(service, behind_queue_proxy=False), 0.0)
    sentence = throttler.find(*service).statistics().capacity_terms.sentence
    assert sentence == "0 usable pods without a limit per pod (container-concurrency is 0)"


@in_one_test(
    ("terms", "sentence"),
    [
        (CapacityTerms(10, 0, (), ALONE, True), "0 usable pods × 10 = 0"),
        (
            CapacityTerms(0, 0, (), ALONE, True),
            "0 usable pods without a limit per pod (containerConcurrency is 0)",
        ),
        (CapacityTerms(10, 1, (0,), ALONE, True), "1 usable pod × 10 = 10"),
        (CapacityTerms(10, 3, (0, 1, 2), ALONE, False), "3 usable pods × 10 = 30"),
        (
            CapacityTerms(0, 3, (0, 1, 2), FIRST, True),
            "3 usable pods without limit (containerConcurrency is 0)",
        ),
        (
            CapacityTerms(10, 3, (0, 2), FIRST, True),
            "3 usable pods × 10 = 30; share of activator 1 of 2: 2 pods (1, 3) × 10 = 20, "
            "then it borrows the others",
        ),
        (
            CapacityTerms(10, 3, (1,), SECOND, False),
            "3 usable pods ÷ 2 activators; share of activator 2 of 2: 1 pod (2) × 10 = 10",
        ),
        (
            CapacityTerms(1, 9, (0, 1, 2, 3, 8), FIRST, False),
            "9 usable pods ÷ 2 activators; share of activator 1 of 2: 5 pods (1-4, 9) × 1 = 5",
        ),
        (
            CapacityTerms(10, 4, (), FIRST, True, by_service=True),
            "4 ready pods × 10 ÷ 2 activators = 20, through the ClusterIP",
        ),
        (
            CapacityTerms(0, 1, (), FIRST, True, by_service=True),
            "1 ready pod without limit (containerConcurrency is 0), through the ClusterIP",
        ),
        (
            CapacityTerms(10, 4, (), ALONE, True, by_service=True),
            "4 ready pods × 10 = 40, through the ClusterIP",
        ),
    ],
)
def test_the_arithmetic_is_written_out(terms: CapacityTerms, sentence: str) -> None:
    assert terms.sentence == sentence


@pytest.mark.untraced
@pytest.mark.parametrize("borrow", [True, False])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("pods", [0, 1, 2, 3, 4, 7])
def test_what_is_written_out_is_what_requests_get(pods: int, count: int, borrow: bool) -> None:
    for index in range(-1, count):
        one = One(2, borrow=borrow)
        one.healthy(addresses(pods))
        one.throttler.set_share(ActivatorShare(index, count), one.now)
        one.requests(2 * pods + 1)
        terms = one.throttler.capacity_terms()
        assert one.throttler.slots.in_flight == terms.capacity == one.throttler.capacity()
        assert f"= {terms.capacity}" in terms.sentence

"""An address that now belongs to another pod, of the same revision or of another."""

from __future__ import annotations

from tests.throttler.world import H2C, HTTP1, NAME, Many, endpoints, revision
from throttler.model import Endpoint, ListedEndpoints, RevisionID
from throttler.pod import PodState
from throttler.throttler import AddressOwners

OTHER = RevisionID("elsewhere", "theirs-00001")
A, B = "10.0.0.1:8012", "10.0.0.2:8012"
OLD, NEW = Endpoint(A, "old"), Endpoint(A, "new")


def two() -> Many:
    many = Many()
    for id in (NAME, OTHER):
        many.throttler.set_revision(revision(1, id=id), 0.0)
    return many


def known(many: Many, id: RevisionID = NAME) -> set[Endpoint]:
    return {
        pod.endpoint
        for pod in many.find(id).backends.pods.values()
        if pod.state is not PodState.DRAINING
    }


def test_an_address_that_another_revision_lists_is_lost_at_once_and_its_pool_with_it() -> None:
    many = two()
    many.pass_all(many.set_endpoints([OLD, B]))
    changes = many.set_endpoints([NEW], id=OTHER)
    assert known(many) == {Endpoint(B)}
    assert changes is not None
    assert [pod.endpoint for pod in changes.gone] == [OLD]
    assert [(pod.endpoint, pod.state) for pod in changes.probe] == [(NEW, PodState.PROBING)]


def test_what_runs_there_finishes_and_nothing_new_is_sent() -> None:
    many = two()
    many.pass_all(many.set_endpoints([OLD]))
    running = many.request()
    many.set_endpoints([], [NEW], id=OTHER)
    assert running.pod is not None
    assert running.pod.state is PodState.DRAINING
    many.find().release(running, many.now)
    assert many.request().pod is None


def test_a_list_that_repeats_the_address_does_not_take_it_back() -> None:
    many = two()
    many.set_endpoints([OLD])
    many.set_endpoints([NEW], id=OTHER)
    many.set_endpoints([OLD, B])
    assert known(many) == {Endpoint(B)}
    assert known(many, OTHER) == {NEW}


def test_it_is_back_when_the_other_lists_it_no_more() -> None:
    many = two()
    many.set_endpoints([OLD])
    many.set_endpoints([NEW], id=OTHER)
    changes = many.set_endpoints([], id=OTHER)
    assert known(many) == {OLD}
    assert changes is not None
    assert [pod.endpoint for pod in changes.probe] == [OLD], "it must pass a probe again"


def test_it_is_back_when_it_is_listed_again_or_otherwise_than_before() -> None:
    many = two()
    many.set_endpoints([OLD])
    many.set_endpoints([NEW], id=OTHER)
    many.set_endpoints([], [OLD])
    assert (known(many), known(many, OTHER)) == ({OLD}, set())
    many.set_endpoints([], [NEW], id=OTHER)
    many.set_endpoints([])
    many.set_endpoints([OLD])
    assert (known(many), known(many, OTHER)) == ({OLD}, set())


def test_a_pod_that_terminates_loses_its_address_to_the_pod_that_has_it_next() -> None:
    many = two()
    many.set_endpoints([OLD])
    many.set_endpoints([], [NEW], id=OTHER)
    many.set_endpoints([], [], [OLD])
    assert (known(many), known(many, OTHER)) == (set(), {NEW})
    many.set_endpoints([], [], [Endpoint(A, "older")])
    assert (known(many), known(many, OTHER)) == (set(), {NEW}), "even if it is news"
    many.set_endpoints([OLD])
    assert (known(many), known(many, OTHER)) == ({OLD}, set())


def test_a_pod_that_begins_to_terminate_gives_way_to_an_older_claim() -> None:
    many = two()
    many.set_endpoints([NEW], id=OTHER)
    many.set_endpoints([OLD])
    many.set_endpoints([], [], [OLD])
    assert (known(many), known(many, OTHER)) == (set(), {NEW})


def test_one_pod_in_two_lists_is_one_pod() -> None:
    many = two()
    many.set_endpoints([OLD])
    many.set_endpoints([OLD], id=OTHER)
    assert known(many) == known(many, OTHER) == {OLD}


def test_without_any_uid_the_address_alone_is_the_pod_and_both_have_it() -> None:
    many = two()
    many.set_endpoints([A])
    many.set_endpoints([A], id=OTHER)
    assert known(many) == known(many, OTHER) == {Endpoint(A)}


def test_a_pod_with_a_uid_is_another_than_one_without() -> None:
    for first, second in ((Endpoint(A), NEW), (OLD, Endpoint(A))):
        many = two()
        many.set_endpoints([first])
        many.set_endpoints([second], id=OTHER)
        assert (known(many), known(many, OTHER)) == (set(), {second})


def test_another_port_of_the_address_is_another_matter() -> None:
    many = two()
    many.set_endpoints([OLD])
    many.set_endpoints([Endpoint("10.0.0.1:8013", "new")], id=OTHER)
    assert known(many) == {OLD}


def test_two_protocols_of_one_revision_are_one_pod() -> None:
    many = two()
    both = {HTTP1: endpoints([OLD]), H2C: endpoints([OLD])}
    many.throttler.set_endpoints(NAME, both, 0.0)
    assert known(many) == {OLD}


def test_a_revision_that_is_not_known_yet_has_its_pods_all_the_same() -> None:
    many = Many()
    many.throttler.set_revision(revision(1), 0.0)
    many.set_endpoints([OLD])
    many.set_endpoints([NEW], id=OTHER)
    assert known(many) == set()
    many.throttler.set_revision(revision(1, id=OTHER), 0.0)
    assert known(many, OTHER) == {NEW}


def test_a_revision_that_changes_does_not_get_back_what_it_has_lost() -> None:
    many = two()
    many.set_endpoints([OLD])
    many.set_endpoints([NEW], id=OTHER)
    many.throttler.set_revision(revision(10), 0.0)
    assert known(many) == set()


def test_nothing_is_kept_of_unlisted_pods() -> None:
    owners = AddressOwners()
    listed = {
        HTTP1: ListedEndpoints(frozenset(Endpoint(f"10.0.0.{n}:8012", "a") for n in range(100)))
    }
    theirs = {
        HTTP1: ListedEndpoints(frozenset(Endpoint(f"10.0.0.{n}:8012", "b") for n in range(100)))
    }
    owners.change(NAME, {}, listed)
    assert owners.change(OTHER, {}, theirs) == {NAME}
    assert owners.change(OTHER, theirs, {}) == {NAME}
    assert owners.change(NAME, listed, {}) == set()
    assert owners.claims == {}
    assert owners.lost == {}


class Hashed(str):
    """An address that counts how often a set or a dict looks for it."""

    hashes = 0

    def __hash__(self) -> int:
        Hashed.hashes += 1
        return super().__hash__()


def test_a_list_visits_only_the_pods_that_it_changes() -> None:
    pods = [Endpoint(Hashed(f"10.0.{n >> 8}.{n & 255}:8012"), str(n)) for n in range(500)]
    before = {HTTP1: ListedEndpoints(frozenset(pods))}
    after = {HTTP1: ListedEndpoints(frozenset(pods[2:]), frozenset(pods[1:2]))}
    owners = AddressOwners()
    owners.change(NAME, {}, before)
    Hashed.hashes = 0
    assert owners.change(NAME, before, after) == set()
    assert Hashed.hashes < 30
    other = {HTTP1: ListedEndpoints(frozenset([Endpoint(pods[0].address, "new")]))}
    assert owners.change(OTHER, {}, other) == set()

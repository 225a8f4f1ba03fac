"""The entry of each revision: found by name and host; nothing else stays in memory."""

from __future__ import annotations

import pytest

from activator.records.entries import Entries
from throttler.errors import RevisionNotFound
from throttler.model import Revision, RevisionID
from throttler.revision import RevisionThrottler
from throttler.throttler import Limits, Throttler

APP = RevisionID("default", "app")
HOST = b"app.default.svc.cluster.local"


class Load:
    def request_began(self, now: float) -> None: ...
    def request_ended(self, now: float) -> None: ...


class World:
    """A throttler's entries, and the loads that were made for them."""

    def __init__(self, cluster_domain: str = "cluster.local") -> None:
        self.loads: list[RevisionID] = []
        self.throttler = Throttler(Limits(), random=lambda: 0.0)
        self.entries = Entries(self.throttler, self._load, cluster_domain)

    def _load(self, revision: RevisionID) -> Load:
        self.loads.append(revision)
        return Load()

    def revise(self) -> RevisionThrottler:
        self.throttler.set_revision(Revision(APP), 0.0)
        return self.throttler.find(*APP)


def test_find_makes_one_entry_and_one_load_per_revision() -> None:
    world = World()
    revision = world.revise()
    entry = world.entries.find(b"default", b"app")
    assert entry.throttler is revision
    assert world.entries.find(b"default", b"app") is entry
    assert world.entries.find_host(HOST) is entry
    assert list(world.entries) == [entry]
    assert world.loads == [APP]


@pytest.mark.parametrize("name", [b"other", b"\xff\xfe", b""])
def test_unknown_revisions_are_not_found_and_leave_nothing_behind(name: bytes) -> None:
    world = World()
    with pytest.raises(RevisionNotFound):
        world.entries.find(b"default", name)
    with pytest.raises(RevisionNotFound):
        world.entries.find_host(name + b".default.svc.cluster.local")
    assert not world.entries
    assert not world.loads


@pytest.mark.parametrize(
    "host",
    [b"example.com", b"", b"app.default.svc", b"app.default.pod.cluster.local", b"\xff" * 300],
)
def test_host_that_names_no_revision_is_not_found_by_the_given_name(host: bytes) -> None:
    world = World()
    world.revise()
    with pytest.raises(RevisionNotFound, match="asked-for"):
        world.entries.find_host(host, b"asked-for")


def test_hosts_know_no_case_and_may_end_with_a_dot() -> None:
    world = World()
    world.revise()
    entry = world.entries.find(b"default", b"app")
    assert world.entries.find_host(HOST.upper()) is entry
    assert world.entries.find_host(HOST + b".") is entry
    assert world.entries.find_host(HOST.title() + b".:8012") is entry
    assert not world.entries._by_host


def test_hosts_with_ports_are_understood_and_not_kept() -> None:
    world = World()
    world.revise()
    entry = world.entries.find(b"default", b"app")
    for port in range(1000, 1100):
        assert world.entries.find_host(b"%b:%d" % (HOST, port)) is entry
    assert not world.entries._by_host


def test_cluster_domain_is_the_one_that_is_set() -> None:
    world = World(cluster_domain="corp.test")
    world.revise()
    assert world.entries.find_host(b"app.default.svc.corp.test").throttler.revision.id == APP
    with pytest.raises(RevisionNotFound):
        world.entries.find_host(HOST)


def test_a_deleted_revision_is_removed_by_all_its_names() -> None:
    world = World()
    world.revise()
    before = world.entries.find_host(HOST)
    world.throttler.delete_revision(APP)
    assert world.entries.remove(APP)
    assert world.entries.known(APP) is None
    with pytest.raises(RevisionNotFound):
        world.entries.find_host(HOST)
    assert not world.entries.remove(APP)

    world.revise()
    assert world.entries.find_host(HOST) is not before

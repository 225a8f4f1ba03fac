"""A watch that loses events without an error is found, logged, counted and corrected."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from activator.discovery import backoff
from activator.discovery.backoff import Timings
from activator.discovery.dialect import Scope
from activator.discovery.endpoints import EndpointsSource
from activator.discovery.inventory import Inventory, ObjectVersion
from activator.discovery.kubernetes import KubernetesWatch
from activator.discovery.self_check import Comparison, Difference, persistent
from activator.discovery.wire import ListedMetadata
from activator.objects.fields import ObjectKey
from activator.records.source_status import MissedEvents
from tests.activator.discovery.fake_api_server import Answer, FakeApiServer, event
from tests.activator.discovery.recording import RecordingSink, private, revision

TIMINGS = Timings(backoff_first=0.1, watch_brief=0.0)


@pytest.fixture
def inventory(sink: RecordingSink) -> Inventory:
    """An inventory that reads Endpoints alone; with slices the results would be the same."""
    return Inventory(sink, sink, scope=Scope(endpoints=EndpointsSource.ENDPOINTS))


@asynccontextmanager
async def watching(
    server: FakeApiServer, inventory: Inventory, folder: Path, interval: float = 0.0
) -> AsyncIterator[KubernetesWatch]:
    watch = KubernetesWatch(
        inventory,
        "knative-serving",
        server.kubeconfig(folder),
        TIMINGS,
        {},
        self_check_interval=interval,
    )
    task = asyncio.get_running_loop().create_task(watch.run())
    try:
        await watch.wait_synced()
        for kind in ("Revision", "Endpoints", "Service", "ConfigMap"):
            await server.watched(kind)
        yield watch
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def change_silently(server: FakeApiServer, *ips: str) -> None:
    """Change the object without an event to any watch."""
    server.version += 1
    obj = private(*ips)
    obj["metadata"]["resourceVersion"] = str(server.version)
    server.objects["Endpoints"]["a-private"] = obj


async def test_a_change_that_the_watch_lost_is_found_logged_counted_and_corrected(
    server: FakeApiServer,
    inventory: Inventory,
    sink: RecordingSink,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server.put(private("10.0.0.1"))
    async with watching(server, inventory, tmp_path) as watch:
        change_silently(server, "10.0.0.2")
        with caplog.at_level(logging.WARNING):
            await watch.self_check.check()
        assert sink.ready() == ["10.0.0.2:8012"]
        counters = watch.self_check.counters
        assert counters.found == {"Endpoints": 1, "Revision": 0, "Service": 0, "ConfigMap": 0}
        assert counters.present["Endpoints"] == 0
        assert counters.checks == {"drifted": 1, "equal": 3}
        told = [record.getMessage() for record in caplog.records]
        assert told[0].endswith(
            "Endpoints default/a-private: known in version 101, the cluster has 102"
        )
        assert "1 objects differ" in told[1]
        # The watch continues from there.
        await server.asked("Endpoints", "watch", 2)
        await server.watched("Endpoints")
        server.put(private("10.0.0.3"))
        await sink.until(lambda: sink.ready() == ["10.0.0.3:8012"])


async def test_a_revision_that_is_gone_is_not_routed_to_any_longer(
    server: FakeApiServer, inventory: Inventory, sink: RecordingSink, tmp_path: Path
) -> None:
    server.put(revision())
    async with watching(server, inventory, tmp_path) as watch:
        server.delete("Revision", "a", tell=False)
        await watch.self_check.check()
        assert sink.revisions == {}
        assert watch.self_check.counters.found["Revision"] == 1


async def test_an_object_without_any_event_comes_in(
    server: FakeApiServer, inventory: Inventory, sink: RecordingSink, tmp_path: Path
) -> None:
    async with watching(server, inventory, tmp_path) as watch:
        change_silently(server, "10.0.0.1")
        await watch.self_check.check()
        assert sink.ready() == ["10.0.0.1:8012"]


async def test_the_lists_are_of_etcd_and_nothing_is_done_where_all_is_well(
    server: FakeApiServer, inventory: Inventory, sink: RecordingSink, tmp_path: Path
) -> None:
    server.put(private("10.0.0.1"))
    async with watching(server, inventory, tmp_path) as watch:
        told = len(sink.calls)
        await watch.self_check.check()
        assert len(sink.calls) == told
        assert [r.params.get("resourceVersion") for r in server.of("Endpoints", "list")] == [
            "0",
            None,
        ]
        assert server.count("Endpoints", "watch") == 1
        assert watch.self_check.counters.checks == {"equal": 4}


async def test_an_event_that_is_on_its_way_is_no_missed_event(
    server: FakeApiServer, inventory: Inventory, sink: RecordingSink, tmp_path: Path
) -> None:
    server.put(private("10.0.0.1"))
    async with watching(server, inventory, tmp_path) as watch:
        change_silently(server, "10.0.0.2")
        late = event("MODIFIED", server.objects["Endpoints"]["a-private"])
        loop = asyncio.get_running_loop()
        loop.call_later(TIMINGS.in_flight / 2, server.send, "Endpoints", late)
        await watch.self_check.check()
        assert watch.self_check.counters.found["Endpoints"] == 0
        assert server.count("Endpoints", "watch") == 1
        assert sink.ready() == ["10.0.0.2:8012"]


async def test_a_watch_that_says_itself_that_it_fails_is_left_to_itself(
    server: FakeApiServer, inventory: Inventory, tmp_path: Path
) -> None:
    server.put(private("10.0.0.1"))
    async with watching(server, inventory, tmp_path) as watch:
        server.always["Endpoints", "watch"] = Answer(500)
        server.send("Endpoints", b"garbage\n")
        await server.asked("Endpoints", "watch", 3)
        change_silently(server, "10.0.0.2")
        lists = server.count("Endpoints", "list")
        await watch.self_check.check()
        assert server.count("Endpoints", "list") == lists
        assert watch.self_check.counters.checks["skipped"] == 1


@pytest.mark.parametrize("answer", [Answer(500), Answer(body=b"{}"), Answer(end="reset")])
async def test_a_list_that_fails_changes_nothing(
    answer: Answer, server: FakeApiServer, inventory: Inventory, sink: RecordingSink, tmp_path: Path
) -> None:
    server.put(private("10.0.0.1"))
    async with watching(server, inventory, tmp_path) as watch:
        server.script["Endpoints", "list"].append(answer)
        await watch.self_check.check()
        assert watch.self_check.counters.checks == {"failed": 1, "equal": 3}
        assert sink.ready() == ["10.0.0.1:8012"]


async def test_it_is_done_every_interval_and_never_with_zero(
    server: FakeApiServer, inventory: Inventory, sink: RecordingSink, tmp_path: Path
) -> None:
    server.put(private("10.0.0.1"))
    loop = asyncio.get_running_loop()
    async with watching(server, inventory, tmp_path, interval=600.0):
        change_silently(server, "10.0.0.2")
        await sink.until(lambda: sink.ready() == ["10.0.0.2:8012"])
        assert 480 <= loop.time() <= 721 + TIMINGS.in_flight
    never = KubernetesWatch(inventory, "knative-serving", server.kubeconfig(tmp_path), TIMINGS, {})
    async with asyncio.timeout(1.0):
        await never.self_check.run()


async def test_a_list_that_does_not_come_is_not_waited_for_for_ever(
    server: FakeApiServer, inventory: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put(private("10.0.0.1"))
    async with watching(server, inventory, tmp_path) as watch:
        change_silently(server, "10.0.0.2")
        key = ("Endpoints", "list")
        server.script[key].extend([Answer(body=server.page("Endpoints"))] * 2)
        server.always[key] = Answer(500)
        await watch.self_check.check()
        assert watch.self_check.counters.present["Endpoints"] == 1


async def test_others_get_their_turns_meanwhile(
    server: FakeApiServer,
    inventory: Inventory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in range(50):
        server.put(private("10.0.0.1", of=f"r{number}"))
    monkeypatch.setattr(backoff, "PIECE", -1.0)
    seen: set[int] = set()
    taken = 0
    take = Comparison.take

    def count(self: Comparison, metadata: Any) -> None:
        nonlocal taken
        taken += 1
        take(self, metadata)

    async def others() -> None:
        while True:
            seen.add(taken)
            await asyncio.sleep(0)

    async with watching(server, inventory, tmp_path) as watch:
        monkeypatch.setattr(Comparison, "take", count)
        task = asyncio.get_running_loop().create_task(others())
        await watch.self_check.check()
        task.cancel()
    assert set(range(51)) <= seen


KEY = ObjectKey("Endpoints", "default", "a-private")
ONE, TWO = ObjectVersion("u", "1"), ObjectVersion("u", "2")


def listed(name: str | None = "a-private", uid: str = "u", version: str = "1") -> ListedMetadata:
    return ListedMetadata(name, "default", uid, version)


def differences(inventory: Inventory, *objects: ListedMetadata) -> dict[ObjectKey, Difference]:
    comparison = Comparison("Endpoints", inventory)
    for each in objects:
        comparison.take(each)
    for _ in comparison.finish():
        pass
    return comparison.differences


@pytest.mark.parametrize(
    ("objects", "found", "words"),
    [
        ([listed()], None, ""),
        ([listed(version="2")], (ONE, TWO), "known in version 1, the cluster has 2"),
        (
            [listed(uid="v")],
            (ONE, ObjectVersion("v", "1")),
            "another object has its name in the cluster",
        ),
        ([], (ONE, None), "it is not in the cluster any more"),
    ],
)
def test_an_object_that_is_known_is_compared_with_what_is_listed(
    inventory: Inventory,
    objects: list[ListedMetadata],
    found: tuple[ObjectVersion, ObjectVersion | None] | None,
    words: str,
) -> None:
    inventory.apply(private("10.0.0.1", uid="u", version="1"))
    inventory.apply(revision())  # of another kind, which this list does not cover
    assert differences(inventory, *objects) == ({KEY: found} if found else {})
    assert words in "".join(map(str, differences(inventory, *objects).values()))


def test_an_object_that_is_not_known_is_a_difference_unless_it_cannot_be_used(
    inventory: Inventory,
) -> None:
    found = differences(inventory, listed(), listed(name=None), listed(name="a b"))
    assert found == {KEY: (None, ONE)}
    assert str(found[KEY]) == "it is not known here"
    broken = private("10.0.0.1", uid="u", version="1") | {"subsets": 5}
    inventory.apply(broken)
    assert differences(inventory, listed()) == {}


@pytest.mark.parametrize(
    ("first", "second", "lasts"),
    [
        ((ONE, TWO), (ONE, TWO), True),
        ((ONE, TWO), (ONE, ObjectVersion("u", "3")), True),
        ((ONE, None), (ONE, None), True),
        ((None, ONE), (None, TWO), True),
        # It changes all the time, and its events arrive.
        ((ONE, TWO), (TWO, ObjectVersion("u", "3")), False),
        (None, (ONE, TWO), False),
        ((ONE, TWO), None, False),
    ],
)
def test_only_differences_that_occur_twice_without_an_event_last(
    first: tuple[ObjectVersion, ObjectVersion] | None,
    second: tuple[ObjectVersion, ObjectVersion] | None,
    lasts: bool,
) -> None:
    one, two = ({KEY: Difference(*each)} if each else {} for each in (first, second))
    assert bool(persistent(one, two)) is lasts


def test_what_was_found_is_counted_and_what_is_left_is_of_the_last_check() -> None:
    counters = MissedEvents()
    counters.record("Endpoints", 3, 1)
    counters.record("Endpoints", 0, 0)
    seen = deepcopy(counters)
    counters.record("Endpoints", 1, 1)
    assert seen == MissedEvents({"drifted": 1, "equal": 1}, {"Endpoints": 3}, {"Endpoints": 0})

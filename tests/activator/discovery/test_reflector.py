"""The watch of one resource against a scripted API server, through real sockets."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from logging import DEBUG, INFO, WARNING
from pathlib import Path

import pytest

from activator.discovery import backoff
from activator.discovery.api_server import ApiServer
from activator.discovery.backoff import Timings
from activator.discovery.inventory import Inventory
from activator.discovery.reflector import RELIST_AFTER_FAILURES, Reflector, Versions, WatchFailures
from activator.discovery.wire import ConnectionLostError, WatchedResource
from tests.activator.discovery.fake_api_server import Answer, FakeApiServer, event, expired
from tests.activator.discovery.recording import A, B, RecordingSink, private
from tests.conftest import both_loops, in_virtual_time
from tests.process import PATIENCE

pytestmark = both_loops

QUICK = Timings(
    backoff_first=0.001,
    backoff_limit=0.01,
    inactivity=30.0,
    list_page=20.0,
    watch_brief=0.0,
    retry_after_limit=0.05,
)
WATCH, LIST = ("Endpoints", "watch"), ("Endpoints", "list")


@asynccontextmanager
async def following(
    server: FakeApiServer,
    inventory: Inventory,
    folder: Path,
    timings: Timings = QUICK,
    *,
    optional: bool = False,
    requests_wait: Callable[[], bool] = lambda: False,
) -> AsyncIterator[Reflector]:
    api = ApiServer(server.kubeconfig(folder), timings, {})
    await api.connect()
    resource = WatchedResource("Endpoints", "/api/v1/endpoints", optional=optional)
    reflector = Reflector(resource, api, inventory, timings, requests_wait)
    task = asyncio.get_running_loop().create_task(reflector.run())
    try:
        virtual = hasattr(asyncio.get_running_loop(), "virtual_now")
        async with asyncio.timeout(3600 if virtual else PATIENCE):
            yield reflector
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await api.close()


class Waiting(RecordingSink):
    """A sink on which a test can wait for pods."""

    async def until_ready(self, *ips: str) -> None:
        expected = [f"{ip}:8012" for ip in ips]
        await self.until(lambda: A in self.endpoints and self.ready() == expected)

    @property
    def emptied(self) -> bool:
        return any(call[:2] == ("set_endpoints", A) and not call[2] for call in self.calls)


@pytest.fixture
def sink() -> Waiting:
    return Waiting()


async def test_objects_are_listed_and_changes_followed(
    server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
) -> None:
    server.put(private("10.0.0.1"))
    async with following(server, inventory, tmp_path) as reflector:
        await sink.until_ready("10.0.0.1")
        await server.watched("Endpoints")
        assert reflector.synced.is_set()
        server.put(private("10.0.0.2"))
        await sink.until_ready("10.0.0.2")
        server.delete("Endpoints", "a-private")
        await sink.until_ready()
    watch = server.of("Endpoints", "watch")[0]
    assert watch.params["resourceVersion"] == "101"
    assert watch.params["allowWatchBookmarks"] == "true"
    assert 300 <= int(watch.params["timeoutSeconds"]) <= 600
    assert watch.headers["authorization"] == "Bearer t1"


async def test_a_list_comes_in_pages(
    server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
) -> None:
    server.page_size = 2
    for name in "abcde":
        server.put(private("10.0.0.1", of=name))
    async with following(server, inventory, tmp_path) as reflector:
        await reflector.synced.wait()
    assert len(sink.endpoints) == 5
    first, second, _ = server.of("Endpoints", "list")
    assert first.params == {"limit": "500", "resourceVersion": "0"}
    assert second.params == {"limit": "500", "continue": "2"}


async def test_others_get_their_turns_while_a_long_list_is_taken_in(
    server: FakeApiServer,
    inventory: Inventory,
    sink: Waiting,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backoff, "PIECE", -1.0)
    turns: list[int] = []

    async def others() -> None:
        while True:
            turns.append(len(sink.endpoints))
            await asyncio.sleep(0)

    for number in range(50):
        server.put(private("10.0.0.1", of=f"r{number}"))
    task = asyncio.get_running_loop().create_task(others())
    async with following(server, inventory, tmp_path) as reflector:
        await reflector.synced.wait()
    task.cancel()
    assert set(range(51)) <= set(turns)


async def test_a_second_page_that_expired_throws_the_whole_list_away(
    server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
) -> None:
    server.page_size = 1
    server.put(private("10.0.0.1", of="a"))
    server.put(private("10.0.0.2", of="b"))
    server.script[LIST].extend([Answer(body=server.page("Endpoints")), Answer(410)])
    async with following(server, inventory, tmp_path) as reflector:
        await reflector.synced.wait()
    assert {A, B} == set(sink.endpoints)
    assert server.count("Endpoints", "list") == 4
    assert reflector.counters.lists == 2


async def test_a_watch_that_ends_goes_on_from_the_last_bookmark_without_a_list(
    server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
) -> None:
    bookmark = event("BOOKMARK", {"kind": "Endpoints", "metadata": {"resourceVersion": "777"}})
    server.script[WATCH].append(Answer(body=bookmark))
    async with following(server, inventory, tmp_path):
        await server.asked("Endpoints", "watch", 2)
    assert server.of("Endpoints", "watch")[1].params["resourceVersion"] == "777"
    assert server.count("Endpoints", "list") == 1


async def test_after_a_restore_of_etcd_the_list_replaces_what_was_newer(
    server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
) -> None:
    server.put(private("10.0.0.2", uid="u"))
    async with following(server, inventory, tmp_path) as reflector:
        await sink.until_ready("10.0.0.2")
        await server.watched("Endpoints")
        restored = private("10.0.0.1", uid="u", version="50")
        server.objects["Endpoints"] = {"a-private": restored}
        server.version = 51
        server.script[LIST].append(Answer(504, b'{"message": "Too large resource version"}'))
        server.send("Endpoints", event("ERROR", expired()))
        await sink.until_ready("10.0.0.1")
        assert "resourceVersion" not in server.of(*LIST)[-1].params
        await server.asked(*WATCH, times=2)
        assert server.of("Endpoints", "watch")[-1].params["resourceVersion"] == "51"
        assert reflector.counters.lists == 3


async def test_a_list_from_a_cache_that_lags_brings_nothing_old_back(
    server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
) -> None:
    server.put(private("10.0.0.1", uid="u"))
    old = server.page("Endpoints")
    async with following(server, inventory, tmp_path):
        await sink.until_ready("10.0.0.1")
        await server.watched("Endpoints")
        server.put(private("10.0.0.2", uid="u"))
        await sink.until_ready("10.0.0.2")
        told = len(sink.calls)
        server.script[LIST].append(Answer(body=old))
        server.send("Endpoints", event("ERROR", expired()))
        await server.asked(*WATCH, times=2)
        assert [request.params.get("resourceVersion") for request in server.of(*LIST)] == [
            "0",
            "102",
            None,
        ]
        assert sink.ready() == ["10.0.0.2:8012"]
        assert len(sink.calls) == told


@pytest.mark.parametrize(
    "gone", [Answer(410), Answer(body=event("ERROR", expired()))], ids=["status", "in stream"]
)
async def test_an_expired_version_is_listed_again_without_a_gap(
    gone: Answer, server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
) -> None:
    server.put(private("10.0.0.1"))
    server.put(private("10.0.0.9", of="b"))
    async with following(server, inventory, tmp_path):
        server.script[WATCH].append(gone)
        await server.asked("Endpoints", "watch")
        server.delete("Endpoints", "b-private", tell=False)
        server.put(private("10.0.0.2"))
        await sink.until_ready("10.0.0.2")
        await server.asked("Endpoints", "watch", 2)
    assert not sink.emptied
    assert sink.ready(B) == []
    # The new list must be at least as recent as the last known version.
    assert server.of("Endpoints", "list")[1].params["resourceVersion"] == "102"


async def test_a_restarted_server_refuses_watches_from_before_its_restart(
    server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
) -> None:
    server.put(private("10.0.0.1"))
    async with following(server, inventory, tmp_path):
        await server.watched("Endpoints")
        await server.stop()
        server.put(private("10.0.0.2"))
        server.first_of_watches = server.version
        await server.__aenter__()
        await sink.until_ready("10.0.0.2")
        await server.watched("Endpoints")
    assert server.count("Endpoints", "list") == 2


async def test_a_list_whose_version_has_expired_is_repeated_without_a_version(
    server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
) -> None:
    server.put(private("10.0.0.1"))
    async with following(server, inventory, tmp_path):
        await server.watched("Endpoints")
        server.script[LIST].append(Answer(410))
        server.put(private("10.0.0.2"))
        server.send("Endpoints", event("ERROR", expired()))
        await server.asked(*WATCH, times=2)
        versions = [request.params.get("resourceVersion", "") for request in server.of(*LIST)]
        assert versions == ["0", "102", ""]
    assert sink.ready() == ["10.0.0.2:8012"]
    assert not sink.emptied


async def test_a_late_deletion_of_a_predecessor_leaves_the_new_object_in_force(
    server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
) -> None:
    server.put(private("10.0.0.1", uid="old"))
    async with following(server, inventory, tmp_path):
        await server.watched("Endpoints")
        server.put(private("10.0.0.2", uid="new"), "ADDED")
        server.send("Endpoints", event("DELETED", private("10.0.0.1", uid="old", version="103")))
        server.version = 103
        server.put(private("10.0.0.9", of="b"))  # behind the deletion
        await sink.until(lambda: B in sink.endpoints)
        assert sink.ready() == ["10.0.0.2:8012"]
        server.delete("Endpoints", "a-private")
        await sink.until_ready()


FAULTS = {
    "500 text": Answer(500, b"upstream connect error"),
    "503 HTML": Answer(503, b"<html>sorry</html>"),
    "403": Answer(403, b'{"kind": "Status", "message": "no"}'),
    "401": Answer(401),
    "429": Answer(429, headers={"Retry-After": "1"}),
    "200 HTML": Answer(200, b"<html>login</html>"),
    "redirect": Answer(302, headers={"Location": "/elsewhere"}),
    "empty": Answer(200, b""),
    "status": Answer(200, b'{"kind": "Status", "metadata": {}, "items": []}'),
    "truncated": Answer(200, b'{"kind": "EndpointsList", "items": [', end="cut"),
    "reset": Answer(200, b"{", end="reset"),
    "half a head": Answer(200, b"", end="cut"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.untraced  # long when traced
async def test_no_faulty_list_is_taken_for_an_empty_one(
    fault: Answer, server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
) -> None:
    await _the_list_fails_twice(fault, server, inventory, sink, tmp_path)


@in_virtual_time
async def test_a_list_that_does_not_come_is_not_taken_for_an_empty_one(
    server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
) -> None:
    await _the_list_fails_twice(Answer(end="silence"), server, inventory, sink, tmp_path)


async def _the_list_fails_twice(
    fault: Answer, server: FakeApiServer, inventory: Inventory, sink: Waiting, folder: Path
) -> None:
    server.put(private("10.0.0.1"))
    async with following(server, inventory, folder) as reflector:
        await sink.until_ready("10.0.0.1")
        server.script[LIST].extend([fault, fault])
        await server.watched("Endpoints")
        server.put(private("10.0.0.2"), "MODIFIED")
        server.send("Endpoints", event("ERROR", expired()))
        await server.asked("Endpoints", "watch", 2)
        assert reflector.counters.failures == 2
    assert sink.ready() == ["10.0.0.2:8012"]
    assert not sink.emptied


GARBAGE = {
    "no JSON": b"upstream connect error\n",
    "no event": b'{"a": 1}\n',
    "no UTF-8": b'{"type": "ADDED", "object": {"a": "\xff"}}\n',
    "unknown type": event("SURPRISE", {"metadata": {"resourceVersion": "999"}}),
    "no version": event("ADDED", {"kind": "Endpoints", "metadata": {"name": "a"}}),
    "no name": event("DELETED", {"metadata": {"resourceVersion": "999"}}),
    "number": b"5\n",
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_in_a_stream_starts_it_again_from_what_is_known(
    garbage: bytes, server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
) -> None:
    good = server.put(private("10.0.0.1"))
    server.objects["Endpoints"].clear()
    server.version = 100
    server.script[WATCH].append(Answer(body=good + garbage, end="hold"))
    async with following(server, inventory, tmp_path):
        await server.asked("Endpoints", "watch", 2)
    assert sink.ready() == ["10.0.0.1:8012"]
    assert server.of("Endpoints", "watch")[1].params["resourceVersion"] == "101"
    assert server.count("Endpoints", "list") == 1


@pytest.mark.parametrize("end", ["cut", "close", "reset"])
async def test_half_a_line_is_not_used_and_comes_again(
    end: str, server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
) -> None:
    async with following(server, inventory, tmp_path) as reflector:
        await reflector.synced.wait()
        line = event("ADDED", {**private("10.0.0.1", version="150")})
        server.script[WATCH].extend(
            [Answer(body=line[: len(line) // 2], end=end), Answer(body=line, end="hold")]
        )
        await server.watched("Endpoints")
        server.send("Endpoints", event("ERROR", {"code": 500}))
        await sink.until_ready("10.0.0.1")
    assert server.count("Endpoints", "list") == 1


async def test_endless_garbage_leads_to_a_new_list(
    server: FakeApiServer, inventory: Inventory, tmp_path: Path
) -> None:
    server.always[WATCH] = Answer(body=b"garbage\n")
    async with following(server, inventory, tmp_path):
        await server.asked("Endpoints", "list", 2)
    assert server.count("Endpoints", "watch") == RELIST_AFTER_FAILURES


@in_virtual_time
async def test_a_server_that_is_away_is_watched_again_without_a_list(
    server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
) -> None:
    server.put(private("10.0.0.1"))
    async with following(server, inventory, tmp_path) as reflector:
        await server.watched("Endpoints")
        await server.stop()
        # A failed connection causes no event that a test could wait for.
        while reflector.counters.failures < 2 * RELIST_AFTER_FAILURES:  # noqa: ASYNC110 # counters have no event
            await asyncio.sleep(0.001)
        assert sink.ready() == ["10.0.0.1:8012"]
        assert "does not respond" in reflector.last_error
        async with server:
            await server.watched("Endpoints")
            server.put(private("10.0.0.2"))
            await sink.until_ready("10.0.0.2")
        assert server.count("Endpoints", "list") == 1


async def test_a_line_of_several_megabytes_is_read(
    server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
) -> None:
    obj = private("10.0.0.1")
    obj["metadata"]["annotations"] = {"padding": "x" * 5_000_000}
    async with following(server, inventory, tmp_path):
        await server.watched("Endpoints")
        server.put(obj)
        await sink.until_ready("10.0.0.1")


async def test_an_empty_list_where_objects_were_is_logged(
    server: FakeApiServer,
    inventory: Inventory,
    sink: Waiting,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server.put(private("10.0.0.1"))
    async with following(server, inventory, tmp_path):
        await server.watched("Endpoints")
        server.delete("Endpoints", "a-private", tell=False)
        server.send("Endpoints", event("ERROR", expired()))
        await sink.until_ready()
    assert "1 objects were known: all of them are removed" in caplog.text


async def test_a_defect_of_ours_does_not_end_the_watch(
    server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
) -> None:
    server.put(private("10.0.0.1"))
    healthy, sink.set_endpoints = sink.set_endpoints, None  # type: ignore[assignment,method-assign] # a sink that breaks
    async with following(server, inventory, tmp_path) as reflector:
        await server.asked("Endpoints", "list", 2)
        assert "TypeError" in reflector.last_error
        sink.set_endpoints = healthy  # type: ignore[method-assign] # and is mended
        # Nothing changed in the cluster meanwhile: missed events must still arrive.
        await sink.until_ready("10.0.0.1")


@in_virtual_time
class TestWithProductionsTimings:
    """Minutes pass at once in virtual time, and the tests count them."""

    @pytest.mark.parametrize("what", [WATCH, LIST])
    async def test_a_server_that_closes_at_once_is_not_stormed(
        self,
        what: tuple[str, str],
        server: FakeApiServer,
        inventory: Inventory,
        tmp_path: Path,
    ) -> None:
        server.always[what] = Answer()
        async with following(server, inventory, tmp_path, Timings()):
            await asyncio.sleep(30)
            assert 3 <= len(server.requests) <= 10

    async def test_a_silent_stream_is_left_after_the_limit_and_resumed_at_once(
        self, server: FakeApiServer, inventory: Inventory, tmp_path: Path
    ) -> None:
        async with following(server, inventory, tmp_path, Timings()) as reflector:
            await server.asked("Endpoints", "watch", 2)
            assert reflector.counters.failures == 0
        first, second = server.of("Endpoints", "watch")
        assert second.at - first.at == pytest.approx(90, abs=1.5)
        assert server.count("Endpoints", "list") == 1

    async def test_bookmarks_that_come_late_keep_a_stream_open(
        self, server: FakeApiServer, inventory: Inventory, tmp_path: Path
    ) -> None:
        bookmark = event("BOOKMARK", {"kind": "Endpoints", "metadata": {"resourceVersion": "7"}})
        async with following(server, inventory, tmp_path, Timings()):
            await server.watched("Endpoints")
            for pause in (60, 75, 80, 61.25, 85):
                await asyncio.sleep(pause)
                server.send("Endpoints", bookmark)
            await asyncio.sleep(1)
            assert server.count("Endpoints", "watch") == 1

    async def test_retry_after_is_obeyed(
        self, server: FakeApiServer, inventory: Inventory, tmp_path: Path
    ) -> None:
        server.script[WATCH].append(Answer(429, headers={"Retry-After": "17"}))
        async with following(server, inventory, tmp_path, Timings()):
            await server.asked("Endpoints", "watch", 2)
        first, second = server.of("Endpoints", "watch")
        assert second.at - first.at == pytest.approx(17, abs=1)
        assert server.count("Endpoints", "list") == 1

    async def test_an_expired_version_costs_no_pause_the_first_time(
        self, server: FakeApiServer, inventory: Inventory, tmp_path: Path
    ) -> None:
        server.script[WATCH].extend([Answer(410), Answer(410)])
        async with following(server, inventory, tmp_path, Timings()):
            await server.asked("Endpoints", "list", 3)
        first, second, third = server.of("Endpoints", "list")
        assert second.at - first.at < 0.1
        assert third.at - second.at > 1

    @pytest.mark.parametrize("what", [WATCH, LIST])
    async def test_while_requests_wait_pauses_are_of_one_to_two_seconds(
        self, what: tuple[str, str], server: FakeApiServer, inventory: Inventory, tmp_path: Path
    ) -> None:
        server.always[what] = Answer(503)
        async with following(
            server, inventory, tmp_path, Timings(), requests_wait=lambda: True
        ) as reflector:
            await asyncio.sleep(120)
            at = [request.at for request in server.of(*what)]
        pauses = [second - first for first, second in pairwise(at)]
        assert max(pauses) < 2.1
        assert min(pauses) > 0.8
        assert len(set(pauses)) > len(pauses) / 2, "pauses vary"
        assert reflector.counters.failures <= 121

    async def test_short_pauses_do_not_fill_the_log(
        self,
        server: FakeApiServer,
        inventory: Inventory,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.INFO)
        server.always[LIST] = Answer(503)
        always = following(server, inventory, tmp_path, Timings(), requests_wait=lambda: True)
        async with always as reflector:
            await asyncio.sleep(60)
            assert reflector.counters.failures > 25
        warned = [record.getMessage() for record in caplog.records]
        assert 5 <= len(warned) <= 8
        assert re.search(r"next attempt in [12]\.\d s", warned[-1])

    async def test_a_request_that_begins_to_wait_cuts_the_pause_in_progress(
        self, server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
    ) -> None:
        server.put(private("10.0.0.1"))
        server.always[LIST] = Answer(503)
        async with following(server, inventory, tmp_path, Timings()) as reflector:
            await server.asked(*LIST, times=7)  # the pause that follows takes 30 s
            await asyncio.sleep(0.1)
            server.always.clear()
            reflector.pauses.hurry()
            await sink.until_ready("10.0.0.1")
        last, next_ = server.of(*LIST)[-2:]
        assert 0.9 < next_.at - last.at < 2.1

    async def test_a_pause_that_has_lasted_ends_at_once_when_a_request_begins_to_wait(
        self, server: FakeApiServer, inventory: Inventory, tmp_path: Path
    ) -> None:
        server.always[LIST] = Answer(503)
        async with following(server, inventory, tmp_path, Timings()) as reflector:
            await server.asked(*LIST, times=7)
            await asyncio.sleep(10)
            began = asyncio.get_running_loop().time()
            reflector.pauses.hurry()
            await server.asked(*LIST, times=8)
        assert server.of(*LIST)[-1].at - began < 0.3

    async def test_requests_that_come_and_go_do_not_cut_pauses_below_one_second(
        self, server: FakeApiServer, inventory: Inventory, tmp_path: Path
    ) -> None:
        server.always[LIST] = Answer(503)
        async with following(server, inventory, tmp_path, Timings()) as reflector:
            await server.asked(*LIST, times=3)
            for _ in range(600):
                reflector.pauses.hurry()
                await asyncio.sleep(0.1)
            assert server.count(*LIST) <= 63
            assert server.count(*LIST) >= 30

    @pytest.mark.parametrize(
        ("answer", "pause"),
        [(Answer(429, headers={"Retry-After": "17"}), 17), (Answer(403), 300)],
    )
    async def test_pauses_that_the_server_or_its_roles_impose_are_not_cut(
        self,
        answer: Answer,
        pause: float,
        server: FakeApiServer,
        inventory: Inventory,
        tmp_path: Path,
    ) -> None:
        server.always[LIST] = answer
        async with following(
            *(server, inventory, tmp_path, Timings()), optional=True, requests_wait=lambda: True
        ) as reflector:
            await reflector.settled.wait()
            reflector.pauses.hurry()
            await server.asked(*LIST, times=2)
        first, second = server.of(*LIST)
        assert second.at - first.at == pytest.approx(pause, abs=1)

    async def test_a_watch_that_works_is_left_alone_when_a_request_begins_to_wait(
        self, server: FakeApiServer, inventory: Inventory, tmp_path: Path
    ) -> None:
        async with following(server, inventory, tmp_path, Timings()) as reflector:
            await server.watched("Endpoints")
            reflector.pauses.hurry()
            await asyncio.sleep(30)
            assert len(server.requests) == 2

    @pytest.mark.parametrize(("status", "level"), [(403, "WARNING"), (404, "INFO")])
    async def test_what_may_be_missing_is_asked_for_seldom(
        self,
        status: int,
        level: str,
        server: FakeApiServer,
        inventory: Inventory,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.INFO)
        server.always[LIST] = Answer(status)
        async with following(server, inventory, tmp_path, Timings(), optional=True) as reflector:
            await reflector.settled.wait()
            assert not reflector.synced.is_set()
            await server.asked("Endpoints", "list", 3)
        first, second, third = server.of("Endpoints", "list")
        assert second.at - first.at == pytest.approx(300, abs=1)
        assert third.at - second.at == pytest.approx(300, abs=1)
        lines = [line for line in caplog.records if "are not read" in line.getMessage()]
        assert [line.levelname for line in lines] == [level]
        assert ("no fault" in lines[0].getMessage()) is (status == 404)

    async def test_what_may_be_missing_is_asked_for_soon_after_another_fault(
        self, server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
    ) -> None:
        server.put(private("10.0.0.1"))
        server.script[LIST].append(Answer(503))
        async with following(server, inventory, tmp_path, Timings(), optional=True) as reflector:
            await reflector.settled.wait()
            assert not reflector.synced.is_set()
            await sink.until_ready("10.0.0.1")
        first, second = server.of("Endpoints", "list")
        assert second.at - first.at < 2


async def test_a_list_that_is_asked_for_comes_from_etcd_and_the_watch_goes_on_from_it(
    server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
) -> None:
    server.put(private("10.0.0.1"))
    async with following(server, inventory, tmp_path) as reflector:
        await server.watched("Endpoints")
        server.objects["Endpoints"]["a-private"] = private("10.0.0.2", version="150")
        server.version = 150
        await reflector.relist()
        assert sink.ready() == ["10.0.0.2:8012"]
        assert "resourceVersion" not in server.of(*LIST)[-1].params
        await server.asked(*WATCH, times=2)
        assert server.of("Endpoints", "watch")[-1].params["resourceVersion"] == "150"
        await server.watched("Endpoints")
        server.put(private("10.0.0.3"))
        await sink.until_ready("10.0.0.3")
        assert reflector.counters.failures == 0
        assert not sink.emptied


async def test_a_list_that_is_asked_for_between_two_watches_comes_next(
    server: FakeApiServer, inventory: Inventory, sink: Waiting, tmp_path: Path
) -> None:
    server.put(private("10.0.0.1"))
    server.script[WATCH].append(Answer(500))
    async with following(server, inventory, tmp_path, replace(QUICK, backoff_first=0.05)) as one:
        await server.asked(*WATCH)
        await one.relist()
        assert server.count("Endpoints", "list") == 2


def test_the_first_failure_is_no_warning_and_a_repeated_one_is_one_every_ten_seconds() -> None:
    failures = WatchFailures()
    found = [failures.add("refused", now, suspect=False) for now in (0.0, 1.0, 2.0, 10.9, 11.0)]
    assert found == [INFO, WARNING, DEBUG, DEBUG, WARNING]
    assert failures.add("reset", 11.1, suspect=False) == WARNING
    failures.clear()
    assert (failures.in_a_row, failures.last_error) == (0, "")
    assert failures.add("refused", 12.0, suspect=False) == INFO


def test_only_suspect_failures_in_a_row_make_the_version_suspect() -> None:
    failures = WatchFailures()
    for _ in range(RELIST_AFTER_FAILURES):
        failures.add("refused", 0.0, suspect=False)
    for _ in range(RELIST_AFTER_FAILURES - 1):
        failures.add("garbled", 0.0, suspect=True)
    assert not failures.make_suspect
    failures.add("garbled", 0.0, suspect=True)
    assert failures.make_suspect
    failures.clear()
    assert not failures.make_suspect


def at(version: str) -> Versions:
    versions = Versions()
    versions.reached(version)
    return versions


def test_the_first_list_may_come_from_the_cache() -> None:
    versions = Versions()
    assert (versions.of_watch, versions.of_list) == ("", "0")


def test_a_list_may_not_be_older_than_the_last_version_the_first_time() -> None:
    versions = at("7")
    versions.list_next()
    for version in ("7", "8"):
        versions.check_age(version)
    with pytest.raises(ConnectionLostError, match="has version 6, expected 7 or newer"):
        versions.check_age("6")
    assert (versions.of_watch, versions.of_list) == ("", "")  # the next one comes from etcd


def test_an_expired_watch_lists_again_and_an_expired_list_lists_from_etcd() -> None:
    versions = at("7")
    versions.expired()
    assert (versions.of_watch, versions.of_list) == ("", "7")
    versions.expired()
    assert (versions.of_watch, versions.of_list) == ("", "")

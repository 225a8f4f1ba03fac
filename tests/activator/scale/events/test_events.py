"""Events on their way to an API server that may be slow, away or strict."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from activator.process.tasks import Tasks
from activator.scale.cluster.api import ApiResponse, ApiUnreachable
from activator.scale.events.event_book import REPEAT, Notice, Subject
from activator.scale.events.events import LOOK, MOST_REQUESTS, MOST_WAITING, Events
from tests.activator.scale.fake_api import status

HELLO = Subject("shop", "hello", "s1")
OWNERS = Notice("two-owners", "HPA hello also scales Deployment hello")


class Server:
    """Records Events; ``failures`` are the responses to the next requests."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Any]] = []
        self.failures: list[ApiResponse | ApiUnreachable] = []
        self.at_once = self.most = 0

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> ApiResponse:
        """See Api."""
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        self.requests.append((method, json.loads(body)))
        failure = self.failures.pop(0) if self.failures else ApiResponse(201, b"{}")
        if isinstance(failure, ApiUnreachable):
            raise failure
        return failure


async def later(seconds: float) -> None:
    """Return when the virtual clock is so much later."""
    reached = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, reached.set)
    await reached.wait()


class World:
    def __init__(self) -> None:
        self.server, self.tasks = Server(), Tasks()
        clock = asyncio.get_running_loop().time
        self.events = Events(self.server, self.tasks.start, "scale-7d9f", clock)

    async def report(self, *notices: Notice, subject: Subject = HELLO) -> None:
        self.events.report(subject, notices)
        await self.tasks.finish(5)

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.server.requests]


async def test_a_notice_is_written_and_repeated_while_it_stays() -> None:
    world = World()
    await world.report(OWNERS)
    await world.report(OWNERS)
    assert world.methods == ["POST"]
    await later(REPEAT + LOOK)
    assert world.methods == ["POST", "PATCH"]
    await world.report()
    await later(2 * REPEAT)
    assert world.methods == ["POST", "PATCH"]
    assert (world.events.written, world.events.failed) == (2, 0)
    world.events.close()


@pytest.mark.parametrize("failure", [ApiUnreachable("refused"), status(500), status(409)])
async def test_a_failure_is_made_up_for_a_minute_later(failure: Any) -> None:
    world = World()
    world.server.failures = [failure]
    await world.report(OWNERS)
    assert (world.events.written, world.events.failed) == (0, 1)
    await later(LOOK + 1)
    assert world.methods == ["POST", "POST"]
    assert world.events.written == 1
    world.events.close()


async def test_a_missing_right_is_logged_once_with_the_rule(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.server.failures = [status(403, "events.events.k8s.io is forbidden")] * 3
    with caplog.at_level(logging.INFO):
        for n in range(3):
            await world.report(Notice("two-owners", f"note {n}"))
    assert world.events.failed == 3
    [line] = caplog.messages
    assert line.startswith("Service shop/hello: the Event two-owners could not be written: 403:")
    assert 'resources: ["events"], verbs: ["create", "patch"]' in line
    world.events.close()


async def test_many_events_are_few_requests_at_a_time_and_bounded_memory() -> None:
    world = World()
    for n in range(MOST_WAITING + 50):
        world.events.report(Subject("shop", f"s{n}", "u"), [OWNERS])
    await world.tasks.finish(5)
    assert world.server.most == MOST_REQUESTS
    assert world.events.written + world.events.dropped == MOST_WAITING + 50
    assert world.events.dropped == 50
    # The dropped ones follow.
    await later(LOOK + 1)
    assert world.events.written == MOST_WAITING + 50
    world.events.close()


async def test_closed_events_write_nothing_more() -> None:
    world = World()
    await world.report(OWNERS)
    world.events.close()
    world.events.close()
    await later(2 * REPEAT)
    assert world.methods == ["POST"]


async def test_a_deleted_service_is_not_repeated() -> None:
    world = World()
    await world.report(OWNERS)
    world.events.remove(HELLO)
    await later(2 * REPEAT)
    assert world.methods == ["POST"]
    world.events.close()

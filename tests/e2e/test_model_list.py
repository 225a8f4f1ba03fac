"""The only pod of an OpenAI server dies, and Kubernetes lists it as ready all the time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.e2e.world import World
from tests.process import until

pytestmark = pytest.mark.e2e

ANNOTATIONS = {
    "activator.dev/profile": "openai",
    "activator.dev/heartbeat-seconds": "1",
    "activator.dev/wait-seconds": "600",
}
KEY = {"Authorization": "Bearer a", "Accept": "application/json"}
CHAT = json.dumps(
    {"model": "echo", "messages": [{"role": "user", "content": "Hello"}], "stream": True}
).encode()


async def test_polls_get_the_kept_list_and_a_chat_gets_the_next_pod(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        world.write_revision(annotations=ANNOTATIONS, timeout=30)
        pod = await world.start_pod("model")
        world.list_pods([pod.listed(ready=True)])
        await world.start_activator()
        models = await world.fetch("/v1/models", headers=KEY)
        assert '"echo"' in models.body

        await pod.end(kill=True)
        for _ in range(2):  # the first poll finds the pod dead, the second one knows
            kept = await world.fetch("/v1/models", headers=KEY)
            assert (kept.status, kept.body) == (200, models.body)
            assert kept.headers["activator-reason"].startswith("asleep")
        assert (await world.fetch("/health", headers=KEY)).status == 503
        view = await world.view()
        assert (view["inFlight"], view["queued"], view["coldStarts"]) == (0, 0, [])

        chat = asyncio.ensure_future(
            world.fetch("/v1/chat/completions", "POST", {"Accept": "text/event-stream"}, CHAT)
        )

        async def gets_comments() -> bool:
            return bool((await world.view())["whileWaiting"]["earlyHeads"])

        await until(gets_comments, "the client of the chat gets comments")
        assert (await world.view())["queued"] == 1  # it counts as load, unlike the polls
        await world.start_pod("model", pod.options.address)
        stream = await chat
        assert stream.status == 200
        for part in (": waiting", "Hello", "data: [DONE]", "\r\n0\r\n\r\n"):  # the whole stream
            assert part in stream.body

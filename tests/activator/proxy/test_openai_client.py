"""The Python client of OpenAI, as its users have it, through cold starts of its server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests import programs
from tests.activator.proxy.world import NAME, NAMESPACE, Seen, World, ok, until
from throttler.model import Policies
from throttler.request_policies import Profile, RequestPolicies, WaitMode, WhileWaiting

POLICIES = Policies(
    requests=RequestPolicies(
        waiting=WhileWaiting((WaitMode.HEARTBEAT,)), profile=Profile.OPENAI, wait_seconds=600.0
    )
)
MESSAGES: Any = [{"role": "user", "content": "Hello"}]
JSON = b"Content-Type: application/json\r\n"


def respond(seen: Seen) -> bytes:
    """Return the response of a small server: the message, word by word."""
    if seen.target == b"/v1/models":
        model = {"id": "echo", "object": "model", "created": 0, "owned_by": "x"}
        return ok(json.dumps({"object": "list", "data": [model]}).encode(), JSON)
    asked = json.loads(seen.body)
    if asked["model"] != "echo":
        error = {"message": "no such model", "type": "t", "param": None, "code": "c"}
        return ok(json.dumps({"error": error}).encode(), JSON).replace(b"200 OK", b"404 No")
    events = b"".join(
        b"data: %b\n\n" % json.dumps({"id": "1", "choices": [_choice(word)]}).encode()
        for word in ("Hello", "world")
    )
    return ok(events + b"data: [DONE]\n\n", b"Content-Type: text/event-stream\r\n")


def _choice(word: str) -> dict[str, Any]:
    return {"index": 0, "delta": {"content": word}, "finish_reason": None}


@pytest.fixture
def openai() -> Any:
    """The package. Its import takes a second, and no other test needs it."""
    return programs.package("openai")


@pytest.fixture
async def client(world: World, openai: Any) -> AsyncIterator[Any]:
    headers = {"Knative-Serving-Namespace": NAMESPACE, "Knative-Serving-Revision": NAME}
    base = f"http://127.0.0.1:{world.port}/v1"
    made = openai.AsyncOpenAI(
        base_url=base, api_key="secret", default_headers=headers, max_retries=0
    )
    async with made:
        yield made


async def chat(client: Any, model: str = "echo") -> list[str]:
    """Return the words of a streamed completion."""
    stream = await client.chat.completions.create(model=model, messages=MESSAGES, stream=True)
    return [chunk.choices[0].delta.content or "" async for chunk in stream]


async def waiting(world: World, client: Any, model: str = "echo") -> Any:
    """Return a completion that has begun to get heartbeats."""
    world.revise(policies=POLICIES, timeout=20.0)
    completion = asyncio.ensure_future(chat(client, model))
    await until(lambda: world.waiting == 1)
    await world.clock_moves(100)
    assert world.counters().early_heads == 1
    return completion


async def start(world: World) -> None:
    pod = await world.pod()
    pod.answer = respond
    world.revise(pod, policies=POLICIES, timeout=20.0)
    await until(lambda: world.revision().statistics().healthy == 1)


async def test_a_stream_through_a_cold_start(world: World, client: Any) -> None:
    completion = await waiting(world, client)
    await start(world)
    assert await completion == ["Hello", "world"]


async def test_an_error_of_the_server_behind_heartbeats(
    world: World, client: Any, openai: Any
) -> None:
    completion = await waiting(world, client, "other")
    await start(world)
    with pytest.raises(openai.APIError, match="no such model") as error:
        await completion
    assert error.value.code == "c"


async def test_the_end_of_the_wait_behind_heartbeats(
    world: World, client: Any, openai: Any
) -> None:
    completion = await waiting(world, client)
    with pytest.raises(openai.APIError, match=r"lists no pod .*wait-seconds 600") as error:
        await completion
    assert error.value.code == "no-endpoints"
    assert world.now_since_start() == pytest.approx(600, abs=1)


async def test_an_error_status(world: World, client: Any, openai: Any) -> None:
    world.revise(policies=POLICIES)
    with pytest.raises(openai.InternalServerError, match="lists no pod") as error:
        await client.chat.completions.create(model="echo", messages=MESSAGES, timeout=3600)
    assert (error.value.status_code, error.value.code) == (504, "no-endpoints")
    assert error.value.type == "server_error"


async def test_models_of_a_server_that_sleeps(world: World, client: Any, openai: Any) -> None:
    world.revise(policies=POLICIES)
    with pytest.raises(openai.InternalServerError, match="no usable pod"):
        await client.models.list()
    await start(world)
    assert [each.id async for each in client.models.list()] == ["echo"]
    world.list()
    await until(lambda: not world.revision().backends.pods.values())
    assert [each.id async for each in client.models.list()] == ["echo"]
    assert world.waiting == 0

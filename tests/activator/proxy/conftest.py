"""Fixtures of the proxy's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from functools import lru_cache
from types import MemberDescriptorType
from typing import Any, cast

import pytest
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH

from activator.build import Build, running
from activator.proxy.client import http1 as client
from activator.proxy.exchange import sides as exchange_states
from activator.proxy.exchange.exchange import Exchange
from activator.proxy.pods.http1 import HTTP1_FOLLOWS, Http1PodConnection
from activator.telemetry.request_log import RequestLog
from activator.telemetry.tracing import RequestTracer
from tests.activator.proxy.http2.peers import Http2World
from tests.activator.proxy.observers import Records, Traces
from tests.activator.proxy.world import World


@pytest.fixture
async def new_world(anyio_backend: Any) -> AsyncIterator[Callable[..., Awaitable[World]]]:
    """Start proxies with the test's own settings; check and close each at the end."""
    worlds: list[World] = []

    async def start(**settings: Any) -> World:
        world = World()
        await world.start(**settings)
        worlds.append(world)
        return world

    yield start
    for world in worlds:
        await world.close()


@pytest.fixture
async def world(new_world: Callable[..., Awaitable[World]]) -> World:
    """A proxy with usual settings."""
    return await new_world()


@pytest.fixture
def traces(world: World) -> Traces:
    """Return the events that the proxy's traces got."""
    traces = Traces()
    world.proxy.services.tracer = cast(RequestTracer, traces)  # a trace of its own
    return traces


@pytest.fixture
def records(world: World) -> Records:
    """Return the records that the proxy's request log got."""
    records = Records()
    world.proxy.services.request_log = cast(RequestLog, records)
    return records


@pytest.fixture
def http2(world: World) -> Iterator[Http2World]:
    """A proxy between clients and pods that speak HTTP/2."""
    made = Http2World(world)
    yield made
    made.close()


@pytest.fixture(scope="session", autouse=True)
def each_string_is_coded_once() -> Iterator[None]:
    """The library needs 3 ms for 6,000 bytes, and the tests send large fields again and again."""
    coded = lru_cache(maxsize=1000)(HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH).encode)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HuffmanEncoder, "encode", lambda _, data: coded(data))
        yield


class _CheckedState:
    """An attribute ``state``; the table of states must have each of its changes."""

    def __init__(
        self,
        plain: MemberDescriptorType,
        follows: Mapping[Any, Collection[Any]],
        always: Any = None,
    ) -> None:
        self._plain = plain
        self._follows = follows
        self._always = always
        self.wrong: list[str] = []

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else self._plain.__get__(owner, kind)

    def __set__(self, owner: Any, state: Any) -> None:
        try:
            before = self._plain.__get__(owner)
        except AttributeError:
            before = state  # the first one
        else:
            if state is not self._always and state not in self._follows[before]:
                self.wrong.append(f"{type(owner).__name__} went from {before} to {state}")
                raise AssertionError(self.wrong[-1])
        self._plain.__set__(owner, state)


_EXCHANGE = _CheckedState(vars(Exchange)["state"], exchange_states.FOLLOWS)
_CLIENT = _CheckedState(
    vars(client.Http1ClientConnection)["state"],
    {before: {*after, before} for before, after in client.FOLLOWS.items()},
    client.CLOSED,
)
_POD = _CheckedState(vars(Http1PodConnection)["state"], HTTP1_FOLLOWS)


@pytest.fixture(autouse=True)
def each_change_of_state_is_in_its_table(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The byte path assigns states plainly: here each assignment is compared with the table.

    A compiled class is left alone: its attributes are no Python objects.
    """
    if running() is Build.PURE:
        monkeypatch.setattr(Exchange, "state", _EXCHANGE)
        monkeypatch.setattr(client.Http1ClientConnection, "state", _CLIENT)
        monkeypatch.setattr(Http1PodConnection, "state", _POD)
    _EXCHANGE.wrong.clear()
    _CLIENT.wrong.clear()
    _POD.wrong.clear()
    yield
    assert not _EXCHANGE.wrong
    assert not _CLIENT.wrong
    assert not _POD.wrong

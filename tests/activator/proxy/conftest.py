"""Fixtures of the proxy's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import lru_cache
from types import MemberDescriptorType
from typing import Any

import pytest
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH

from activator.proxy.exchange.exchange import Exchange
from activator.proxy.exchange.states import FOLLOWS, NEW, State
from tests.activator.proxy.http2.peers import Http2World
from tests.activator.proxy.observers import Records, Traces
from tests.activator.proxy.world import World


@pytest.fixture
async def new_world(anyio_backend: Any) -> AsyncIterator[Callable[..., Awaitable[World]]]:
    """Starts proxies with settings of the test's own; each is checked and closed in the end."""
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
    """What the proxy's traces are told."""
    traces = Traces()
    world.proxy.tracer = traces  # type: ignore[assignment] # a trace of its own
    return traces


@pytest.fixture
def records(world: World) -> Records:
    """What the proxy's request log is told."""
    world.proxy.request_log = records = Records()
    return records


@pytest.fixture
def http2(world: World) -> Iterator[Http2World]:
    """A proxy between clients and pods that speak HTTP/2."""
    made = Http2World(world)
    yield made
    made.close()


@pytest.fixture(scope="session", autouse=True)
def each_string_is_coded_once() -> Iterator[None]:
    """The library codes 6,000 bytes in 3 ms, and large fields are sent again and again."""
    coded = lru_cache(maxsize=1000)(HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH).encode)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HuffmanEncoder, "encode", lambda _, data: coded(data))
        yield


class _CheckedState:
    """The attribute ``Exchange.state``, each change of which has to be in the table."""

    def __init__(self, plain: MemberDescriptorType) -> None:
        self._plain = plain

    def __get__(self, exchange: Any, owner: type[Any]) -> Any:
        return self if exchange is None else self._plain.__get__(exchange, owner)

    def __set__(self, exchange: Any, state: State) -> None:
        try:
            before = self._plain.__get__(exchange)
        except AttributeError:
            assert state is NEW
        else:
            assert state in FOLLOWS[before], f"an exchange went from {before} to {state}"
        self._plain.__set__(exchange, state)


@pytest.fixture(scope="session", autouse=True)
def each_change_of_state_is_in_the_table() -> Iterator[None]:
    """An exchange assigns its state plainly: here each assignment is checked.

    A compiled exchange is left alone: its attributes are no Python objects.
    """
    plain = Exchange.__dict__["state"]
    if not isinstance(plain, MemberDescriptorType):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Exchange, "state", _CheckedState(plain))
        yield

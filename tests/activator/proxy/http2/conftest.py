"""Fixtures of the tests of HTTP/2."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import pytest
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH

from tests.activator.proxy.http2.peers import Http2World
from tests.activator.proxy.world import World


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

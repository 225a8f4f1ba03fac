"""The event loops that these tests run on: two real ones for sockets, one in virtual time."""

import asyncio
from typing import Any, cast

import pytest


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that does not wait for its timers: the clock jumps to the next one."""

    def __init__(self):
        super().__init__()
        self._now = 1000.0
        selector = cast(Any, self)._selector
        select = selector.select

        def jump(timeout=None):
            ready = select(0)
            if not ready and timeout:
                self._now += timeout
            return ready

        selector.select = jump

    def time(self):
        return self._now


@pytest.fixture
def virtual_time():
    """A backend to return from a module's own ``anyio_backend``; no sockets work on it."""
    return ("asyncio", {"loop_factory": VirtualLoop})


@pytest.fixture(
    params=[
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
    ]
)
def anyio_backend(request):
    return request.param

"""What all tests of connections to pods share: they hold each connection to its table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from activator.build import Build, running
from activator.proxy.pods.http1 import Http1Pod
from activator.proxy.pods.states import HTTP1_FOLLOWS, OPENING


@pytest.fixture(autouse=True)
def transitions() -> Iterator[None]:
    """Fail if a connection in HTTP/1 enters a state that its table does not allow.

    The byte path sets states without a check. Compiled classes cannot be watched.
    """
    if running() is Build.COMPILED:
        yield
        return
    wrong: list[tuple[Any, Any]] = []

    def watch(self: Http1Pod, name: str, value: Any) -> None:
        allowed = name != "state" or value is OPENING or value in HTTP1_FOLLOWS[self.state]
        if not allowed:
            wrong.append((self.state, value))
        object.__setattr__(self, name, value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Http1Pod, "__setattr__", watch, raising=False)
        yield
    assert wrong == []

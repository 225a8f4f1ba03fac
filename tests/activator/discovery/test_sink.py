from __future__ import annotations

import inspect

import pytest

from activator.discovery.source import Sink, SystemSink
from activator.driver import Driver
from activator.knative.system_objects import SystemObjects


@pytest.mark.parametrize(("sink", "taker"), [(Sink, Driver), (SystemSink, SystemObjects)])
def test_each_call_has_its_taker(sink: type, taker: type) -> None:
    calls = [name for name in vars(sink) if name.startswith(("set_", "delete_"))]
    assert calls
    for name in calls:
        expected = inspect.signature(getattr(sink, name)).parameters
        assert len(inspect.signature(getattr(taker, name)).parameters) == len(expected)

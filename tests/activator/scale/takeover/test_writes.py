"""The request that gives a slice its wanted state."""

from __future__ import annotations

from typing import Any

import pytest

from activator.objects.fields import root
from activator.plain.service import parse as parse_service
from activator.scale.reports.load import Name
from activator.scale.takeover.slices import Activator, Family, Stored, slice_object, stored
from activator.scale.takeover.writes import Leave, key_of, write_of
from tests.activator.plain.objects import service

KEY = key_of(Name("shop", "hello"), Family.IPV4)


def wanted(*activators: Activator) -> Any:
    found = parse_service(service({"route": "takeover"}))
    assert found is not None
    return slice_object(found, Family.IPV4, 10_007, activators)


def seen(obj: Any) -> Stored:
    metadata = obj["metadata"] | {"uid": "u1", "resourceVersion": "7"}
    return stored(root(obj | {"metadata": metadata}, "EndpointSlice").value)


EMPTY, FULL = wanted(), wanted(Activator("10.1.0.1", "node-1"))


@pytest.mark.parametrize(
    ("present", "target", "method"),
    [
        (None, FULL, "POST"),
        (EMPTY, FULL, "PATCH"),
        (FULL, FULL, None),
        (FULL, Leave.ABSENT, "DELETE"),
        (None, Leave.ABSENT, None),
        (FULL, Leave.AS_IS, None),
        (None, Leave.AS_IS, None),
    ],
)
def test_a_slice_is_written_if_it_differs(present: Any, target: Any, method: str | None) -> None:
    write = write_of(KEY, present and seen(present), target)
    assert (write and write.request.method) == method
    if write is not None:
        assert write.key == KEY == ("shop", "hello-activator")
        assert (write.content is None) is (method == "DELETE")

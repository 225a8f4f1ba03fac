"""The nodes of ready pods, from EndpointSlices that come in any order and form."""

from __future__ import annotations

from typing import Any

import pytest

from activator.objects.fields import ObjectKey
from activator.scale.reports.load import Name
from activator.scale.takeover.pod_nodes import PodNodes
from tests.activator.plain.objects import endpoint, slice_of

HELLO = Name("shop", "hello")


def key(number: int) -> ObjectKey:
    return ObjectKey("EndpointSlice", "shop", f"hello-{number}")


def pods(*nodes: str, **conditions: bool) -> Any:
    found = slice_of(*({**endpoint("10.0.0.1"), "nodeName": node} for node in nodes))
    for each in found["endpoints"]:
        each["conditions"] = {"ready": True, "serving": True, "terminating": False} | conditions
    return found


def test_nodes_of_all_slices_count_until_their_pods_are_gone() -> None:
    nodes = PodNodes()
    nodes.put(key(1), pods("a", "b", "a"))
    nodes.put(key(2), pods("c"))
    assert nodes.of(HELLO) == {"a", "b", "c"}
    nodes.put(key(1), pods("b"))
    nodes.remove(key(2))
    nodes.remove(key(3))
    assert nodes.of(HELLO) == {"b"}
    nodes.remove(key(1))
    assert nodes.of(HELLO) == set()


def test_pods_that_take_no_connections_do_not_count() -> None:
    nodes = PodNodes()
    nodes.put(key(1), pods("a", ready=False))
    nodes.put(key(2), pods("b", terminating=True))
    assert nodes.of(HELLO) == set()
    without = pods("c")
    del without["endpoints"][0]["conditions"]  # nil means ready
    nodes.put(key(1), without)
    assert nodes.of(HELLO) == {"c"}


@pytest.mark.parametrize("obj", [None, {}, {"metadata": None}, {**pods("a"), "endpoints": [3]}])
def test_a_malformed_slice_has_no_nodes(obj: Any) -> None:
    nodes = PodNodes()
    nodes.put(key(1), pods("a"))
    nodes.put(key(1), obj)
    assert nodes.of(HELLO) == set()

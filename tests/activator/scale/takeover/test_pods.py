"""What Kubernetes lists of each Service: the nodes of ready pods, and the activators."""

from __future__ import annotations

from typing import Any

import pytest

from activator.objects.fields import ManifestError, ObjectKey
from activator.scale.takeover.pods import Pods, usable
from activator.scale.takeover.slices import ActivatorAddress, SliceFamily
from tests.activator.plain.objects import endpoint, named, slice_of

HELLO, OTHER = (ObjectKey("Service", "shop", name) for name in ("hello", "other"))

READY = {"ready": True, "serving": True, "terminating": False}
NOT_READY = {"ready": False, "serving": False, "terminating": False}
DRAINING = {"ready": False, "serving": True, "terminating": True}
ENDING = {"ready": False, "serving": False, "terminating": True}


def key(name: object) -> ObjectKey:
    return ObjectKey("EndpointSlice", "shop", f"hello-{name}")


def on_nodes(*nodes: str, **conditions: Any) -> Any:
    return slice_of(*({**endpoint(**conditions), "nodeName": node} for node in nodes))


def test_nodes_of_all_slices_count_until_their_pods_are_gone() -> None:
    pods = Pods()
    assert set(pods.put(key(1), on_nodes("a", "b", "a"))) == {HELLO}
    pods.put(key(2), on_nodes("c"))
    assert pods.nodes(HELLO) == {"a", "b", "c"}
    pods.put(key(1), on_nodes("b"))
    assert set(pods.remove(key(2))) == {HELLO}
    assert set(pods.remove(key(3))) == set()
    assert pods.nodes(HELLO) == {"b"}
    pods.remove(key(1))
    assert pods.nodes(HELLO) == set()


def test_pods_that_take_no_connections_do_not_count() -> None:
    pods = Pods()
    pods.put(key(1), on_nodes("a", ready=False))
    pods.put(key(2), on_nodes("b", terminating=True))
    assert pods.nodes(HELLO) == set()
    without = on_nodes("c", "")
    del without["endpoints"][0]["conditions"]  # nil means ready
    pods.put(key(1), without)
    assert pods.nodes(HELLO) == {"c"}


def test_a_slice_may_move_to_another_service_or_to_none() -> None:
    pods = Pods()
    pods.put(key(1), on_nodes("a"))
    assert set(pods.put(key(1), slice_of(endpoint(), of="other"))) == {HELLO, OTHER}
    assert not pods.of(HELLO)
    without = named(on_nodes("a"), "hello-1", labels={})
    assert set(pods.put(key(1), without)) == {OTHER}
    assert not pods.of(OTHER)


@pytest.mark.parametrize("obj", [{"metadata": 5}, {"metadata": {"labels": [5]}}])
def test_a_broken_slice_is_an_error_and_changes_nothing(obj: Any) -> None:
    pods = Pods()
    pods.put(key(1), on_nodes("a"))
    with pytest.raises(ManifestError):
        pods.put(key(1), obj)
    assert pods.nodes(HELLO) == {"a"}


# -- the activators -------------------------------------------------------------------------------


def one(ip: str, conditions: Any = READY, node: str | None = "node-1") -> Any:
    return {"addresses": [ip], "conditions": conditions, "nodeName": node}


def listed(*slices: Any) -> Any:
    pods = Pods()
    for number, obj in enumerate(slices):
        pods.put(key(number), obj)
    return usable(pods.of(HELLO))


def test_the_ready_activators_of_each_family() -> None:
    found = listed(
        slice_of(one("10.1.0.2", node=None), one("10.1.0.1"), one("10.1.0.1")),
        slice_of(one("10.1.0.3", None)),
        slice_of(one("fd00::1"), addressType="IPv6"),
        slice_of(one("10.1.0.9", NOT_READY), one("10.1.0.8", ENDING)),
        slice_of({**one("a.example"), "addresses": ["a.example"]}, addressType="FQDN"),
        slice_of() | {"endpoints": None},
        slice_of(one("10.1.0.7"), of="other"),
    )
    assert found == {
        SliceFamily.IPV4: (
            ActivatorAddress("10.1.0.1", "node-1"),
            ActivatorAddress("10.1.0.2", ""),
            ActivatorAddress("10.1.0.3", "node-1"),
        ),
        SliceFamily.IPV6: (ActivatorAddress("fd00::1", "node-1"),),
    }


def test_a_terminating_activator_counts_only_while_none_is_ready() -> None:
    draining = one("10.1.0.1", DRAINING)
    published = one("10.1.0.1", {**DRAINING, "ready": True})
    for ends in (draining, published):
        assert listed(slice_of(ends))[SliceFamily.IPV4] == (ActivatorAddress("10.1.0.1", "node-1"),)
        both = listed(slice_of(ends, one("10.1.0.2")))
        assert both[SliceFamily.IPV4] == (ActivatorAddress("10.1.0.2", "node-1"),)


def test_a_slice_of_the_scaler_lists_no_activator() -> None:
    obj = slice_of(one("10.1.0.1"))
    obj["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = "activator.dev"
    assert listed(obj) == {}

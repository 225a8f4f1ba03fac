"""The addresses of the activators, from the slices of their Service."""

from __future__ import annotations

from typing import Any

import pytest

from activator.objects.fields import ManifestError
from activator.scale.takeover.activators import Activators
from activator.scale.takeover.slices import Activator, Family

READY = {"ready": True, "serving": True, "terminating": False}
NOT_READY = {"ready": False, "serving": False, "terminating": False}
DRAINING = {"ready": False, "serving": True, "terminating": True}
ENDING = {"ready": False, "serving": False, "terminating": True}


def slice_(*endpoints: Any, name: str = "activator-x7k2p", **fields: Any) -> Any:
    metadata = {
        "name": name,
        "namespace": "activator",
        "labels": {"kubernetes.io/service-name": "activator"},
    }
    return {"metadata": metadata, "addressType": "IPv4", "endpoints": list(endpoints), **fields}


def endpoint(ip: str, conditions: Any = READY, node: str | None = "node-1") -> Any:
    return {"addresses": [ip], "conditions": conditions, "nodeName": node}


def listed(*objects: Any) -> Any:
    activators = Activators("activator", "activator")
    for obj in objects:
        activators.observe(obj)
    return activators.by_family


def test_the_ready_activators_of_each_family() -> None:
    found = listed(
        slice_(endpoint("10.1.0.2", node=None), endpoint("10.1.0.1"), endpoint("10.1.0.1")),
        slice_(endpoint("10.1.0.3", None), name="b"),
        slice_(endpoint("fd00::1"), name="c", addressType="IPv6"),
        slice_(endpoint("10.1.0.9", NOT_READY), endpoint("10.1.0.8", ENDING), name="d"),
        slice_({**endpoint("a.example"), "addresses": ["a.example"]}, name="e", addressType="FQDN"),
        slice_(name="f", endpoints=None),
    )
    assert found == {
        Family.IPV4: (
            Activator("10.1.0.1", "node-1"),
            Activator("10.1.0.2", ""),
            Activator("10.1.0.3", "node-1"),
        ),
        Family.IPV6: (Activator("fd00::1", "node-1"),),
    }


def test_a_terminating_activator_counts_only_while_none_is_ready() -> None:
    draining = endpoint("10.1.0.1", DRAINING)
    published = endpoint("10.1.0.1", {**DRAINING, "ready": True})
    for ends in (draining, published):
        assert listed(slice_(ends))[Family.IPV4] == (Activator("10.1.0.1", "node-1"),)
        both = listed(slice_(ends, endpoint("10.1.0.2")))
        assert both[Family.IPV4] == (Activator("10.1.0.2", "node-1"),)


def test_only_a_change_of_the_activators_is_one() -> None:
    activators = Activators("activator", "activator")
    assert activators.observe(slice_(endpoint("10.1.0.1")))
    assert not activators.observe(slice_(endpoint("10.1.0.1")))
    assert not activators.observe(slice_(endpoint("10.1.0.1"), name="b"))
    assert not activators.deleted(slice_(name="b"))
    assert not activators.deleted(slice_(name="unknown"))
    assert not activators.deleted({"metadata": 5})
    assert activators.deleted(slice_())
    assert activators.by_family == {}


@pytest.mark.parametrize(
    "change",
    [
        {"namespace": "other"},
        {"labels": {"kubernetes.io/service-name": "other"}},
        {"labels": None},
        {
            "labels": {
                "kubernetes.io/service-name": "activator",
                "endpointslice.kubernetes.io/managed-by": "activator.dev",
            }
        },
    ],
)
def test_other_slices_are_ignored(change: Any) -> None:
    obj = slice_(endpoint("10.1.0.1"))
    obj["metadata"] |= change
    assert listed(obj) == {}


def test_a_broken_slice_changes_nothing() -> None:
    activators = Activators("activator", "activator")
    activators.observe(slice_(endpoint("10.1.0.1")))
    with pytest.raises(ManifestError):
        activators.observe(slice_(endpoint("not an address")))
    assert activators.by_family == {Family.IPV4: (Activator("10.1.0.1", "node-1"),)}

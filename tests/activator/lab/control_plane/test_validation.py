from __future__ import annotations

import pytest

from activator.lab.control_plane.validation import Rules, wrong_address
from tests.activator.lab.control_plane.world import (
    APPS,
    EVENTS,
    LEASES,
    SERVICES,
    SLICES,
    deployment,
    event,
    lease,
    service,
    slice_,
)
from tests.rows import naming


@pytest.mark.parametrize(
    ("address", "kind", "why"),
    [
        ("127.0.0.1", "IPv4", "loopback"),
        ("::1", "IPv6", "loopback"),
        ("169.254.1.1", "IPv4", "link-local"),
        ("fe80::1", "IPv6", "link-local"),
        ("0.0.0.0", "IPv4", "unspecified"),
        ("224.0.0.1", "IPv4", "multicast"),
        ("10.0.0.1", "IPv6", "valid IPv6"),
        ("web", "IPv4", "valid IP address"),
    ],
)
async def test_slice_refuses_addresses(world, address, kind, why):
    status, message = await world.refused("POST", SLICES, slice_("a", address, kind=kind))
    assert status == 422
    assert f'endpoints[0].addresses[0]: Invalid value: "{address}"' in message
    assert why in message


def test_lab_may_list_its_loopback_addresses():
    assert wrong_address("127.0.0.11", "IPv4", Rules(allows_loopback=True)) == ""
    assert wrong_address("169.254.1.1", "IPv4", Rules(allows_loopback=True)) != ""


async def test_slice_has_at_most_a_thousand_endpoints(world):
    many = [f"10.1.{n // 250}.{n % 250 + 1}" for n in range(1001)]
    assert await world.refused("POST", SLICES, slice_("a", *many)) == (
        422,
        'EndpointSlice.discovery.k8s.io "a" is invalid: endpoints: Too many: 1001: must have at '
        "most 1000 items",
    )
    await world.send("POST", SLICES, slice_("a", *many[:1000]))


async def test_type_of_a_slice_is_immutable(world):
    await world.send("POST", SLICES, slice_("a"))
    status, message = await world.refused("PATCH", f"{SLICES}/a", {"addressType": "IPv6"})
    assert (status, "addressType" in message, "immutable" in message) == (422, True, True)


async def test_empty_lists_of_a_slice_read_back_as_null(world):
    await world.send("POST", SLICES, {**slice_("a"), "ports": []})
    found = await world.send("GET", f"{SLICES}/a")
    assert (found["endpoints"], found["ports"]) == (None, None)


async def test_slice_accepts_what_kubernetes_does_not_check(world):
    ports = [{"name": "no-such-port", "port": 0}, {"name": "b", "port": 70_000}]
    await world.send("POST", SLICES, {**slice_("a", "10.0.0.1", "10.0.0.1"), "ports": ports})


async def test_lease_is_checked(world):
    short = "2026-03-01T12:00:00Z"
    for wrong, status in (
        ({"leaseDurationSeconds": 0}, 422),
        ({"leaseTransitions": -1}, 422),
        ({"renewTime": short}, 400),
        ({"acquireTime": "2026-03-01T12:00:00.000Z"}, 400),
    ):
        with naming(wrong):
            assert (await world.refused("POST", LEASES, lease(**wrong)))[0] == status
    await world.send("POST", LEASES, lease())
    patch = {"spec": {"renewTime": short}}
    assert (await world.refused("PATCH", f"{LEASES}/leader", patch))[0] == 422


async def test_event_is_checked(world):
    for wrong in (
        {"reportingController": ""},
        {"reportingInstance": ""},
        {"reportingInstance": "a" * 129},
        {"action": ""},
        {"reason": ""},
        {"type": "Error"},
        {"eventTime": None},
        {"note": "é" * 513},
        {"regarding": {"kind": "Service", "name": "web", "namespace": "other"}},
    ):
        with naming(wrong):
            assert (await world.refused("POST", EVENTS, event(**wrong)))[0] == 422
    assert (await world.refused("POST", EVENTS, event(eventTime="2026-03-01T12:00:00Z")))[0] == 400
    await world.send("POST", EVENTS, event(note="é" * 512))


async def test_fields_of_an_event_are_immutable_apart_from_its_series(world):
    await world.send("POST", EVENTS, event())
    assert (await world.refused("PATCH", f"{EVENTS}/web.1a", {"reason": "other"}))[0] == 422
    series = {"series": {"count": 2, "lastObservedTime": "2026-03-01T12:00:01.000000Z"}}
    assert (await world.send("PATCH", f"{EVENTS}/web.1a", series))["series"]["count"] == 2


async def test_service_and_workload_are_checked(world):
    unnamed = [{"port": 80}, {"port": 81}]
    for wrong in ([], [{"port": 0}], unnamed):
        with naming(wrong):
            found = {**service(), "spec": {"ports": wrong}}
            assert (await world.refused("POST", SERVICES, found))[0] == 422
    other = deployment(selector={"matchLabels": {"app": "other"}})
    for found in (other, deployment(replicas=-1), deployment(selector={})):
        with naming(found):
            assert (await world.refused("POST", APPS, found))[0] == 422
    await world.send("POST", APPS, deployment())
    labels = {"matchLabels": {"app": "x"}}
    changed = {"selector": labels, "template": {"metadata": {"labels": {"app": "x"}}}}
    assert (await world.refused("PATCH", f"{APPS}/w", {"spec": changed}))[0] == 422


async def test_wrong_types_are_refused_before_the_rules(world):
    found = deployment()
    found["spec"]["replicas"] = "1"
    assert (await world.refused("POST", APPS, found))[0] == 400
    assert (await world.refused("POST", APPS, "text"))[0] == 400


async def test_wrong_names_and_annotations_are_refused(world):
    assert (await world.refused("POST", SERVICES, service("Web_1")))[0] == 422
    assert (await world.refused("POST", SERVICES, service("")))[0] == 422
    assert (await world.refused("POST", SERVICES, service(annotations={"a": True})))[0] == 422

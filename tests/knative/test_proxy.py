"""pkg/http/proxy_test.go: which header fields the activator removes, and which it adds."""

from __future__ import annotations

import pytest

from tests.knative.objects import config_map, private, revision
from tests.knative.peers import to
from tests.knative.pods import ScriptedPod
from tests.knative.world import World


async def served(world: World) -> ScriptedPod:
    (pod,) = await world.serving(1)
    world.apply(revision(), private([pod.at]))
    await world.passes()
    return pod


@pytest.mark.parametrize("spelled", ["lower", "title", "upper"])
async def test_TestNewHeaderPruningProxy__pruned(world: World, spelled: str) -> None:
    """The activator removes control fields in any spelling, and leaves others unchanged."""
    pod = await served(world)
    name, namespace = b"Knative-Serving-Revision", b"Knative-Serving-Namespace"
    data = to(fields=b"X-Header-To-Keep: 1\r\nK-Network-Hash: h\r\n")
    for field in (name, namespace, b"K-Network-Hash"):
        data = data.replace(field, getattr(field, spelled)())
    assert (await world.ask(data)).status == 200
    (seen,) = pod.traffic
    assert [seen.all(field) for field in (name, namespace, b"k-network-hash")] == [[], [], []]
    assert seen.all(b"x-header-to-keep") == [b"1"]


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        pytest.param(b"", [], id="none is made up"),
        pytest.param(b"User-Agent: gold\r\n", [b"gold"], id="explicit"),
        pytest.param(b"User-Agent:\r\n", [b""], id="empty"),
    ],
)
async def test_TestNewHeaderPruningProxy__user_agent(
    world: World, sent: bytes, seen: list[bytes]
) -> None:
    """The activator never adds a user agent, and never changes one."""
    pod = await served(world)
    await world.ask(to(fields=sent))
    assert pod.traffic[0].all(b"user-agent") == seen


async def test_TestNewHeaderPruningProxy__host_override(world: World) -> None:
    """In passthrough mode the private Service is the host.

    The activator adds its own K-Passthrough-Lb to the client's.
    """
    world.apply(config_map("config-network", {"enable-mesh-pod-addressability": "true"}))
    pod = await served(world)
    await world.ask(to(fields=b"K-Passthrough-Lb: mine\r\n"))
    assert pod.traffic[0].all(b"host") == [b"real-name-private.real-namespace"]
    assert sorted(pod.traffic[0].all(b"k-passthrough-lb")) == [b"mine", b"true"]

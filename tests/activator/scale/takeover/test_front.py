"""Route ``front``: what its slices list, and the slices that Kubernetes leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from activator.discovery.api_server import ApiResponse
from activator.objects.fields import ObjectKey
from activator.plain.service import Fronts, parse_pods_service
from activator.plain.service import parse as parse_service
from activator.scale.reasons import ScaleReason
from activator.scale.reports.load import ServiceName
from activator.scale.takeover.pods import Pods
from activator.scale.takeover.slices import FIRST_RETRY, ActivatorAddress, SliceFamily
from activator.scale.takeover.takeovers import Takeovers
from tests.activator.plain.objects import endpoint, front, named, service, slice_of
from tests.activator.scale.fake_api import status
from tests.activator.scale.takeover.slice_api import SliceApi, deliver
from tests.activator.scale.world import Cluster, cluster, elapse, leader, until
from tests.rows import in_one_test

A = ActivatorAddress("10.1.0.1", "node-1")
HELLO = ServiceName("shop", "hello")
SLICES = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
PORT = {"name": "", "port": 8080, "protocol": "TCP"}
OTHER_PORT = {"name": "metrics", "port": 9090, "protocol": "TCP"}


class World:
    """The slices of one front, and the API server that the scaler writes to."""

    def __init__(self) -> None:
        self.api = SliceApi()
        self.pods = Pods()
        self.takeovers = Takeovers(pods=self.pods)
        self.now = 100.0
        self.takeovers.set_activators({SliceFamily.IPV4: (A,)})
        self.takeovers.start()

    def put(self, *, takes_over: bool = False, **spec: Any) -> None:
        found = parse_service(front(**spec))
        assert found is not None
        fronts = Fronts()
        fronts.select(found.pods, parse_pods_service(named(service(), "hello-pods")))
        self.takeovers.put(fronts.resolve(found), self.now, takes_over=takes_over)

    def kube(self, obj: Any) -> None:
        """Let Kubernetes write a slice."""
        self.api.put(obj)
        self.watch()

    def watch(self) -> None:
        while self.api.events:
            event, obj = self.api.events.popleft()
            key = ObjectKey("EndpointSlice", "shop", obj["metadata"]["name"])
            gone = event == "DELETED"
            if self.pods.remove(key) if gone else self.pods.put(key, obj):
                self.takeovers.touch(HELLO, self.now)
            deliver(self.takeovers, event, obj, self.now)

    def settle(self) -> list[str]:
        """Carry out all writes that are due; return method and object of each."""
        done = []
        while self.takeovers.next() <= self.now:
            if (write := self.takeovers.due(self.now)) is None:
                continue
            method, path = write.request[:2]
            done.append(f"{method} {'/'.join(path.split('/')[-2:])}")
            if "endpointslices" in path:
                response = self.api.handle(*write.request)
            else:  # the mirroring controller removes the copy
                self.api.delete("shop", "mirror")
                response = ApiResponse(200, b"{}")
            self.takeovers.done(write, response, self.now)
            self.watch()
        return done

    @property
    def listed(self) -> list[tuple[str, int]]:
        slice_ = self.api.slices["shop", "hello-activator"]
        ports = slice_["ports"]
        return [(each["addresses"][0], ports[0]["port"]) for each in slice_["endpoints"] or ()]

    def reasons(self) -> list[str]:
        return [each.reason.value for each in self.takeovers.findings(HELLO)]


def pods(*endpoints: Any, name: str = "hello-pods-1", **fields: Any) -> Any:
    return slice_of(*endpoints, of="hello-pods", name=name, **fields)


ACTIVATORS = [("10.1.0.1", 10_000)]


@in_one_test(
    ("takes_over", "slices", "listed"),
    [
        (True, [pods(endpoint())], ACTIVATORS),
        (False, [pods(endpoint())], [("10.0.0.1", 8080)]),
        (False, [], ACTIVATORS),
        (False, [pods()], ACTIVATORS),
        (False, [pods(endpoint(ready=False, serving=False))], ACTIVATORS),
        (False, [pods(endpoint(terminating=True))], ACTIVATORS),
        (False, [pods(endpoint(), ports=[OTHER_PORT])], ACTIVATORS),
        (False, [pods(endpoint("fd00::1"), addressType="IPv6")], ACTIVATORS),
        (
            False,
            [pods(endpoint()), pods(endpoint("10.0.0.2", ready=False), name="hello-pods-2")],
            [("10.0.0.1", 8080), ("10.0.0.2", 8080)],
        ),
        # One slice has one number for each port.
        (
            False,
            [
                pods(endpoint()),
                pods(endpoint("10.0.0.2"), name="hello-pods-2", ports=[{**PORT, "port": 8081}]),
            ],
            ACTIVATORS,
        ),
        (False, [pods(*(endpoint(f"10.0.{n // 250}.{n % 250}") for n in range(1001)))], ACTIVATORS),
    ],
)
def test_a_front_lists_activators_or_pods_and_never_both(
    takes_over: bool, slices: Any, listed: Any
) -> None:
    world = World()
    world.put(takes_over=takes_over)
    for each in slices:
        world.kube(each)
    world.settle()
    assert world.listed == listed


def test_pods_are_copied_with_all_their_fields_and_ports() -> None:
    world = World()
    world.put()
    zoned = endpoint() | {"nodeName": "n", "zone": "z", "hints": {"forZones": [{"name": "z"}]}}
    leaving = endpoint("10.0.0.2", ready=False, terminating=True)
    world.kube(pods(zoned, leaving, ports=[PORT, OTHER_PORT]))
    world.settle()
    slice_ = world.api.slices["shop", "hello-activator"]
    assert slice_["endpoints"] == [zoned, leaving]
    assert slice_["ports"] == [PORT, OTHER_PORT]
    assert slice_["metadata"]["annotations"] == {"activator.dev/port": "10000"}
    assert world.settle() == []
    world.kube(pods(zoned | {"zone": "y"}, ports=[PORT]))
    assert world.settle() == ["PATCH endpointslices/hello-activator"]
    assert world.takeovers.in_place_since(HELLO, world.now) is None


def test_the_slice_follows_the_activators_also_while_one_slice_cannot_list_the_pods() -> None:
    world = World()
    world.put()
    world.settle()
    world.takeovers.set_activators({SliceFamily.IPV4: (ActivatorAddress("10.1.0.2", ""),)})
    world.settle()
    assert world.listed == [("10.1.0.2", 10_000)]
    world.takeovers.remove(HELLO, world.now)
    assert world.settle() == ["DELETE endpointslices/hello-activator"]


def stale(name: str, manager: str) -> Any:
    obj = slice_of(endpoint("10.0.0.9"), name=name)
    return named(obj, name, labels=obj["metadata"]["labels"] | {MANAGED_BY: manager})


def test_slices_of_kubernetes_are_deleted_when_proxies_have_the_one_of_the_scaler() -> None:
    world = World()
    world.kube(stale("old", "endpointslice-controller.k8s.io"))
    world.kube(stale("mirror", "endpointslicemirroring-controller.k8s.io"))
    world.kube(stale("own", "example.com"))
    world.kube(pods(endpoint()))
    world.put(selector={"app": "hello"})
    assert world.settle() == ["POST shop/endpointslices"]
    world.now += 60
    assert world.settle() == []
    assert world.reasons() == ["front-has-selector"]
    world.put()
    assert world.reasons() == ["stale-slices"]
    assert sorted(world.settle()) == ["DELETE endpoints/hello", "DELETE endpointslices/old"]
    assert world.reasons() == []
    assert [name for _, name in world.api.slices] == ["own", "hello-pods-1", "hello-activator"]
    world.now += 60
    assert world.settle() == []
    assert world.takeovers.next() == float("inf")


def test_slices_of_kubernetes_stay_until_the_one_of_the_scaler_has_endpoints() -> None:
    world = World()
    world.takeovers.set_activators({})
    world.kube(stale("old", "endpointslice-controller.k8s.io"))
    world.put(takes_over=True)
    assert world.settle() == ["POST shop/endpointslices"]
    assert "stale-slices" in world.reasons()
    world.takeovers.set_activators({SliceFamily.IPV4: (A,)})
    assert world.settle() == [
        "PATCH endpointslices/hello-activator",
        "DELETE endpointslices/old",
    ]
    assert world.reasons() == []


def test_a_slice_that_cannot_be_deleted_is_tried_again_and_named_with_the_rule() -> None:
    world = World()
    world.kube(pods(endpoint()))
    world.kube(stale("mirror", "endpointslicemirroring-controller.k8s.io"))
    world.put()
    created = world.takeovers.due(world.now)
    assert created is not None
    world.takeovers.done(created, world.api.handle(*created.request), world.now)
    write = world.takeovers.due(world.now)
    assert write is not None
    message = 'endpoints "hello" is forbidden: User "x" cannot delete resource "endpoints"'
    world.takeovers.done(write, status(403, message), world.now)
    first, second = world.takeovers.findings(HELLO)
    assert first.reason is ScaleReason.STALE_SLICES
    assert second.note.endswith(
        'must have {apiGroups: [""], resources: ["endpoints"], verbs: ["delete"]}'
    )
    assert world.settle() == []
    world.now += FIRST_RETRY
    assert world.settle() == ["DELETE endpoints/hello"]
    # It comes back as long as the Endpoints object is there.
    world.kube(stale("mirror", "endpointslicemirroring-controller.k8s.io"))
    assert world.settle() == []
    world.now += 4 * FIRST_RETRY
    assert world.settle() == ["DELETE endpoints/hello"]


# -- the whole program ----------------------------------------------------------------------------


async def add_front(kube: Cluster, replicas: int = 0, /, **annotations: Any) -> None:
    """Create a Deployment, a pods-service and a front."""
    await kube.list_activators("10.1.0.1")
    await kube.add("hello", replicas, route="front", pods_service="hello-pods", **annotations)
    path = "/api/v1/namespaces/shop/services"
    made = await kube.send("GET", f"{path}/hello")
    pods_service = {"metadata": {"name": "hello-pods", "namespace": "shop"}, "spec": made["spec"]}
    await kube.send("POST", path, pods_service)
    await kube.send("PATCH", f"{path}/hello", {"spec": {"selector": None}})


async def addresses(kube: Cluster) -> list[str]:
    """Return the endpoints of the front."""
    found = (await kube.send("GET", SLICES))["items"]
    mine = [each for each in found if each["metadata"]["name"] == "hello-activator"]
    return [each["addresses"][0] for slice_ in mine for each in slice_["endpoints"] or ()]


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("more", "awake"), [({}, "10.0.0.1"), ({"container_concurrency": "1"}, "10.1.0.1")]
)
async def test_a_front_leads_to_pods_while_they_are_ready_unless_a_limit_needs_activators(
    tmp_path: Path, more: dict[str, str], awake: str
) -> None:
    async with cluster(tmp_path) as kube:
        await add_front(kube, idle_seconds="10", **more)
        async with leader(kube) as running, running.activator() as activator:
            await elapse(2)
            assert await addresses(kube) == ["10.1.0.1"]
            await activator.report(1)
            await until(lambda: kube.replicas() == 1, "a replica", within=2)
            await kube.set_ready("hello-pods", 1)
            await elapse(5)
            assert await addresses(kube) == [awake]
            view = await running.service()
            assert (view["target"], view["replicas"]["ready"]) == ("Deployment/hello", 1)
            assert view["takesOver"] is bool(more)
            assert (view["reason"], view["findings"]) == (None, [])
            await until(lambda: kube.replicas() == 0, "no replica")
            assert await addresses(kube) == ["10.1.0.1"]


async def test_a_wrong_pods_service_is_told_by_api_and_event_until_it_is_right(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as kube:
        await add_front(kube)
        path = "/api/v1/namespaces/shop/services/hello-pods"
        right = await kube.send("GET", path)
        await kube.send("PATCH", path, {"spec": {"selector": None}})
        async with leader(kube) as running:
            await elapse(2)
            view = await running.service()
            text = (
                "activator.dev/pods-service names hello-pods, which has no selector: name a "
                "Service whose selector finds the pods"
            )
            assert (view["reason"], view["detail"]) == ("wrong-pods-service", text)
            events = await kube.send("GET", "/apis/events.k8s.io/v1/namespaces/shop/events")
            assert [(each["reason"], each["note"]) for each in events["items"]] == [
                ("wrong-pods-service", text)
            ]
            assert await addresses(kube) == []
            await kube.send("PATCH", path, {"spec": {"selector": right["spec"]["selector"]}})
            await elapse(2)
            assert (await running.service())["reason"] is None
            assert await addresses(kube) == ["10.1.0.1"]

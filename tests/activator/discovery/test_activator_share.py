"""Which share of a revision an activator has, by Endpoints and EndpointSlices of its Service."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from activator.discovery.dialect import Scope
from activator.discovery.endpoints import EndpointsSource, IpFamily
from activator.discovery.inventory import Inventory
from activator.discovery.rejections import Rejection
from tests.activator.discovery.recording import (
    A,
    RecordingSink,
    private,
    public,
    replace,
    slice_of,
    truncated,
)
from throttler.capacity import ActivatorShare, infer_share
from throttler.model import AppProtocol

AUTO, ENDPOINTS, SLICES = EndpointsSource.AUTO, EndpointsSource.ENDPOINTS, EndpointsSource.SLICES
OURS, OTHERS = "10.1.0.2", ("10.1.0.1", "10.1.0.3")
MIRROR = "endpointslicemirroring-controller.k8s.io"


def public_slice(
    *ips: str, name: str = "a-1", managed_by: str = "controller.knative.dev", **more: Any
) -> dict[str, Any]:
    """Return a slice of the public Service; by default Knative wrote it."""
    obj = slice_of(*ips, name=name, service_type="Public", **more)
    labels = obj["metadata"]["labels"]
    labels["kubernetes.io/service-name"] = "a"
    labels["endpointslice.kubernetes.io/managed-by"] = managed_by
    return obj


def mirrored(*ips: str, name: str = "a-mirror", **more: Any) -> dict[str, Any]:
    """Return a slice that Kubernetes keeps equal to Endpoints without a selector."""
    return public_slice(*ips, name=name, managed_by=MIRROR, **more)


class Cluster:
    """One activator, and the share that it infers from the objects."""

    def __init__(
        self,
        source: EndpointsSource = AUTO,
        own_ip: str = OURS,
        protocol: AppProtocol = AppProtocol.HTTP1,
    ) -> None:
        self.sink = RecordingSink()
        self.rejections: list[Rejection] = []
        family = IpFamily.IPV6 if ":" in own_ip else IpFamily.IPV4
        self.inventory = Inventory(
            self.sink,
            self.sink,
            self.rejections.append,
            scope=Scope(endpoints=source, family=family),
        )
        self._own_ip, self._protocol = own_ip, protocol

    def apply(self, *objects: dict[str, Any]) -> None:
        for obj in objects:
            self.inventory.apply(obj)

    def delete(self, *objects: dict[str, Any]) -> None:
        for obj in objects:
            self.inventory.remove(obj["kind"], "default", obj["metadata"]["name"])

    @property
    def share(self) -> ActivatorShare | None:
        """None where the Service does not list this activator: the last known share stays."""
        addresses = self.sink.activators.get(A, {}).get(self._protocol, frozenset())
        return infer_share(self._own_ip, addresses)


SECOND_OF_THREE, FIRST_OF_TWO = ActivatorShare(1, 3), ActivatorShare(0, 2)


@pytest.mark.parametrize("source", [AUTO, SLICES])
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_all_slices_of_the_service_count_in_any_order(
    order: tuple[int, ...], source: EndpointsSource
) -> None:
    cluster = Cluster(source)
    slices = [
        public_slice(OTHERS[0], name="a-1"),
        public_slice(OURS, name="a-2"),
        # An activator that moves is in two slices for a moment.
        public_slice(OTHERS[1], OURS, name="a-3"),
    ]
    cluster.apply(*(slices[index] for index in order))
    assert cluster.share == SECOND_OF_THREE


@pytest.mark.parametrize(
    ("own_ip", "share"), [("10.1.0.2", SECOND_OF_THREE), ("fd00::3", ActivatorShare(2, 3))]
)
def test_two_addresses_of_one_activator_count_once(own_ip: str, share: ActivatorShare) -> None:
    cluster = Cluster(own_ip=own_ip)
    cluster.apply(
        public_slice("10.1.0.1", "10.1.0.2", "10.1.0.3", name="a-4"),
        public_slice("fd00::1", "fd00::2", "fd00::3", name="a-6", addressType="IPv6"),
    )
    assert cluster.share == share


def test_a_family_that_is_still_empty_does_not_count() -> None:
    cluster = Cluster(own_ip="fd00::2")
    cluster.apply(
        public_slice(name="a-4"),
        public_slice("fd00::1", "fd00::2", name="a-6", addressType="IPv6"),
    )
    assert cluster.share == ActivatorShare(1, 2)


def test_activators_that_are_not_ready_or_about_to_go_do_not_count() -> None:
    cluster = Cluster()
    cluster.apply(public_slice(OURS, not_ready=("10.1.0.1",), terminating=("10.1.0.3",)))
    assert cluster.share == ActivatorShare(0, 1)


def test_ports_choose_the_protocol() -> None:
    cluster = Cluster(protocol=AppProtocol.H2C)
    ports = [{"name": "https", "port": 8112}, {"name": "http2", "port": 8013}]
    cluster.apply(public_slice(OURS, *OTHERS, ports=ports))
    assert cluster.share == SECOND_OF_THREE
    assert not cluster.sink.activators[A][AppProtocol.HTTP1]


OLD, NEW = public(OURS, OTHERS[1]), public_slice(OURS, *OTHERS)


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize(
    ("source", "share"),
    [(AUTO, SECOND_OF_THREE), (SLICES, SECOND_OF_THREE), (ENDPOINTS, FIRST_OF_TWO)],
)
def test_slices_that_knative_writes_count_rather_than_endpoints_that_it_has_left_behind(
    source: EndpointsSource, share: ActivatorShare, order: tuple[int, ...]
) -> None:
    """The copy that Kubernetes makes of such Endpoints does not count either."""
    cluster = Cluster(source)
    objects = [OLD, mirrored("10.1.0.9", OURS, OTHERS[1]), NEW]
    cluster.apply(*(objects[index] for index in order))
    assert cluster.share == share


def test_endpoints_count_while_slices_are_only_copies_of_them() -> None:
    """Copies come later, and Knative's activators in the same deployment read Endpoints."""
    cluster = Cluster()
    cluster.apply(mirrored(OURS, *OTHERS), OLD)
    assert cluster.share == FIRST_OF_TWO
    cluster.apply(truncated(OLD))
    assert cluster.share == SECOND_OF_THREE, "what is cut off is in the copy"
    copy = mirrored("10.1.0.0", OURS)
    copy["metadata"]["annotations"] = {"endpoints.kubernetes.io/over-capacity": "truncated"}
    cluster.apply(copy)
    assert cluster.share == FIRST_OF_TWO, "a copy of truncated Endpoints lists no more than they"


def test_endpoints_that_are_not_there_are_no_reason_to_know_nothing() -> None:
    cluster = Cluster()
    cluster.apply(mirrored(OURS, *OTHERS))
    assert cluster.share == SECOND_OF_THREE


def test_deletions() -> None:
    cluster = Cluster()
    second = public_slice("10.1.0.4", name="a-2")
    cluster.apply(OLD, NEW, second)
    assert cluster.share == ActivatorShare(1, 4)
    cluster.delete(second)
    assert cluster.share == SECOND_OF_THREE
    cluster.delete(NEW)
    assert cluster.share == FIRST_OF_TWO, "Knative went back to the version before"
    cluster.delete(OLD)
    assert cluster.share is None
    cluster.apply(NEW)
    assert cluster.share == SECOND_OF_THREE


def test_one_list_that_exchanges_all_slices_is_one_change() -> None:
    cluster = Cluster()
    cluster.apply(NEW)
    told = len(cluster.sink.calls)
    replace(
        cluster.inventory,
        "EndpointSlice",
        [public_slice(OURS, name="b-1"), public_slice(*OTHERS, "10.1.0.4", name="b-2")],
    )
    assert cluster.share == ActivatorShare(1, 4)
    assert len(cluster.sink.calls) == told + 1


@pytest.mark.parametrize("what", ["addressType", "endpoints", "ports"])
def test_one_broken_slice_does_not_stop_the_others(what: str) -> None:
    cluster = Cluster()
    broken = public_slice("10.1.0.9", name="a-2") | {what: "nonsense"}
    cluster.apply(broken, NEW)
    assert cluster.share == SECOND_OF_THREE
    assert [rejection.name for rejection in cluster.rejections] == ["a-2"]
    cluster.apply(public_slice("10.1.0.0", name="a-2"))
    assert cluster.share == ActivatorShare(2, 4)
    cluster.apply(broken)
    assert cluster.share == ActivatorShare(2, 4), "its last good state stays"


def test_slices_of_pods_do_not_count_rather_than_endpoints() -> None:
    """Kubernetes writes Endpoints and slices of a private Service. None of its slices is a copy."""
    cluster = Cluster()
    pods = slice_of("10.0.0.1", "10.0.0.2")
    pods["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = (
        "endpointslice-controller.k8s.io"
    )
    cluster.apply(private("10.0.0.1"), pods)
    assert cluster.sink.ready() == ["10.0.0.1:8012"]

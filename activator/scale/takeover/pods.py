"""Keeps the endpoints that Kubernetes lists, for the slices of Services with route ``front``.

Pure. Any Service may become a pods-service, so this keeps the slices of all of them, compressed: a
cluster may have 100,000 pods. With traffic policy ``Local`` the nodes of pods count, too.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from sys import intern
from typing import Any, Final, NamedTuple, final

from activator.objects.fields import Field, ObjectKey, ip_of, root, shared
from activator.plain.problems import several
from activator.plain.service import PlainService
from activator.plain.slices import MANAGED_BY_LABEL, OURS, SERVICE_LABEL, Condition, condition_of
from activator.plain.workloads import Groups
from activator.scale.reasons import Finding, ScaleReason
from activator.scale.takeover.slices import (
    MOST_ENDPOINTS,
    ActivatorAddress,
    Listing,
    SliceFamily,
    SliceKey,
)

#: The manager of the copies that Kubernetes makes of Endpoints objects.
MIRROR: Final = "endpointslicemirroring-controller.k8s.io"
_CONTROLLERS: Final = ("endpointslice-controller.k8s.io", MIRROR)
_LABELS: Final = (SERVICE_LABEL, MANAGED_BY_LABEL)
_PARTS: Final = ("addressType", "ports", "endpoints")


class Kept(NamedTuple):
    """One slice; ``packed`` has the type of its addresses, its ports and its endpoints."""

    manager: str
    uid: str
    packed: bytes


@final
class Pods:
    """The endpoints of all Services, without the slices of the scaler."""

    def __init__(self) -> None:
        self._slices = Groups[ObjectKey, Kept, ObjectKey]()

    def put(self, key: ObjectKey, obj: Any) -> Iterable[ObjectKey]:
        """Record an EndpointSlice that was added or changed; return the Services concerned.

        Arguments:
            obj: any EndpointSlice of the cluster, as decoded from JSON.

        Raises:
            ManifestError: a label is no text; nothing has changed.
        """
        metadata = root(obj, "EndpointSlice")["metadata"]
        service, manager = (metadata["labels"].at(each).text() for each in _LABELS)
        if not service or manager == OURS:
            return self._slices.remove(key)
        name = shared(ObjectKey("Service", key.namespace, intern(service)))
        content = json.dumps({part: obj.get(part) for part in _PARTS})
        packed = zlib.compress(content.encode(), 1)
        if not obj.get("endpoints"):
            packed = shared(packed)  # as of all Services that sleep
        kept = Kept(intern(manager), metadata["uid"].text(), packed)
        return self._slices.put(key, name, kept)

    def remove(self, key: ObjectKey) -> Iterable[ObjectKey]:
        """Record a deleted EndpointSlice; return the Services concerned."""
        return self._slices.remove(key)

    def of(self, service: ObjectKey) -> Sequence[Field]:
        """Return the slices of a Service, without their metadata."""
        every = (kept.packed for _, kept in sorted(self._slices.of(service)))
        return [root(json.loads(zlib.decompress(each)), "EndpointSlice") for each in every]

    def of_controllers(self, service: ObjectKey) -> Mapping[SliceKey, Kept]:
        """Return the slices of a Service that controllers of Kubernetes wrote."""
        return {
            SliceKey(key.namespace, key.name): kept
            for key, kept in self._slices.of(service)
            if kept.manager in _CONTROLLERS
        }

    def listing(self, service: ObjectKey, family: SliceFamily, port: str) -> Listing | None:
        """Return the pods of a Service for the slice of its front.

        Arguments:
            port: the name of the buffered port.

        Returns:
            None if no pod is ready, or if one slice cannot list them: they have different port
            numbers, or are too many.
        """
        slices = [
            each
            for each in self.of(service)
            if each["addressType"].text() == family.value and each["endpoints"].sequence()
            if port in [one["name"].text() for one in each["ports"].items()]
        ]
        ports = [each["ports"].sequence() for each in slices]
        endpoints = [one for each in slices for one in each["endpoints"].sequence()]
        is_one = len(endpoints) <= MOST_ENDPOINTS and all(each == ports[0] for each in ports)
        return Listing(ports[0], endpoints) if is_one and any(map(_ready, slices)) else None

    def nodes(self, service: ObjectKey) -> Set[str]:
        """Return the nodes of a Service's ready pods, as far as its slices name them."""
        ready = (one for each in self.of(service) for one in _ready(each))
        return {one["nodeName"].text() for one in ready} - {""}


def _ready(slice_: Field) -> Sequence[Field]:
    """Return the endpoints of a slice that take new connections."""
    every = slice_["endpoints"].items()
    return [each for each in every if condition_of(each["conditions"]) is Condition.READY]


def usable(slices: Iterable[Field]) -> Mapping[SliceFamily, tuple[ActivatorAddress, ...]]:
    """Return the activators of each family, sorted; a family without activators is absent.

    Arguments:
        slices: all slices of the activators' Service.

    Returns:
        The ready ones. While none is ready, the terminating ones that serve.

    Raises:
        ManifestError: a field is wrong.
    """
    found: dict[SliceFamily, tuple[ActivatorAddress, ...]] = {}
    for family in SliceFamily:
        here = [each for each in slices if each["addressType"].text() == family.value]
        endpoints = [one for each in here for one in each["endpoints"].items()]
        every = [(condition_of(one["conditions"]), one) for one in endpoints]
        for condition in (Condition.DRAINING, Condition.READY):
            if activators := {
                ActivatorAddress(ip_of(address), one["nodeName"].text())
                for known, one in every
                for address in one["addresses"].items()
                if known is condition
            }:
                found[family] = tuple(sorted(activators))
    return found


def about_front(service: PlainService, stale: Collection[SliceKey]) -> Iterator[Finding]:
    """Yield the findings about the other slices of a Service with route ``front``.

    Arguments:
        stale: the slices that Kubernetes keeps although the Service has no selector.
    """
    namespace, name = service.key.namespace, service.key.name
    if service.selects_beside:
        patch = """-p '[{"op":"remove","path":"/spec/selector"}]'"""
        note = (
            f"the Service has route front and a selector, so Kubernetes lists its pods beside the "
            f"scaler, and no limit holds; remove the selector: kubectl -n {namespace} patch "
            f"service {name} --type=json {patch}"
        )
        yield Finding(ScaleReason.FRONT_HAS_SELECTOR, note)
    if stale:
        note = (
            f"the Service has no selector any more, so nothing updates the pods in the slices "
            f"{several(sorted(key.name for key in stale))}, and clients may connect to pods that "
            f"are gone; the scaler deletes such slices once its own has endpoints, as does: "
            f"kubectl -n {namespace} delete endpoints {name} --ignore-not-found; kubectl -n "
            f"{namespace} delete endpointslices -l {SERVICE_LABEL}={name},"
            f"{MANAGED_BY_LABEL}!={OURS}"
        )
        yield Finding(ScaleReason.STALE_SLICES, note)


def lonely(nodes: Set[str], activators: Iterable[Sequence[ActivatorAddress]]) -> Sequence[str]:
    """Return the nodes on which no activator of at least one address family runs.

    Arguments:
        activators: the activators of each address family of the Service.
    """
    return sorted({node for each in activators for node in nodes - {one.node for one in each}})


def lonely_finding(policy: str, nodes: Sequence[str]) -> Finding:
    """Return the finding about nodes without an activator.

    Arguments:
        policy: the field of the Service that is ``Local``.
    """
    note = (
        f"{policy} is Local, and no activator runs on {several(nodes)}, where pods are ready: it "
        f"would refuse connections while the Service sleeps, so the last pod stays; run an "
        f"activator on each node, or use route shared"
    )
    return Finding(ScaleReason.NODE_WITHOUT_ACTIVATOR, note)

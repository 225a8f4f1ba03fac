"""Keeps the nodes on which pods of each Service take connections, from its EndpointSlices.

Pure. With traffic policy ``Local`` such a node needs an activator, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence, Set
from typing import Any, final

from activator.objects.fields import ObjectKey
from activator.plain.problems import several
from activator.plain.slices import MANAGED_BY_LABEL, OURS, SERVICE_LABEL
from activator.scale.decisions.findings import Finding, Reason
from activator.scale.reports.load import Name
from activator.scale.takeover.slices import Activator


@final
class PodNodes:
    """The nodes of all ready pods."""

    def __init__(self) -> None:
        self._by_slice: dict[ObjectKey, tuple[Name, tuple[str, ...]]] = {}
        self._slices: dict[Name, tuple[ObjectKey, ...]] = {}

    def put(self, key: ObjectKey, obj: Any) -> None:
        """Record an EndpointSlice that was added or changed.

        Arguments:
            obj: any EndpointSlice of the cluster, as decoded from JSON. A malformed one has no
                nodes; other parts report it.
        """
        self.remove(key)
        try:
            labels = obj["metadata"].get("labels") or {}
            service, nodes = labels.get(SERVICE_LABEL), _nodes(obj)
        except (AttributeError, KeyError, TypeError):
            return
        if isinstance(service, str) and nodes and labels.get(MANAGED_BY_LABEL) != OURS:
            name = Name(key.namespace, service)
            self._by_slice[key] = name, nodes
            self._slices[name] = (*self._slices.get(name, ()), key)

    def remove(self, key: ObjectKey) -> None:
        """Record a deleted EndpointSlice; an unknown one is no error."""
        name, _ = self._by_slice.pop(key, (None, ()))
        if name is None:
            return
        left = tuple(each for each in self._slices[name] if each != key)
        if left:
            self._slices[name] = left
        else:
            del self._slices[name]

    def of(self, name: Name) -> frozenset[str]:
        """Return the nodes of a Service's ready pods, as far as its slices name them."""
        keys = self._slices.get(name, ())
        return frozenset(node for key in keys for node in self._by_slice[key][1])


def lonely(nodes: Set[str], activators: Iterable[Sequence[Activator]]) -> Sequence[str]:
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
    return Finding(Reason.NODE_WITHOUT_ACTIVATOR, note)


def _nodes(obj: Any) -> tuple[str, ...]:
    """Return the nodes of the endpoints that are ready.

    Raises:
        AttributeError, TypeError: a field has a wrong type.
    """
    found = set()
    for endpoint in obj.get("endpoints") or ():
        conditions = endpoint.get("conditions") or {}
        node = endpoint.get("nodeName")
        is_ready = conditions.get("ready") is not False and not conditions.get("terminating")
        if is_ready and isinstance(node, str) and node:
            found.add(sys.intern(node))
    return tuple(sorted(found))

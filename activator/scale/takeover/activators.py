"""Lists the addresses of the activators, from the EndpointSlices of their Service. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, final

from activator.objects.addresses import ip_of
from activator.objects.fields import Field, ManifestError, ObjectKey, identify, root
from activator.plain.slices import SERVICE_LABEL, is_takeover
from activator.scale.takeover.slices import Activator, Family


class _Listed(NamedTuple):
    """One endpoint; ``is_ready`` is False while its pod terminates and still serves."""

    family: Family
    activator: Activator
    is_ready: bool


@final
class Activators:
    """The activators that can take requests.

    Arguments:
        namespace, service: the Service whose endpoints are the activators.
    """

    def __init__(self, namespace: str, service: str) -> None:
        self._namespace = namespace
        self._service = service
        self._slices: dict[ObjectKey, tuple[_Listed, ...]] = {}
        self._by_family: Mapping[Family, tuple[Activator, ...]] = {}

    @property
    def by_family(self) -> Mapping[Family, tuple[Activator, ...]]:
        """The activators of each family, sorted; a family without activators is absent.

        The list has the ready ones. While none is ready, it has the terminating ones that serve.
        """
        return self._by_family

    def observe(self, obj: object) -> bool:
        """Record an EndpointSlice that was added or changed.

        Arguments:
            obj: any EndpointSlice of the cluster, as decoded from JSON.

        Returns:
            Whether the activators have changed.

        Raises:
            ManifestError: it lists the activators, and a field is wrong. Nothing has changed.
        """
        slice_ = root(obj, "EndpointSlice")
        if not self._is_listed(slice_["metadata"]):
            return False
        key = identify(obj, "EndpointSlice")
        self._slices[key] = tuple(_listed(slice_))
        return self._renew()

    def deleted(self, obj: object) -> bool:
        """Record a deleted EndpointSlice; return whether the activators have changed."""
        try:
            key = identify(obj, "EndpointSlice")
        except ManifestError:
            return False
        return self._slices.pop(key, None) is not None and self._renew()

    def _is_listed(self, metadata: Field) -> bool:
        return (
            metadata["namespace"].text() == self._namespace
            and metadata["labels"].at(SERVICE_LABEL).text() == self._service
            and not is_takeover(metadata)
        )

    def _renew(self) -> bool:
        every = [each for listed in self._slices.values() for each in listed]
        found: dict[Family, tuple[Activator, ...]] = {}
        for family in Family:
            here = [each for each in every if each.family is family]
            usable = [each for each in here if each.is_ready] or here
            if usable:
                found[family] = tuple(sorted({each.activator for each in usable}))
        before, self._by_family = self._by_family, found
        return before != found


def _listed(slice_: Field) -> Iterator[_Listed]:
    kind = slice_["addressType"].text()
    if kind not in (family.value for family in Family):
        return
    for endpoint in slice_["endpoints"].items():
        conditions = endpoint["conditions"]
        ready = conditions["ready"].boolean(default=True)
        serving = conditions["serving"].boolean(default=ready)
        terminating = conditions["terminating"].boolean(default=False)
        if not serving or not (ready or terminating):
            continue
        for address in list(endpoint["addresses"].items())[:1]:
            activator = Activator(ip_of(address), endpoint["nodeName"].text())
            yield _Listed(Family(kind), activator, ready and not terminating)

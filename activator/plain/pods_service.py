"""Joins a Service of route ``front`` with its pods-service, whose selector finds the pods. Pure.

Source: ServiceSpec in the Kubernetes API reference. The pods-service may be headless, and it need
not opt in, so each Service of a cluster is read as one that may be it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple, final

from activator.objects.fields import ManifestError, ObjectKey, root
from activator.plain.annotation_values import Route
from activator.plain.annotations import PREFIX, is_enabled
from activator.plain.index import Index
from activator.plain.service import PODS_SERVICE, PlainService, Port, Refusal, labels, read_port


class Selecting(NamedTuple):
    """What a Service selects; tuples, since a cluster has thousands of Services.

    Attributes:
        selector: labels of its pods.
        targets: ``targetPort`` of its TCP ports, by name.
        unfit: why it can be no pods-service, as the end of a sentence; empty if it can.
    """

    selector: tuple[tuple[str, str], ...] = ()
    targets: tuple[tuple[str, str | int], ...] = ()
    unfit: str = ""


def parse(obj: object) -> Selecting:
    """Return what any Service selects, also one that does not opt in; a broken one is unfit."""
    try:
        service = root(obj, "Service")
        metadata, spec = service["metadata"], service["spec"]
        if spec["type"].text() == "ExternalName":
            return Selecting(unfit="which has type ExternalName")
        route = metadata["annotations"].at(f"{PREFIX}route").text()
        if is_enabled(metadata) and route == Route.FRONT.value:
            return Selecting(unfit="which has route front itself")
        selector = tuple(labels(spec["selector"]).items())
        targets = tuple((port.name, port.target) for port in map(read_port, spec["ports"].items()))
        return Selecting(selector, targets, "" if selector else "which has no selector")
    except ManifestError as error:
        return Selecting(unfit=f"which cannot be read: {error}")


@final
class Fronts:
    """What each Service selects, and the Services with route ``front`` that it stands behind.

    Attributes:
        of: the fronts of each pods-service.
    """

    def __init__(self) -> None:
        self._selecting: dict[ObjectKey, Selecting] = {}
        self.of = Index[ObjectKey, ObjectKey]()

    def select(self, key: ObjectKey, selecting: Selecting | None) -> Collection[ObjectKey]:
        """Replace what a Service selects, None if it is deleted; return the fronts concerned."""
        before = self._selecting.pop(key, None)
        if selecting is not None:
            self._selecting[key] = selecting
        return () if selecting == before else tuple(self.of.get(key))

    def move(self, key: ObjectKey, before: PlainService | None, now: PlainService | None) -> None:
        """Replace a Service that opts in; None for one that does not."""
        for service, change in ((before, self.of.discard), (now, self.of.add)):
            if service is not None and service.is_front:
                change(service.pods, key)

    def resolve(self, service: PlainService) -> PlainService:
        """Return a Service; a front has the selector and the pods' port of its pods-service.

        A front is refused if its pods-service is not usable; the text says why.
        """
        if not service.is_front or service.port is None:
            return service
        selecting = self._selecting.get(service.pods)
        if problem := _problem(service.port, selecting):
            text = f"{PODS_SERVICE} names {service.pods.name}, {problem}"
            return replace(service, port=None, refused=text, refusal=Refusal.WRONG_PODS_SERVICE)
        assert selecting is not None
        port = service.port._replace(target=dict(selecting.targets)[service.port.name])
        return replace(service, selector=dict(selecting.selector), port=port)


def _problem(port: Port, selecting: Selecting | None) -> str:
    """Return why a pods-service is not usable, as the end of a sentence; empty if it is."""
    if selecting is None:
        return "and there is no such Service in the namespace: create it, with the pods' selector"
    if selecting.unfit:
        return f"{selecting.unfit}: name a Service whose selector finds the pods"
    names = [name for name, _ in selecting.targets]
    if port.name in names:
        return ""
    known = ", ".join(map(repr, names)) or "none"
    return (
        f"which has no port with the name {port.name!r} of the buffered port (it has: {known}): "
        f"give both ports one name"
    )

"""Chooses the waker of a Service: by its annotations, or by the kind of its target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from activator.plain.annotations import PREFIX, Owner, Route, WakerName, WakerWords
from activator.plain.service import PlainService
from activator.scale.wakers import patch
from activator.scale.wakers.scale import SCALE
from activator.scale.wakers.waker import AnyWaker

if TYPE_CHECKING:
    from activator.scale.workloads.replicas import ScaleTarget

#: Makes each waker of its words and of its Service; a text says why there is none.
WAKERS: Final[Mapping[WakerName, Callable[[WakerWords, PlainService], AnyWaker | str]]] = {
    WakerName.SCALE: lambda words, service: SCALE,
    WakerName.PATCH: patch.make,
}


def _patched(sleep: str, wake: str) -> WakerWords:
    return WakerWords(WakerName.PATCH, sleep, wake)


#: The words of kinds without a ``scale`` subresource, by group, version, and kind in lower case.
#: Sources: the APIs of agent-sandbox and of KubeVirt; "declarative hibernation" in the manual of
#: CloudNativePG.
KINDS: Final[Mapping[tuple[str, str, str], WakerWords]] = {
    ("agents.x-k8s.io", "v1beta1", "sandbox"): _patched(
        '{"spec":{"operatingMode":"Suspended"}}', '{"spec":{"operatingMode":"Running"}}'
    ),
    ("postgresql.cnpg.io", "v1", "cluster"): _patched(
        '{"metadata":{"annotations":{"cnpg.io/hibernation":"on"}}}',
        '{"metadata":{"annotations":{"cnpg.io/hibernation":"off"}}}',
    ),
    ("kubevirt.io", "v1", "virtualmachine"): _patched(
        '{"spec":{"runStrategy":"Halted"}}', '{"spec":{"runStrategy":"Always"}}'
    ),
}
_SELF: Final = (Owner.SELF, Owner.NONE)


def waker_of(service: PlainService, target: ScaleTarget) -> AnyWaker | str:
    """Return the waker of a Service, or why it can have none."""
    words, kind = service.asks.waker, target.resource
    row = KINDS.get((kind.group, kind.version, kind.kind.lower()), WakerWords(WakerName.SCALE))
    name = words.name or row.name
    assert name is not None
    if name is row.name:
        words = replace(
            words,
            sleep_patch=words.sleep_patch or row.sleep_patch,
            wake_patch=words.wake_patch or row.wake_patch,
        )
    if name is not WakerName.PATCH and (words.sleep_patch or words.wake_patch):
        return f"{PREFIX}sleep-patch and {PREFIX}wake-patch need {PREFIX}waker patch"
    waker = WAKERS[name](words, service)
    if isinstance(waker, str) or waker is SCALE:
        return waker
    owner, route = service.asks.owner, service.asks.route
    if service.leaving:
        return waker
    if owner not in _SELF:
        return (
            f"waker {name.value} needs {PREFIX}owner self or none, and it is {owner.value}: change "
            f"{PREFIX}owner or {PREFIX}waker"
        )
    if waker.parks and route is Route.TAKEOVER:
        return (
            f"with waker {name.value} Kubernetes lists sleeping pods as ready, so with "
            f"{PREFIX}route takeover clients would connect to them: use route front or shared"
        )
    return waker

"""Chooses the waker of a Service: by its annotations, or by the kind of its target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from activator.plain.annotations import PREFIX, AsleepWhen, Owner, Route, WakerName, WakerWords
from activator.plain.service import PlainService
from activator.scale.wakers import http, patch, resize
from activator.scale.wakers.scale import SCALE
from activator.scale.wakers.waker import AnyWaker

if TYPE_CHECKING:
    from activator.scale.workloads.replicas import ScaleTarget

#: Makes each waker of its words and of its Service; a text says why there is none.
WAKERS: Final[Mapping[WakerName, Callable[[WakerWords, PlainService], AnyWaker | str]]] = {
    WakerName.SCALE: lambda words, service: SCALE,
    WakerName.PATCH: patch.make,
    WakerName.HTTP: http.make,
    WakerName.RESIZE: lambda words, service: resize.ResizeWaker(words.parked_cpu or resize.DEFAULT),
}
#: The words that only one waker reads.
_WORDS: Final[Mapping[WakerName, Sequence[str]]] = {
    WakerName.PATCH: ("sleep_patch", "wake_patch"),
    WakerName.HTTP: ("sleep_url", "wake_url", "state_url", "asleep_when"),
    WakerName.RESIZE: ("parked_cpu",),
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
#: The words of the profile ``vllm-sleep``. Source: "Sleep Mode" in the documentation of vLLM, which
#: needs ``--enable-sleep-mode`` and ``VLLM_SERVER_DEV_MODE=1``.
_VLLM: Final = WakerWords(
    WakerName.HTTP,
    sleep_url="/sleep?level=1",
    wake_url="/wake_up",
    state_url="/is_sleeping",
    asleep_when=AsleepWhen("is_sleeping", "true"),
)
_SELF: Final = (Owner.SELF, Owner.NONE)


def waker_of(service: PlainService, target: ScaleTarget) -> AnyWaker | str:
    """Return the waker of a Service, or why it can have none."""
    words, kind = service.asks.waker, target.resource
    of_kind = KINDS.get((kind.group, kind.version, kind.kind.lower()), WakerWords(WakerName.SCALE))
    row = _VLLM if words.profile else of_kind
    name = words.name or row.name
    assert name is not None
    for other, named in _WORDS.items():
        read = [PREFIX + each.replace("_", "-") for each in named if getattr(words, each)]
        if name is not other and read:
            listed = " and ".join(read)
            return f"only {PREFIX}waker {other.value} reads {listed}: change one of them"
    if name is row.name:
        given = {each.name: found for each in fields(words) if (found := getattr(words, each.name))}
        words = replace(row, **given)
    waker = WAKERS[name](words, service)
    if isinstance(waker, str) or waker is SCALE or service.leaving:
        return waker
    owner, route = service.asks.owner, service.asks.route
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

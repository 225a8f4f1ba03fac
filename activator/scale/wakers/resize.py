"""The waker ``resize``: the CPU of running pods is lowered, so they sleep with all their memory.

The rules of the API server are: a request or limit is neither added nor removed, and the QoS class
stays. Source: ValidatePodResize in Kubernetes 1.36, pkg/apis/core/validation, and KEP-1287.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from activator.discovery.api_server import ApiResponse, ApiServer, Meaning
from activator.objects.fields import Field, root
from activator.plain.annotations import LEAST_LIMIT, Cpu
from activator.scale.reasons import ScaleReason
from activator.scale.wakers.scale import SCALE, Scale
from activator.scale.wakers.waker import Access, Rule, State, Waker, WakerFailed, failure, get

if TYPE_CHECKING:
    from activator.scale.workloads.replicas import ScalableKind, ScaleTarget

_LIST: Final = Rule("", "pods", ("list",), "list pods")
_RESIZE: Final = Rule("", "pods/resize", ("patch",), "resize pods")
#: Request and limit of a parked container.
DEFAULT: Final = Cpu(1, LEAST_LIMIT)
#: Reads of the pods, with so many seconds between them, until only one is left.
_READS, _PAUSE = 10, 0.1


class SizedPod(NamedTuple):
    """A pod that does not end.

    Attributes:
        full: the CPU of its containers by the template, as far as both have values.
        now: what it asks for, of the same containers.
        is_guaranteed: whether each request must stay equal to its limit.
        waits_for: why the node has not applied that; empty if it has.
    """

    name: str
    full: Mapping[str, Cpu]
    now: Mapping[str, Cpu]
    is_guaranteed: bool
    is_ready: bool
    waits_for: str


@dataclass(frozen=True, slots=True)
class Resized(State):
    """The state of a workload whose pods are parked."""

    scale: Scale
    pods: Sequence[SizedPod]


@dataclass(frozen=True, slots=True)
class ResizeWaker(Waker[Resized]):
    """Parks the last pod: ``cpu`` is what its containers keep. More pods are scaled as usual."""

    cpu: Cpu = DEFAULT

    parks = True
    frees = (0, 1, 0)
    is_binary = False
    lacks = SCALE.lacks

    def rules(self, kind: ScalableKind) -> Sequence[Rule]:
        return *resize_rules(kind), *SCALE.rules(kind)

    async def read(self, access: Access, target: ScaleTarget) -> Resized:
        scale, pods = await read_workload(access.api, target)
        parked = [pod.name for pod in pods if self._is_parked(pod)]
        if not scale.replicas or (parked and len(parked) == len(pods)):
            return Resized(0, scale, pods)
        waking = (pod.waits_for for pod in pods if pod.waits_for and pod.now == pod.full)
        late = (f"Pod {name} is parked" for name in parked)
        return Resized(scale.replicas, scale, pods, waits_for=next(chain(waking, late), ""))

    async def write(
        self, access: Access, target: ScaleTarget, known: Resized, replicas: int
    ) -> Resized | None:
        scale, pods = known.scale, known.pods
        if not replicas:
            return await self._sleep(access, target, scale, pods)
        if _RESIZES[0] in known.waits_for:  # its node has no room, and may have none for hours
            await SCALE.write(access, target, scale, 0)
            why = f"{known.waits_for}: the workload starts another pod instead"
            raise WakerFailed(ScaleReason.CANNOT_RESIZE, why)
        for pod in filter(self._is_parked, pods):
            response = await resize(access.api, target, pod, pod.full)
            if response.meaning is Meaning.FORBIDDEN and not lacks_right(response):
                raise WakerFailed(ScaleReason.SCALE_REFUSED, _refusal(pod, response))
            if not response.is_ok:
                raise failure(target, response, _RESIZE)
        if scale.replicas != replicas and not await SCALE.write(access, target, scale, replicas):
            return None
        return await self.read(access, target)

    async def _sleep(
        self, access: Access, target: ScaleTarget, scale: Scale, pods: Sequence[SizedPod]
    ) -> Resized | None:
        if scale.replicas > 1:
            if not await SCALE.write(access, target, scale, 1):
                return None
            for _ in range(_READS):  # the other pods are about to end
                await asyncio.sleep(_PAUSE)
                scale, pods = await read_workload(access.api, target)
                if len(pods) <= 1:
                    break
        why = ""
        for pod in pods:
            if not pod.is_ready and not self._is_parked(pod):
                why = f"Pod {pod.name} is not ready, and needs its CPU until it is"
                raise WakerFailed(ScaleReason.CANNOT_RESIZE, why)
            if self._parked(pod) == pod.full:
                why = f"Pod {pod.name} has no container with more CPU than it would keep"
            elif not (response := await resize(access.api, target, pod, self._parked(pod))).is_ok:
                if response.meaning is Meaning.UNAVAILABLE or lacks_right(response):
                    raise failure(target, response, _RESIZE)
                why = _refusal(pod, response)
        if why:
            if not await SCALE.write(access, target, scale, 0):
                return None
            return Resized(0, scale, pods, instead=f"{why}: it cannot be parked, so it ends")
        return await self.read(access, target)

    def _parked(self, pod: SizedPod) -> Mapping[str, Cpu]:
        return {name: _least(cpu, self.cpu, pod.is_guaranteed) for name, cpu in pod.full.items()}

    def _is_parked(self, pod: SizedPod) -> bool:
        return pod.now != pod.full and pod.now == self._parked(pod)


def _least(cpu: Cpu, kept: Cpu, is_guaranteed: bool) -> Cpu:
    limit = min(cpu.limit, kept.limit)
    return Cpu(limit if is_guaranteed else min(cpu.request, kept.request), limit)


def resize_rules(kind: ScalableKind) -> Sequence[Rule]:
    """Return the rules of RBAC by which the CPU of the pods of a kind changes."""
    return Rule(kind.group, kind.plural, ("get",), f"get {kind.plural}"), _LIST, _RESIZE


def _refusal(pod: SizedPod, response: ApiResponse) -> str:
    return f"Pod {pod.name}: {response.problem}"


def lacks_right(response: ApiResponse) -> bool:
    """Return whether RBAC forbids a request; a quota or a LimitRange forbids a value."""
    return response.meaning is Meaning.FORBIDDEN and "cannot" in response.message()


async def read_workload(api: ApiServer, target: ScaleTarget) -> tuple[Scale, Sequence[SizedPod]]:
    """Return a workload and its pods, as the API server has them.

    Raises:
        WakerFailed, ManifestError: it is not known.
    """
    obj = await get(api, target, target.path, resize_rules(target.resource)[0])
    workload = root(obj, target.resource.kind)
    spec, scale = workload["spec"], Scale.of(workload.value)
    labels = spec["selector"]["matchLabels"].texts()
    if not labels or spec["selector"]["matchExpressions"].sequence():
        why = f"{target} needs a selector with matchLabels alone"
        raise WakerFailed(ScaleReason.CANNOT_RESIZE, why)
    selector = quote(",".join(f"{name}={value}" for name, value in labels.items()), safe="")
    path = f"/api/v1/namespaces/{target.namespace}/pods?labelSelector={selector}"
    listed = await get(api, target, path, _LIST)
    cpus = dict(_cpus(spec["template"]["spec"]["containers"]))
    pods = root(listed, "PodList")["items"].items()
    return scale, [_pod(pod, cpus) for pod in pods if _is_of(pod, target.name)]


async def resize(
    api: ApiServer, target: ScaleTarget, pod: SizedPod, cpus: Mapping[str, Cpu]
) -> ApiResponse:
    """Change the CPU of a pod's containers. Raises ``WakerFailed`` if no response comes."""
    containers = [
        {"name": name, "resources": {key: {"cpu": f"{value}m"} for key, value in named if value}}
        for name, cpu in cpus.items()
        for named in [(("requests", cpu.request), ("limits", cpu.limit))]
    ]
    path = f"/api/v1/namespaces/{target.namespace}/pods/{pod.name}/resize"
    body = json.dumps({"spec": {"containers": containers}}).encode()
    response = await api.send("PATCH", path, body, STRATEGIC)
    if not response.status:
        raise failure(target, response, _RESIZE)
    return response


#: The Content-Type of a PATCH that changes members of lists by their names.
STRATEGIC: Final = "application/strategic-merge-patch+json"
_RESIZES: Final = ("PodResizePending", "PodResizeInProgress")


def _is_of(pod: Field, workload: str) -> bool:
    """Return whether a pod belongs to a workload, perhaps by a ReplicaSet, and does not end."""
    metadata = pod["metadata"]
    owners = (each["name"].text() for each in metadata["ownerReferences"].items())
    return metadata["deletionTimestamp"].value is None and any(
        owner == workload or owner.startswith(f"{workload}-") for owner in owners
    )


def _pod(pod: Field, template: Mapping[str, Cpu]) -> SizedPod:
    name, status, waits_for = pod["metadata"]["name"].text(), pod["status"], ""
    now = {key: cpu for key, cpu in _cpus(pod["spec"]["containers"]) if key in template}
    full = {
        key: Cpu(
            template[key].request if cpu.request else 0, template[key].limit if cpu.limit else 0
        )
        for key, cpu in now.items()
    }
    conditions = {each["type"].text(): each for each in status["conditions"].items()}
    for each in (conditions[word] for word in _RESIZES if word in conditions):
        parts = (each[key].text() for key in ("type", "reason", "message"))
        waits_for = waits_for or f"Pod {name}: {': '.join(filter(None, parts))}"
    if not waits_for and any(
        # A request is only a weight, which the kernel keeps as a rounded number.
        now.get(key, cpu).limit != cpu.limit
        for key, cpu in _cpus(status["containerStatuses"])
    ):
        waits_for = f"Pod {name}: the node has not applied its CPU yet"
    is_ready = "Ready" in conditions and conditions["Ready"]["status"].text() == "True"
    is_guaranteed = status["qosClass"].text() == "Guaranteed"
    return SizedPod(name, full, now, is_guaranteed, is_ready, waits_for)


def _cpus(containers: Field) -> Iterator[tuple[str, Cpu]]:
    """Yield the CPU of each container that has a request or a limit."""
    for each in containers.items():
        resources = each["resources"]
        limit = round(resources["limits"]["cpu"].quantity() * 1000)
        request = round(resources["requests"]["cpu"].quantity() * 1000) or limit
        if request:
            yield each["name"].text(), Cpu(request, limit)

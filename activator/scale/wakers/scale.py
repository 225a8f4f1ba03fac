"""The waker ``scale``: the replicas of a workload, by its ``scale`` subresource.

Sources: autoscaling/v1 Scale in the Kubernetes API reference; the texts and statuses were seen on
API server 1.36.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from activator.discovery.api_server import ApiResponse
from activator.objects.fields import ManifestError, root
from activator.scale.wakers.waker import Access, Rule, State, Waker, failure, send_patch

if TYPE_CHECKING:
    from activator.scale.workloads.replicas import ScalableKind, ScaleTarget


@dataclass(frozen=True, slots=True)
class Scale(State):
    """A Scale object; ``version`` and ``uid`` are the scaled object's."""

    version: str
    uid: str

    @classmethod
    def of(cls, obj: object) -> Scale:
        """Return a Scale object's fields. An absent ``spec.replicas`` is 0.

        Raises:
            ManifestError: a field is wrong, or it is no object.
        """
        if not isinstance(obj, dict):
            raise ManifestError("", "", "the response is no Scale object")
        scale = root(obj, "Scale")
        return cls(
            scale["spec"]["replicas"].whole(default=0),
            scale["metadata"]["resourceVersion"].text(),
            scale["metadata"]["uid"].text(),
        )

    def patch(self, replicas: int) -> bytes:
        """Return the body of a PATCH, which fails with 409 if the object has changed meanwhile."""
        known = {"resourceVersion": self.version, "uid": self.uid}
        metadata = {name: value for name, value in known.items() if value}
        wanted = {"metadata": metadata, "spec": {"replicas": replicas}}
        return json.dumps(wanted, separators=(",", ":")).encode()


class ScaleWaker(Waker[Scale]):
    """Changes the replicas. Knative's counterpart: pkg/reconciler/autoscaling/kpa/scaler.go.

    It has no words, so there is only ``SCALE``: each look at a workload hashes its waker.
    """

    __slots__ = ()

    marks = False
    is_binary = False
    lacks = ", or has no scale subresource"

    def rules(self, kind: ScalableKind) -> Sequence[Rule]:
        resource, purpose = f"{kind.plural}/scale", f"scale {kind.plural}"
        return (Rule(kind.group, resource, ("get", "patch"), purpose),)

    async def read(self, access: Access, target: ScaleTarget) -> Scale:
        response = await access.api.send("GET", f"{target.path}/scale")
        if response.is_ok:
            return Scale.of(response.decoded())
        if _is_unset(response):
            return Scale(0, "", "")
        raise failure(target, response, self.rules(target.resource)[0])

    async def write(
        self, access: Access, target: ScaleTarget, known: Scale, replicas: int
    ) -> Scale | None:
        path, body = f"{target.path}/scale", known.patch(replicas)
        response = await send_patch(access.api, target, path, body, self.rules(target.resource)[0])
        return Scale.of(response.decoded()) if response is not None else None


SCALE: Final = ScaleWaker()


def _is_unset(response: ApiResponse) -> bool:
    """Return whether an object has no replicas yet: a PATCH without a version sets them."""
    message = response.message()
    return (
        response.status == 500 and "spec replicas field" in message and "does not exist" in message
    )

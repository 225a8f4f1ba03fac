"""A control plane with controllers, and a kubelet that only writes statuses."""

from __future__ import annotations

import asyncio
from typing import Any

from activator.lab.control_plane.api import DEPLOYMENTS, PODS, SERVICES, SLICES
from activator.lab.controllers import Deployments, EndpointSlices
from activator.lab.objects import deployment, service
from tests.control_plane.strict import StrictControlPlane

Object = dict[str, Any]


class World:
    """The service web, in virtual time."""

    def __init__(self) -> None:
        self.plane = StrictControlPlane(allows_loopback=True)
        self.deployments = Deployments(self.plane)
        self.slices = EndpointSlices(self.plane)

    def close(self) -> None:
        self.slices.close()
        self.deployments.close()
        self.plane.close()

    def create(self, replicas: int = 0, port: int = 8012) -> None:
        made = deployment("web", replicas=replicas)
        (container,) = made["spec"]["template"]["spec"]["containers"]
        container["ports"][0]["containerPort"] = port
        self.plane.act("create", DEPLOYMENTS, "default", "", made)
        self.plane.act("create", SERVICES, "default", "", service("web"))

    def scale(self, replicas: int) -> None:
        change = {"spec": {"replicas": replicas}}
        self.plane.act("patch", DEPLOYMENTS, "default", "web", change, "scale")

    def roll_out(self, version: str) -> None:
        labels = {"metadata": {"labels": {"version": version}}}
        self.plane.act("patch", DEPLOYMENTS, "default", "web", {"spec": {"template": labels}})

    @property
    def pods(self) -> list[str]:
        """The names of pods that do not terminate."""
        found = self.plane.store.select(PODS, "default", lambda each: True)
        return [
            each["metadata"]["name"]
            for each in found
            if "deletionTimestamp" not in each["metadata"]
        ]

    @property
    def status(self) -> Object:
        return self.plane.act("get", DEPLOYMENTS, "default", "web").get("status", {})

    def report(self, pod: str, ready: bool, address: str = "") -> None:
        """Write a pod's status, as kubelet does."""
        found = self.plane.act("get", PODS, "default", pod)
        status = {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
        known = found.get("status", {}).get("podIP", "127.0.9.1")
        found["status"] = {**status, "podIP": address or known}
        self.plane.store.put(PODS, found)

    def end(self, pod: str) -> None:
        """Delete a terminating pod, as kubelet does."""
        self.plane.store.delete(PODS, "default", pod)

    @property
    def slice(self) -> Object:
        (found,) = self.plane.store.select(SLICES, "default", lambda each: True)
        return found

    @property
    def conditions(self) -> list[tuple[bool, bool, bool]]:
        """Ready, serving and terminating of each endpoint."""
        return [
            tuple(each["conditions"][name] for name in ("ready", "serving", "terminating"))
            for each in self.slice["endpoints"] or ()
        ]

    async def settle(self, seconds: float = 1.0) -> None:
        """Let virtual time pass."""
        loop = asyncio.get_running_loop()
        waiting = loop.create_future()
        loop.call_later(seconds, waiting.set_result, None)
        await waiting

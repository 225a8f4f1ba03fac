"""An API server with the Deployment shop/hello and its pods, whose CPU it changes."""

from __future__ import annotations

import json
from typing import Any

from activator.discovery.api_server import ApiResponse, ApiServer
from activator.lab.control_plane.writes import merge
from tests.activator.scale.fake_api import Script, status

Object = dict[str, Any]
DEPLOYMENT = "/apis/apps/v1/namespaces/shop/deployments/hello"
PODS = "/api/v1/namespaces/shop/pods"


def cpu(request: str = "", limit: str = "") -> Object:
    """Return the resources of a container; memory stays as it is."""
    found: Object = {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    if request:
        found["requests"]["cpu"] = request
    if limit:
        found["limits"]["cpu"] = limit
    return found


class Pods(ApiServer):
    """Its node applies a resize at once, unless ``applies`` is False.

    Attributes:
        pods: by name; patches: the CPU of each resize, as request and limit.
        script: what happens to the next requests.
    """

    def __init__(self, resources: Object, replicas: int = 1, qos: str = "Burstable") -> None:
        template = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
        self.deployment: Object = {
            "metadata": {"name": "hello", "resourceVersion": "1", "uid": "d"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "hello"}},
                "template": template,
            },
        }
        self.qos, self.applies = qos, True
        self.pods: dict[str, Object] = {}
        self.patches: list[tuple[str, str | None, str | None]] = []
        self.script = Script()
        for number in range(replicas):
            self.add(f"hello-{number}")

    def add(self, name: str, owner: str = "hello-5d", *, ready: bool = True) -> Object:
        """Start a pod."""
        container = json.loads(json.dumps(self.deployment["spec"]["template"]["spec"]))
        made = {
            "metadata": {"name": name, "ownerReferences": [{"name": owner}]},
            "spec": container,
            "status": {
                "qosClass": self.qos,
                "conditions": [{"type": "Ready", "status": str(ready)}],
                "containerStatuses": container["containers"],
            },
        }
        self.pods[name] = json.loads(json.dumps(made))
        return self.pods[name]

    def apply(self, name: str) -> None:
        """Play kubelet: the container gets the CPU that the pod asks for."""
        self.pods[name]["status"]["containerStatuses"] = self.pods[name]["spec"]["containers"]

    def set_condition(self, name: str, kind: str, **fields: str) -> None:
        """Set a condition of a pod."""
        found = {"type": kind, "status": "True", **fields}
        self.pods[name]["status"]["conditions"].append(found)

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = ""
    ) -> ApiResponse:
        if (response := self.script.next()) is not None:
            return response
        if path == DEPLOYMENT:
            return _ok(self.deployment)
        if path == f"{PODS}?labelSelector=app%3Dhello":
            return _ok({"items": list(self.pods.values())})
        assert method == "PATCH"
        patch = json.loads(body)
        if path == f"{DEPLOYMENT}/scale":
            known = self.deployment["metadata"]["resourceVersion"]
            if patch["metadata"]["resourceVersion"] != known:
                return status(409, "modified")
            self.deployment["metadata"]["resourceVersion"] = str(int(known) + 1)
            self.deployment["spec"]["replicas"] = patch["spec"]["replicas"]
            return _ok(self.deployment)
        assert content_type == "application/strategic-merge-patch+json"
        name = path.split("/")[-2]
        [change] = patch["spec"]["containers"]
        resources = change["resources"]
        values = [resources.get(key, {}).get("cpu") for key in ("requests", "limits")]
        self.patches.append((name, values[0], values[1]))
        [container] = self.pods[name]["spec"]["containers"]
        self.pods[name]["spec"]["containers"] = [merge(container, change)]
        if self.applies:
            self.apply(name)
        return _ok(self.pods[name])


def _ok(obj: Object) -> ApiResponse:
    return ApiResponse(200, json.dumps(obj).encode())

"""An API server in memory: scale subresources, and the faults that a test scripts."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from activator.discovery.api_server import ApiResponse, ApiServer
from activator.lab.control_plane.writes import merge
from tests.activator.scale.world import elapse

#: Requests at one moment of virtual time; more of them are a loop, in which time does not pass.
MOST_AT_ONCE: Final = 100

Step = ApiResponse | Callable[[], ApiResponse | None] | None


def status(code: int, message: str = "") -> ApiResponse:
    """Return a Status object, as the API server sends errors."""
    return ApiResponse(code, json.dumps({"kind": "Status", "message": message}).encode())


class Script(deque[Step]):
    """What happens to the next requests: an error, a call before the response, or nothing."""

    def next(self) -> ApiResponse | None:
        """Return the response that the next step prescribes; None to respond as usual."""
        step = self.popleft() if self else None
        if step is None or isinstance(step, ApiResponse):
            return step
        return step()


class FakeApi(ApiServer):
    """Scales objects that exist.

    Attributes:
        replicas: by path.
        requests: method and path of all requests; patches: the bodies of PATCHes.
        script: what happens to the next requests.
        looped: whether there were more than `MOST_AT_ONCE` requests at one moment.
    """

    def __init__(self, **replicas: int) -> None:
        self.replicas = {path_of(name): count for name, count in replicas.items()}
        self.version = 1
        self.requests: list[tuple[str, str]] = []
        self.patches: list[Any] = []
        self.script = Script()
        self.looped = False
        self._moment, self._at_once = 0.0, 0

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> ApiResponse:
        self.requests.append((method, path))
        await self._pause()
        if method == "PATCH":
            assert content_type == "application/merge-patch+json"
            self.patches.append(json.loads(body))
        if (response := self.script.next()) is not None:
            return response
        if path not in self.replicas:
            return status(404, "not found")
        if method == "PATCH":
            patch = self.patches[-1]
            if patch["metadata"].get("resourceVersion", str(self.version)) != str(self.version):
                return status(409, "the object has been modified")
            if patch["metadata"].get("uid", "u") != "u":
                return status(409, "Precondition failed: UID in precondition")
            self.set(path, patch["spec"]["replicas"])
        replicas = self.replicas[path]
        metadata = {"name": "w", "resourceVersion": str(self.version), "uid": "u"}
        spec = {"replicas": replicas} if replicas else {}
        return ApiResponse(200, json.dumps({"metadata": metadata, "spec": spec}).encode())

    async def _pause(self) -> None:
        """Let other tasks run. A loop of requests gets a second, so that no test hangs."""
        now = asyncio.get_running_loop().time()
        self._at_once = self._at_once + 1 if now == self._moment else 1
        self._moment = now
        self.looped = self.looped or self._at_once > MOST_AT_ONCE
        if self._at_once > MOST_AT_ONCE:
            await elapse(1.0)
        await asyncio.sleep(0)

    def set(self, path: str, replicas: int) -> None:
        """Change an object, as any component may."""
        self.replicas[path] = replicas
        self.version += 1


class OneObject(ApiServer):
    """An API server with one object, which it patches.

    Attributes:
        object: as it is now; patches: the bodies of PATCHes.
        script: what happens to the next requests.
    """

    def __init__(self, path: str, **fields: Any) -> None:
        self._path = path
        metadata = {"name": path.rpartition("/")[2], "resourceVersion": "1", "uid": "u"}
        self.object: dict[str, Any] = {"metadata": metadata, **fields}
        self.patches: list[Any] = []
        self.script = Script()

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = ""
    ) -> ApiResponse:
        assert path == self._path
        await asyncio.sleep(0)
        if (response := self.script.next()) is not None:
            return response
        if method == "PATCH":
            patch = json.loads(body)
            self.patches.append(patch)
            asked, own = patch["metadata"], self.object["metadata"]
            if any(asked.get(key, own[key]) != own[key] for key in ("resourceVersion", "uid")):
                return status(409, "modified")
            self.change(patch)
        return ApiResponse(200, json.dumps(self.object).encode())

    def change(self, patch: Any) -> None:
        """Change the object, as any component may."""
        self.object = merge(self.object, patch)
        version = int(self.object["metadata"]["resourceVersion"])
        self.object["metadata"]["resourceVersion"] = str(version + 1)


def path_of(name: str) -> str:
    """Return the path of a Deployment's subresource."""
    return f"/apis/apps/v1/namespaces/shop/deployments/{name}/scale"

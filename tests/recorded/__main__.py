"""Holds the conversation with the real API server: ``python -m tests.recorded [--write]``.

Without ``--write`` it compares the responses with the recording, and fails if they differ.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.cluster import network
from tests.cluster.control_plane import ETCD, URL, ControlPlane
from tests.cluster.programs import Unavailable, assets
from tests.manifests.kustomize import MANIFESTS
from tests.process import until
from tests.recorded.conversation import SYSTEM, converse
from tests.recorded.recording import RECORDING, differences, load
from tests.recorded.talk import Talk, normalised

#: The shipped roles, and the ServiceAccount of each speaker.
ROLES = ("scale/rbac.yaml", "overlays/services/rbac.yaml")
ACCOUNTS = {"scaler": "activator-scale", "activator": "activator"}
#: KEDA's kind, without KEDA's schema.
SCALED_OBJECTS = Path(__file__).parent / "scaled_objects.yaml"
_PLURALS = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}


async def prepare(admin: httpx.AsyncClient, token: str) -> dict[str, str]:
    """Create namespaces, accounts, the shipped roles and KEDA's kind; return the tokens."""

    async def post(path: str, body: Any) -> Any:
        response = await admin.post(path, json=body)
        assert response.is_success, response.text
        return response.json()

    for namespace in ("shop", SYSTEM):
        await post("/api/v1/namespaces", {"metadata": {"name": namespace}})
    tokens = {"admin": token}
    for speaker, account in ACCOUNTS.items():
        path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts"
        await post(path, {"metadata": {"name": account}})
        found = await post(f"{path}/{account}/token", {"spec": {}})
        tokens[speaker] = found["status"]["token"]
    for role in ROLES:
        for found in yaml.safe_load_all((MANIFESTS / role).read_text()):
            where = found["metadata"].get("namespace")
            inside = f"/namespaces/{where}" if where else ""
            plural = _PLURALS[found["kind"]]
            await post(f"/apis/rbac.authorization.k8s.io/v1{inside}/{plural}", found)
    definition = yaml.safe_load(SCALED_OBJECTS.read_text())
    await post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    for path in (
        "/apis/keda.sh/v1alpha1/scaledobjects",
        "/api/v1/namespaces/default/services/kubernetes",
    ):
        await until(partial(_exists, admin, path), path)
    return tokens


async def _exists(admin: httpx.AsyncClient, path: str) -> bool:
    return (await admin.get(path)).is_success


async def record(plane: ControlPlane) -> list[dict[str, Any]]:
    """Return the normalised conversation with a new API server."""
    trusting = ssl.create_default_context(cafile=str(plane.folder / "ca.crt"))
    headers = {"Authorization": f"Bearer {plane.token}"}
    async with (
        httpx.AsyncClient(base_url=URL, verify=trusting, headers=headers) as admin,
        httpx.AsyncClient() as etcd,
    ):

        async def compact() -> None:
            newest = (await admin.get("/api/v1/services")).json()["metadata"]["resourceVersion"]
            response = await etcd.post(f"{ETCD}/v3/kv/compaction", json={"revision": newest})
            assert response.is_success, response.text
            plane.kill_api_server()  # its cache would know the old versions
            plane.start_api_server()
            plane.wait_until_ready()

        talk = Talk(URL, await prepare(admin, plane.token), compact, trusting)
        try:
            await converse(talk)
        finally:
            await talk.close()
    return normalised(talk.said)


def main() -> int:
    """Write the recording, or compare it; return 1 if it differs."""
    try:
        programs = assets()
    except Unavailable as error:
        print(error)
        return 2
    network.enter_own()
    with tempfile.TemporaryDirectory() as folder:
        # The server's own EndpointSlice would be in the lists.
        plane = ControlPlane(programs, Path(folder), "--endpoint-reconciler-type=none")
        try:
            plane.start(controllers=False)
            found = asyncio.run(record(plane))
        finally:
            plane.stop()
    if "--write" in sys.argv:
        text = json.dumps(found, indent=1, ensure_ascii=False)
        RECORDING.write_text(text + "\n")
        return 0
    different = list(differences(load(), found))
    print(*different, sep="\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

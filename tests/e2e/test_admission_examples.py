"""The examples of nginx and HAProxy that ask for a pod, as they are, with real requests.

Only addresses and ports are replaced: the examples look up a name of the cluster.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from activator.lab.client import ClientResponse, fetch
from activator.lab.objects import write_object
from tests.e2e.test_ingress_examples import HOST, Pod, _haproxy, _nginx, _running
from tests.manifests.test_examples import BACKEND, EXAMPLES, objects
from tests.ports import hold, port_of
from tests.process import ANY_PORTS, activator, until

pytestmark = pytest.mark.e2e

ADMISSION = BACKEND.rpartition(":")[0] + ":8014"
#: Each program, its example, and the directives that name its port.
PROXIES = (
    (_nginx, "admission-nginx.conf", "listen 80;", "listen {};"),
    (_haproxy, "admission-haproxy.cfg", "bind :80", "bind {}"),
)


def configured(example: str, folder: Path, replaced: dict[str, str]) -> Path:
    """Write an example with other addresses; return its path."""
    text = (EXAMPLES / example).read_text()
    for old, new in replaced.items():
        assert text.count(old) <= 1
        text = text.replace(old, new)
    path = folder / example
    path.write_text(text)
    return path


async def test_a_sleeping_service_wakes_and_its_pod_gets_the_request_directly(
    tmp_path: Path,
) -> None:
    manifests = tmp_path / "objects"
    manifests.mkdir()
    for obj in objects("sleeping-deployment.yaml"):
        write_object(manifests, obj)
    async with AsyncExitStack() as stack:
        pod = Pod()
        await stack.enter_async_context(pod.listening())
        running = await stack.enter_async_context(
            activator("local", "--manifests", str(manifests), *ANY_PORTS, "--admit-port", "0")
        )
        at = "{}:{}".format(*await running.address("admit"))
        ports = []
        for command, example, listens, listen in PROXIES:
            held = stack.enter_context(hold())
            ports.append(port_of(held))
            replaced = {
                ADMISSION: at,
                listens: listen.format(f"127.0.0.1:{ports[-1]}"),
                "lua-load admission.lua": f"lua-load {EXAMPLES / 'admission.lua'}",
            }
            config = configured(example, tmp_path, replaced)
            await stack.enter_async_context(_running(command(config)))

        async def send(port: int, path: str, **headers: str) -> ClientResponse:
            fields = {"Host": HOST} | {k.replace("_", "-"): v for k, v in headers.items()}
            return await fetch("127.0.0.1", port, path, headers=fields)

        async def refuse_an_unknown_host() -> bool:
            try:
                found = [await send(port, "/", Host="unknown.example.org") for port in ports]
            except OSError:
                return False
            reasons = [each.headers.get("activator-reason", "") for each in found]
            return [each.status for each in found] == [404, 404] and all(
                reason.startswith("unknown-revision") for reason in reasons
            )

        await until(refuse_an_unknown_host, "both proxies know no other host")
        waiting = [asyncio.ensure_future(send(port, "/a?b=c")) for port in ports]
        await running.queued("hello", 2)
        write_object(manifests, pod.endpoint_slice())
        forged = {"X_Original_URL": "/", "X_Forwarded_Uri": "/", "Activator_Service": "a/b"}
        again = [send(port, "/a?b=c", Activator_Pod="127.0.0.1:1", **forged) for port in ports]
        for response in await asyncio.gather(*waiting, *again):
            assert response.status == 200, response.body
            seen = json.loads(response.body)
            assert seen["request"].split()[:2] == ["GET", "/a?b=c"]
            fields = {name.lower(): value for name, value in seen["fields"]}
            assert fields["host"] == HOST
            # The activator would have added the address of the proxy.
            assert fields["x-forwarded-for"] == "127.0.0.1"


def test_examples_have_the_directives_that_are_replaced() -> None:
    for _, example, listens, _ in PROXIES:
        text = (EXAMPLES / example).read_text()
        assert text.count(ADMISSION) == text.count(listens) == 1
    assert re.search(r"^ +lua-load admission\.lua$", (EXAMPLES / PROXIES[1][1]).read_text(), re.M)

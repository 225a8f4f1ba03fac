"""The examples of proxies as they are, in front of an activator, with real requests."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.e2e.proxies import ASKING, HOST, SHARED, UPLOAD, Proxy, world

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("proxy", SHARED[:2], ids=lambda proxy: proxy.program)
async def test_a_sleeping_service_is_reached_by_host_and_by_name(
    proxy: Proxy, tmp_path: Path
) -> None:
    async with world(proxy, tmp_path) as found:
        # By host, from zero: the request waits until the pod exists.
        waiting = asyncio.ensure_future(found.fetch("/a?b=c", X_Forwarded_For="9.9.9.9"))
        await found.activator.queued("hello", 1)
        found.start_pod()
        response = await waiting
        assert response.status == 200, response.body
        seen = json.loads(response.body)
        fields = {name.lower(): value for name, value in seen["fields"]}
        assert seen["request"].split()[:2] == ["GET", "/a?b=c"]
        assert fields["host"] == HOST
        # The client, the program in front and the activator each add the address of their peer.
        forwarded = [value for name, value in seen["fields"] if name.lower() == "x-forwarded-for"]
        addresses = ", ".join(forwarded).split(", ")
        assert addresses[0] == "9.9.9.9"
        assert addresses[1:] == ["127.0.0.1", "127.0.0.1"]
        assert not {name for name in fields if name.startswith(("k-", "knative-", "activator-"))}

        # By name: the path is enough, whatever the host.
        seen = await found.seen("/hello", host="any.example.org")
        assert ["Host", "any.example.org"] in seen["fields"]

        # A client cannot choose the Service.
        await found.seen("/", Activator_Service="default/secret")
        forged = found.fetch("/", host="x.example.org", Activator_Service="default/hello")
        assert (await forged).status == 404


@pytest.mark.parametrize("proxy", ASKING, ids=lambda proxy: proxy.program)
async def test_a_pod_that_the_activator_names_gets_the_request_directly(
    proxy: Proxy, tmp_path: Path
) -> None:
    async with world(proxy, tmp_path) as found:
        waiting = asyncio.ensure_future(found.seen("/a?b=c"))
        await found.activator.queued("hello", 1)
        found.start_pod()
        forged = {"X_Original_URL": "/", "X_Forwarded_Uri": "/", "Activator_Service": "a/b"}
        again = found.seen("/a?b=c", b"", HOST, Activator_Pod="127.0.0.1:1", **forged)
        for seen in await asyncio.gather(waiting, again):
            assert seen["request"].split()[:2] == ["GET", "/a?b=c"]
            fields = {name.lower(): value for name, value in seen["fields"]}
            assert fields["host"] == HOST
            # The activator would have added the address of the proxy.
            assert fields.get("x-forwarded-for", "127.0.0.1") == "127.0.0.1"


@pytest.mark.parametrize("proxy", [*SHARED, *ASKING], ids=lambda proxy: proxy.example)
async def test_uploads_websockets_and_clients_that_disconnect(proxy: Proxy, tmp_path: Path) -> None:
    async with world(proxy, tmp_path) as found:
        upload = asyncio.ensure_future(found.seen("/", UPLOAD))
        left = asyncio.ensure_future(found.fetch())
        await found.activator.queued("hello", 2)
        left.cancel()
        if proxy.example != "admission-haproxy.cfg":  # Lua keeps its request
            await found.activator.queued("hello", 1)
        found.start_pod()
        assert (await upload)["received"] == len(UPLOAD)
        await found.opens_websocket()
        # HAProxy sends the first request of a client on a connection of its own. On a busy machine,
        # Envoy opens one while the last response still ends.
        connections = await found.connections(8)
        assert len(connections) <= 5 if proxy.keeps_pods else len(connections) == 8


@pytest.mark.parametrize("proxy", [*SHARED, *ASKING], ids=lambda proxy: proxy.example)
async def test_the_reason_of_the_activator_reaches_the_client(proxy: Proxy, tmp_path: Path) -> None:
    async with world(proxy, tmp_path, timeout_seconds="1") as found:
        response = await found.fetch()
        if not proxy.passes_reasons:
            assert response.status == 503
            return
        assert (response.status, response.headers.get("activator-reason")) == (504, "no-endpoints")
        assert response.headers["retry-after"]


@pytest.mark.parametrize("proxy", ASKING, ids=lambda proxy: proxy.program)
async def test_a_denial_keeps_its_status_and_its_reason(proxy: Proxy, tmp_path: Path) -> None:
    async with world(proxy, tmp_path, hosts="other.example.com") as found:
        response = await found.fetch()
        assert response.status == 404
        assert response.headers["activator-reason"].startswith("unknown-revision")

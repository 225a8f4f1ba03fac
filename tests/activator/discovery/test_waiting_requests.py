"""Queued requests and the watch of a cluster: how soon the watch retries a lost API server."""

from __future__ import annotations

import asyncio
from pathlib import Path

from activator.runtime import Runtime
from activator.settings.config import load
from tests.activator.discovery.fake_api_server import Answer, FakeApiServer
from tests.activator.discovery.recording import config_map, private, revision
from tests.activator.throttlers import throttler_of
from throttler.ticket import Ticket

KINDS = ("Revision", "Service", "Endpoints", "EndpointSlice", "ConfigMap")


class Owner:
    """The owner of a queued request."""

    def ticket_assigned(self) -> None: ...

    def ticket_expired(self, *_: object) -> None: ...


async def test_a_request_that_begins_to_wait_has_all_kinds_tried_within_two_seconds(
    server: FakeApiServer, tmp_path: Path
) -> None:
    loop = asyncio.get_running_loop()
    server.put(config_map("config-network"))
    server.put(revision())
    flags = {"kubeconfig": server.kubeconfig(tmp_path), "bind": "127.0.0.1", "autoscaler_url": ""}
    environment = {"POD_NAME": "a", "POD_IP": "10.0.0.9", "SYSTEM_NAMESPACE": "knative-serving"}
    runtime = Runtime(load("run", flags, environment), clock=loop.time)
    async with runtime.lifespan():
        for kind in KINDS:
            await server.watched(kind)
            for verb in ("list", "watch"):
                server.always[kind, verb] = Answer(503)
        await server.hang_up()
        await asyncio.sleep(150)
        quiet = len(server.requests)
        await asyncio.sleep(60)
        assert len(server.requests) - quiet <= 5 * len(KINDS), "nobody waits: long pauses"

        began, before = loop.time(), len(server.requests)
        throttler = runtime.driver.throttler.find("default", "a")
        ticket = Ticket(Owner(), began + 300)
        assert throttler.admit(ticket, began) is None
        runtime.driver.began_waiting(throttler)
        await asyncio.sleep(2.1)
        assert {request.kind for request in server.requests[before:]} == set(KINDS)
        await asyncio.sleep(60)
        asked = len(server.requests) - before
        assert 30 * len(KINDS) <= asked <= 63 * len(KINDS), "between one and two seconds each"

        server.always.clear()
        back = loop.time()
        await server.watched("Endpoints")
        assert loop.time() - back < 2.1
        server.put(private("127.0.0.1"))
        while not list(throttler.backends.pods.values()):  # noqa: ASYNC110 # no event
            await asyncio.sleep(0)
        runtime.driver.cancel(throttler_of(runtime.driver, ticket), ticket, loop.time())

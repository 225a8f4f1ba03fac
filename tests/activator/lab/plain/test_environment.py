"""The interface that scenarios without Knative use, with the real programs."""

from __future__ import annotations

import signal

from activator.lab.objects import HTTP_PROBE
from activator.lab.plain.environment import set_up
from activator.lab.timeline import Timeline, Who
from tests.conftest import on_uvloop
from tests.process import addresses

pytestmark = on_uvloop


async def test_service_wakes_for_a_request_and_the_timeline_has_all_actors():
    timeline = Timeline()
    async with set_up(timeline, addresses()) as environment:
        web = await environment.deploy(probe=HTTP_PROBE)
        assert (web.replicas, web.probed_switches) == (0, {"Ready"})
        where = await web.open(delay=0.0)
        assert (await environment.base.request(web, where=where)).status == 0, "no endpoint"
        response = await environment.base.request(web)
        assert (response.status, web.replicas) == (200, 1)
        await web.until_listed(1)
        assert (await environment.base.request(web, where=where)).status == 200
        view = await environment.until_scaler(web, "is awake", "phase", "awake")
        assert view["target"] == "Deployment/web"
        assert environment.events("web") == []
        web.scale(2)
        await web.until_listed(2)
        await environment.base.until(lambda: len(web.endpoints) == 2, "clients reach both pods")
    actors = {entry.who for entry in timeline.entries}
    assert actors >= {Who.CLIENT, Who.KUBERNETES, Who.ACTIVATOR, Who.SCALER, Who.POD}
    texts = [entry.what for entry in timeline.entries]
    assert "Deployment web: replicas 0 -> 1" in texts
    assert "EndpointSlices of web: ready web-1" in texts


async def test_scaler_comes_back_at_its_address_after_a_fault():
    async with set_up(Timeline(), addresses()) as environment:
        web = await environment.deploy()
        before = environment.scaler.reports
        await environment.stop_scaler(signal.SIGTERM)
        environment.cut_api_server()
        waiting = environment.base.start_request(web)
        await web.until_view("a request waits", lambda view: view["queued"] == 1)
        environment.restore_api_server()
        await environment.start_scaler()
        assert environment.scaler.reports == before
        assert (await waiting).status == 200

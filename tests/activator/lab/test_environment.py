"""The interface that scenarios use, with the real programs."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from activator.lab import handles
from activator.lab.environment import Environment, set_up
from activator.lab.handles import AppHandle, Overdue
from activator.lab.kubelet import KubeletStep
from activator.lab.objects import HTTP_PROBE
from activator.lab.timeline import Timeline, Who
from tests.conftest import on_uvloop
from tests.process import addresses


async def test_the_actions_of_all_parts_are_in_the_timeline():
    timeline = Timeline()
    async with set_up(timeline, addresses()) as environment:
        app = await environment.deploy(timeout=20)
        response = await environment.request(app, "/status?code=201")
        waiting = environment.start_request(app)
        assert (await waiting).status == 200
        async with environment.load(app, rate=200, posts=2) as load:
            await load.more(4)
        await environment.settle()
        folder = environment.manifests
    assert response.status == 201
    assert set(load.statuses("GET")) == set(load.statuses("POST")) == {200}
    assert not folder.exists()
    happened = [(entry.who, entry.what.partition(" after ")[0]) for entry in timeline.entries]
    assert (Who.CLIENT, "GET /status?code=201: 201") in happened
    assert (Who.CLIENT, "GET /: sent") in happened
    assert (Who.CLIENT, "GET /: 200") in happened
    assert (Who.POD, "app-1: listens") in happened
    assert (Who.KUBERNETES, "Endpoints of app: addresses app-1; notReadyAddresses none") in happened
    assert any(who is Who.ACTIVATOR and w.startswith("app: 127.") for who, w in happened)


async def test_client_without_a_response_is_no_crash():
    async with set_up(Timeline(), addresses()) as environment:
        app = await environment.deploy(pods=0, timeout=20)
        waiting = environment.start_request(app)
        await app.until_view("a request waits", lambda view: view["queued"] == 1)
        await environment.activator.close()
        assert (await waiting).status == 0


async def test_view_that_does_not_come_is_overdue_with_what_there_is(monkeypatch):
    async with set_up(Timeline(), addresses()) as found:
        app = await found.deploy(pods=0, timeout=20)
        await app.until_view("is known", lambda view: view["queued"] == 0)
        monkeypatch.setattr(handles, "PATIENCE", 0.2)
        with pytest.raises(Overdue, match="app: two wait; its state: 0 queued, reason None"):
            await app.until_view("two wait", lambda view: view["queued"] == 2)


async def test_log_lines_and_events_have_the_time_at_which_they_were_written(tmp_path):
    timeline = Timeline()
    found = Environment(tmp_path, timeline, addresses(), None)  # type: ignore[arg-type] # starts no task
    at = found.moment("2026-01-02T03:04:05.123456789Z")
    assert at is not None
    assert found.moment("2026-01-02T03:04:06.123Z") == pytest.approx(at + 1, abs=0.001)
    assert found.moment("soon") is None
    assert found.moment(None) is None


async def test_pods_are_switched_asked_and_ended():
    timeline = Timeline()
    async with set_up(timeline, addresses()) as environment:
        app = await environment.deploy(pods=2, timeout=20)
        pod, other = app.pods
        assert pod.name != other.name
        await pod.switch("Ready", "it is not ready")
        await pod.until("not ready")
        assert not pod.process.ready
        assert (await pod.probe_as_kubelet()).status == 503
        assert (await pod.request_directly()).status == 200
        assert (await pod.counters())["requests"] == 1
        pod.process.pause(KubeletStep.CHECK)
        await pod.switch("Ready", "it is ready again")
        assert (await pod.probe_as_kubelet()).body == "queue"
        pod.process.resume(KubeletStep.CHECK)
        await app.until_ready()
        other.terminate()
        await other.until("stopped")
        view = await app.until_view("one is left", lambda view: len(view["pods"]) == 1)
        assert view["pods"][0]["uid"] == pod.process.uid
    happened = [entry.what for entry in timeline.entries]
    assert "app-1: it is not ready (/toggleReady)" in happened
    assert "app-2: is terminating" in happened


async def test_revision_that_the_activator_does_not_know_is_an_error():
    async with set_up(Timeline(), addresses()) as environment:
        app = await environment.deploy(pods=0, timeout=20)
        app.name = "other"
        with pytest.raises(ConnectionError, match="does not know other"):
            await app.view()


pytestmark = on_uvloop


async def test_service_wakes_for_a_request_and_the_timeline_has_all_actors():
    timeline = Timeline()
    async with set_up(timeline, addresses(), is_plain=True) as environment:
        web = await environment.deploy_service(probe=HTTP_PROBE)
        assert (web.replicas, web.probed_switches) == (0, {"Ready"})
        proxy = await environment.cluster.open(web.name, delay=0.0)
        assert (await environment.request(web, where=proxy.where)).status == 0, "no endpoint"
        response = await environment.request(web)
        assert (response.status, web.replicas) == (200, 1)
        await web.until_listed(1)
        assert (await environment.request(web, where=proxy.where)).status == 200
        view = await web.until_view(
            "is awake", lambda view: view.get("phase") == "awake", Who.SCALER
        )
        assert view["target"] == "Deployment/web"
        assert environment.events("web") == []
        web.scale(2)
        await web.until_listed(2)
        await environment.until(lambda: len(proxy.endpoints) == 2, "clients reach both pods")
    actors = {entry.who for entry in timeline.entries}
    assert actors >= {Who.CLIENT, Who.KUBERNETES, Who.ACTIVATOR, Who.SCALER, Who.POD}
    texts = [entry.what for entry in timeline.entries]
    assert "Deployment web: replicas 0 -> 1" in texts
    assert "EndpointSlices of web: ready web-1" in texts


async def test_scaler_comes_back_at_its_address_after_a_fault():
    async with set_up(Timeline(), addresses(), is_plain=True) as environment:
        web = await environment.deploy_service()
        before = environment.scaler.reports
        await environment.stop_scaler(signal.SIGTERM)
        environment.cut_api_server()
        waiting = environment.start_request(web)
        await web.until_view("a request waits", lambda view: view["queued"] == 1)
        environment.restore_api_server()
        await environment.start_scaler()
        assert environment.scaler.reports == before
        assert (await waiting).status == 200


class Silent:
    """Programs that do not know the Service."""

    scaler: Any

    def __init__(self) -> None:
        self.scaler = self.activator = self

    async def get(self, path: str) -> None:
        self.path = path


async def test_service_that_is_not_known_yet_is_a_lost_connection():
    silent = Silent()
    handle = AppHandle(silent, "web", frozenset(), is_plain=True)  # type: ignore[arg-type] # only what it uses
    with pytest.raises(ConnectionError, match="the activator does not know web"):
        await handle.view()
    assert silent.path == "/api/v1/revisions/default/web?kind=service"
    with pytest.raises(ConnectionError, match="the scaler does not know web"):
        await handle.view(Who.SCALER)
    assert handle.pods == []

"""The interface that scenarios use, with a real activator and pods."""

from __future__ import annotations

import pytest

from activator.lab import environment
from activator.lab.environment import Environment, Overdue, set_up
from activator.lab.timeline import Timeline, Who
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
    told = [(entry.who, entry.what.partition(" after ")[0]) for entry in timeline.entries]
    assert (Who.CLIENT, "GET /status?code=201: 201") in told
    assert (Who.CLIENT, "GET /: sent") in told
    assert (Who.CLIENT, "GET /: 200") in told
    assert (Who.POD, "app-1: listens") in told
    assert (Who.KUBERNETES, "Endpoints of app: addresses app-1; notReadyAddresses none") in told
    assert any(who is Who.ACTIVATOR and w.startswith("app: 127.") for who, w in told)


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
        monkeypatch.setattr(environment, "PATIENCE", 0.2)
        with pytest.raises(Overdue, match="app: two wait; its state: 0 queued, reason None"):
            await app.until_view("two wait", lambda view: view["queued"] == 2)


async def test_log_lines_and_events_have_the_time_at_which_they_were_written(tmp_path):
    timeline = Timeline()
    found = Environment(tmp_path, timeline, addresses(), None)  # type: ignore[arg-type] # starts no task
    at = found._moment("2026-01-02T03:04:05.123456789Z")
    assert at is not None
    assert found._moment("2026-01-02T03:04:06.123Z") == pytest.approx(at + 1, abs=0.001)
    assert found._moment("soon") is None
    assert found._moment(None) is None

from __future__ import annotations

import pytest

from activator.lab.environment import set_up
from activator.lab.kubelet import KubeletStep
from activator.lab.timeline import Timeline
from tests.process import addresses


async def test_pods_are_switched_asked_and_ended():
    timeline = Timeline()
    async with set_up(timeline, addresses()) as environment:
        app = await environment.deploy(pods=2, timeout=20)
        pod, other = app.pods
        assert pod.name != other.name
        await pod.switch("Ready", "it is not ready")
        await pod.until("not ready")
        assert not pod.listed_ready
        assert (await pod.probe_as_kubelet()).status == 503
        assert (await pod.request_directly()).status == 200
        assert (await pod.counters())["requests"] == 1
        pod.pause(KubeletStep.CHECK)
        await pod.switch("Ready", "it is ready again")
        assert (await pod.probe_as_kubelet()).body == "queue"
        pod.resume(KubeletStep.CHECK)
        await app.until_ready()
        app.terminate(other)
        await other.until("stopped")
        view = await app.until_view("one is left", lambda view: len(view["pods"]) == 1)
        assert view["pods"][0]["uid"] == pod.uid
    told = [entry.what for entry in timeline.entries]
    assert "app-1: it is not ready (/toggleReady)" in told
    assert "app-2: is terminating" in told


async def test_revision_that_the_activator_does_not_know_is_an_error():
    async with set_up(Timeline(), addresses()) as environment:
        app = await environment.deploy(pods=0, timeout=20)
        app.name = "other"
        with pytest.raises(ConnectionError, match="does not know other"):
            await app.view()

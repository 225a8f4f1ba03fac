"""Scenario 6: a sidecar is not ready. A new queue-proxy polls it; an older one needs a policy."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from activator.lab.kubelet import Step
from activator.lab.scenario import Scenario
from activator.lab.stage import QUICK, Stage
from activator.lab.staged import App

ANNOTATION = "activator.dev/readiness-policy"
SIDECAR = {"readinessProbe": {"httpGet": {"path": "/ready", "port": 8099}}}


async def script(stage: Stage) -> None:
    """Play it; see activator.lab.scenario."""
    polled, older, policy = await asyncio.gather(
        _deploy(stage, "polled", polls_sidecar=True),
        _deploy(stage, "older"),
        _deploy(stage, "older-by-policy", {ANNOTATION: "kubernetes"}),
    )
    for app in (polled, older, policy):
        await app.pods[0].switch("SidecarReady", "the readiness probe of its sidecar fails")
    for app in (polled, older, policy):
        await app.until_view(
            "Kubernetes lists its pod as not ready",
            lambda view: view["pods"][0]["kubernetes"] == "not-ready",
        )
    await _queue_proxy_must_say(stage, polled, 503)
    await _queue_proxy_must_say(stage, older, 200)

    reply = await stage.ask(older)
    stage.expect("requests go to the pod of older by default", reply.status == 200, reply)
    polled.pods[0].hold(Step.CHECK)  # so that Kubernetes still lists it as not ready
    await _must_wait(stage, polled, "probe-failed")
    listed = (await polled.view())["pods"][0]["kubernetes"]
    stage.expect("before Kubernetes lists the pod as ready", listed == "not-ready", listed)
    await _must_wait(stage, policy, "kubernetes-policy")


async def _deploy(
    stage: Stage,
    name: str,
    annotations: dict[str, str] | None = None,
    *,
    polls_sidecar: bool = False,
) -> App:
    return await stage.deploy(
        name,
        probes=replace(QUICK, sidecar_readiness=True),
        pod={"polls_sidecar": polls_sidecar},
        sidecar=SIDECAR,
        timeout=20,
        annotations=annotations,
    )


async def _queue_proxy_must_say(stage: Stage, app: App, status: int) -> None:
    found = await app.pods[0].asked_as_kubelet()
    stage.expect(f"queue-proxy of {app.name} says {status}", found.status == status, found)


async def _must_wait(stage: Stage, app: App, rule: str) -> None:
    waiting = stage.begin(app)
    await app.until_view(
        f"a request waits, as the rule says: {rule}",
        lambda view: view["queued"] == 1 and view["pods"][0]["decidedBy"] == rule,
    )
    before = (await app.pods[0].counters())["requests"]
    stage.expect(f"the pod of {app.name} gets no request", before == 0, before)
    await app.pods[0].switch("SidecarReady", "the readiness probe of its sidecar passes again")
    reply = await waiting
    stage.expect("it is served when the sidecar is ready again", reply.status == 200, reply)


SCENARIO = Scenario(
    6,
    "sidecar-readiness",
    "Readiness of a sidecar fails, with two containers",
    knative="holds requests if queue-proxy polls the sidecar. An older queue-proxy does not: "
    "requests still go to the pod, although they should wait.",
    ours="a request is served as soon as queue-proxy finds the sidecar ready again. For an older "
    "queue-proxy, the readiness policy kubernetes also requires that Kubernetes lists the pod as "
    "ready.",
    script=script,
)

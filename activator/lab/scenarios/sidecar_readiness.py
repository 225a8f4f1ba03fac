"""Scenario 6: a sidecar is not ready, which queue-proxy does not see; the rule decides."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from activator.lab.scenario import Scenario
from activator.lab.stage import QUICK, Stage
from activator.lab.staged import App

ANNOTATION = "activator.dev/readiness-policy"
SIDECAR = {"readinessProbe": {"httpGet": {"path": "/ready", "port": 8099}}}


async def script(stage: Stage) -> None:
    """Play it; see activator.lab.scenario."""
    auto, probe, kubernetes = await asyncio.gather(
        _deploy(stage, "auto", ""),
        _deploy(stage, "probe", "probe"),
        _deploy(stage, "kubernetes", "kubernetes"),
    )
    for app in (auto, probe, kubernetes):
        await app.pods[0].switch("SidecarReady", "the readiness probe of its sidecar fails")
    for app in (auto, probe, kubernetes):
        await app.until_view(
            "Kubernetes lists its pod as not ready",
            lambda view: view["pods"][0]["kubernetes"] == "not-ready",
        )
    queue_proxy = await auto.pods[0].asked_as_kubelet()
    stage.expect("queue-proxy still says 200 queue", queue_proxy.body == "queue", queue_proxy)

    reply = await stage.ask(probe)
    stage.expect("with the rule probe, requests are still served", reply.status == 200, reply)
    for app, rule in ((auto, "sidecar-readiness-probe"), (kubernetes, "kubernetes-policy")):
        await _must_wait(stage, app, rule)


async def _deploy(stage: Stage, name: str, policy: str) -> App:
    return await stage.deploy(
        name,
        probes=replace(QUICK, sidecar_readiness=True),
        sidecar=SIDECAR,
        timeout=20,
        annotations={ANNOTATION: policy} if policy else None,
    )


async def _must_wait(stage: Stage, app: App, rule: str) -> None:
    waiting = stage.begin(app)
    await app.until_view(
        f"a request waits, as the rule says: {rule}",
        lambda view: view["queued"] == 1 and view["pods"][0]["decidedBy"] == rule,
    )
    before = (await app.pods[0].counters())["requests"]
    stage.expect(f"with the rule {app.name}, the pod is sent nothing", before == 0, before)
    await app.pods[0].switch("SidecarReady", "the readiness probe of its sidecar passes again")
    reply = await waiting
    stage.expect("and is served when the sidecar is ready again", reply.status == 200, reply)


SCENARIO = Scenario(
    6,
    "sidecar-readiness",
    "Readiness of a sidecar fails, with two containers",
    knative="still sends requests, which it should not: it trusts its own probe of queue-proxy, "
    "which knows nothing of the sidecar.",
    ours="a rule for each revision decides, and the API names it: by default Kubernetes' list "
    "counts where a sidecar has a readiness probe.",
    script=script,
)

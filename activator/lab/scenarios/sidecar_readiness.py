"""Scenario 6: a sidecar is not ready. A new queue-proxy polls it; an older one needs a policy."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from activator.lab.environment import QUICK, Environment
from activator.lab.handles import AppHandle
from activator.lab.kubelet import Step
from activator.lab.scenario import Scenario

ANNOTATION = "activator.dev/readiness-policy"
SIDECAR = {"readinessProbe": {"httpGet": {"path": "/ready", "port": 8099}}}


async def script(environment: Environment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    polled, older, policy = await asyncio.gather(
        _deploy(environment, "polled", polls_sidecar=True),
        _deploy(environment, "older"),
        _deploy(environment, "older-by-policy", {ANNOTATION: "kubernetes"}),
    )
    for app in (polled, older, policy):
        await app.pods[0].switch("SidecarReady", "the readiness probe of its sidecar fails")
    for app in (polled, older, policy):
        await app.until_view(
            "Kubernetes lists its pod as not ready",
            lambda view: view["pods"][0]["kubernetes"] == "not-ready",
        )
    await _queue_proxy_must_say(environment, polled, 503)
    await _queue_proxy_must_say(environment, older, 200)

    response = await environment.request(older)
    environment.expect(
        "by default, requests go to the pod of older", response.status == 200, response
    )
    polled.pods[0].pause(Step.CHECK)  # so that Kubernetes still lists it as not ready
    await _must_wait(environment, polled, "probe-failed")
    listed = (await polled.view())["pods"][0]["kubernetes"]
    environment.expect("before Kubernetes lists the pod as ready", listed == "not-ready", listed)
    await _must_wait(environment, policy, "kubernetes-policy")


async def _deploy(
    environment: Environment,
    name: str,
    annotations: dict[str, str] | None = None,
    *,
    polls_sidecar: bool = False,
) -> AppHandle:
    return await environment.deploy(
        name,
        probes=replace(QUICK, sidecar_readiness=True),
        pod={"polls_sidecar": polls_sidecar},
        sidecar=SIDECAR,
        timeout=20,
        annotations=annotations,
    )


async def _queue_proxy_must_say(environment: Environment, app: AppHandle, status: int) -> None:
    found = await app.pods[0].probe_as_kubelet()
    environment.expect(
        f"queue-proxy of {app.name} responds {status}", found.status == status, found
    )


async def _must_wait(environment: Environment, app: AppHandle, rule: str) -> None:
    waiting = environment.start_request(app)
    await app.until_view(
        f"a request waits, decided by {rule}",
        lambda view: view["queued"] == 1 and view["pods"][0]["decidedBy"] == rule,
    )
    before = (await app.pods[0].counters())["requests"]
    environment.expect(f"the pod of {app.name} gets no request", before == 0, before)
    await app.pods[0].switch("SidecarReady", "the readiness probe of its sidecar passes again")
    response = await waiting
    environment.expect(
        "the request gets 200 when the sidecar is ready again", response.status == 200, response
    )


SCENARIO = Scenario(
    6,
    "sidecar-readiness",
    "Readiness of a sidecar fails, with two containers",
    knative="queues requests if queue-proxy polls the sidecar. An older queue-proxy does not: "
    "requests still go to the pod, although they should wait.",
    here="requests go to the pod as soon as queue-proxy reports the sidecar as ready again. For an "
    "older queue-proxy, the readiness policy kubernetes also requires that Kubernetes lists the "
    "pod as ready.",
    script=script,
)

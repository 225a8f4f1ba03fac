"""Scenario 10: how kubelet and cloud load balancers probe, and how we do."""

from __future__ import annotations

import time

from activator.lab.client import fetch, open_and_close
from activator.lab.scenario import Scenario
from activator.lab.stage import Stage
from activator.lab.staged import App
from activator.lab.timeline import Who

#: Connections of a load balancer's TCP probe.
CONNECTIONS = 20
KUBELET = {"User-Agent": "kube-probe/1.29", "Accept": "*/*", "Connection": "close"}


async def script(stage: Stage) -> None:
    """Play it; see activator.lab.scenario."""
    app = await stage.deploy(timeout=20)
    (pod,) = app.pods
    before = (await pod.counters())["requests"]
    await _as_kubelet(stage)
    await _as_load_balancer(stage, app)
    counters = await pod.counters()
    extra = counters["requests"] - before
    stage.expect("none of them reaches a pod", extra == 0, f"{extra} requests")

    reply = await stage.ask(app)
    stage.expect("a request is answered as ever", reply.status == 200, reply)
    probes = counters["lastProbes"]
    ours = probes.get("Knative-Activator-Probe", [])
    known = {"GET /healthz", "K-Network-Probe: queue", "User-Agent: Knative-Activator-Probe"}
    stage.expect("our own probe is one that queue-proxy knows", known <= set(ours), ours)


async def _as_kubelet(stage: Stage) -> None:
    host, port = stage.activator.traffic
    for target in ("/healthz", "/any/path"):
        reply = await fetch(host, port, target, headers=KUBELET)
        stage.note(Who.CLIENT, f"kubelet: GET {target}: {reply.status}")
        stage.expect("kubelet's probe is answered 200, whatever its path", reply.status == 200)


async def _as_load_balancer(stage: Stage, app: App) -> None:
    stage.note(Who.CLIENT, f"a load balancer: {CONNECTIONS} connections without a byte")
    # The activator writes its log late: only the times of the lines say which ones are of before.
    await app.until_view(
        "Kubernetes lists the pod as ready",
        lambda view: [pod["kubernetes"] for pod in view["pods"]] == ["ready"],
    )
    began = time.monotonic()
    for _ in range(CONNECTIONS):
        await open_and_close(*stage.activator.traffic)
    view = await app.view()
    await stage.settle()
    told = sum(moment >= began for moment in stage.log_moments)
    stage.expect("connections without a byte are worth no line of the log", told == 0, told)
    held = (view["queued"], view["inFlight"])
    stage.expect("and are no requests", held == (0, 0), held)


SCENARIO = Scenario(
    10,
    "probes-of-others",
    "kubelet's probes and a cloud load balancer's",
    knative="answers kubelet itself, on any path, and takes no notice of connections without a "
    "byte.",
    ours="the same; our own probe of a pod is one that queue-proxy knows.",
    script=script,
)

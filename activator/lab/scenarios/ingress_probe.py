"""Scenario 11: an ingress asks whether its configuration has arrived."""

from __future__ import annotations

from activator.lab.scenario import Scenario
from activator.lab.stage import Stage
from activator.lab.staged import App

HASH = "cafe0123"
PROBE = {
    "User-Agent": "Knative-Ingress-Probe",
    "K-Network-Probe": "probe",
    "K-Network-Hash": HASH,
}
TARGETS = ("/healthz", "/USN/42/orders", "/")


async def script(stage: Stage) -> None:
    """Play it; see activator.lab.scenario."""
    app = await stage.deploy(timeout=20)
    asleep = await stage.deploy("asleep", pods=0, timeout=20)
    (pod,) = app.pods
    before = (await pod.counters())["requests"]
    for target in TARGETS:
        await _must_echo(stage, app, target)
    await _must_echo(stage, asleep, "/healthz")
    await _must_echo(stage, "nobody", "/healthz")
    after = (await pod.counters())["requests"]
    stage.expect("no pod is asked", after == before, f"{after - before} requests")
    view = await asleep.view()
    stage.expect("and nobody is woken", view["queued"] == 0, view["queued"])


async def _must_echo(stage: Stage, app: App | str, target: str) -> None:
    reply = await stage.ask(app, target, headers=PROBE)
    name = app if isinstance(app, str) else app.name
    stage.expect(
        f"the probe for {name}{target} is answered 200 with its hash",
        (reply.status, reply.headers.get("k-network-hash")) == (200, HASH),
        reply,
    )


SCENARIO = Scenario(
    11,
    "ingress-probe",
    "The ingress's own readiness probe",
    knative="answers 200 with the hash at any path; a 404 here keeps an ingress from ever becoming "
    "ready.",
    ours="the same, for any host: known, asleep or unknown.",
    script=script,
)

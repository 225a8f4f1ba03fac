"""Scenario 11: an ingress checks whether its configuration has arrived."""

from __future__ import annotations

from activator.lab.environment import Environment
from activator.lab.handles import AppHandle
from activator.lab.scenario import Scenario

HASH = "cafe0123"
PROBE = {
    "User-Agent": "Knative-Ingress-Probe",
    "K-Network-Probe": "probe",
    "K-Network-Hash": HASH,
}
TARGETS = ("/healthz", "/USN/42/orders", "/")


async def script(environment: Environment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    app = await environment.deploy(timeout=20)
    asleep = await environment.deploy("asleep", pods=0, timeout=20)
    (pod,) = app.pods
    before = (await pod.counters())["requests"]
    for target in TARGETS:
        await _must_echo(environment, app, target)
    await _must_echo(environment, asleep, "/healthz")
    await _must_echo(environment, "nobody", "/healthz")
    after = (await pod.counters())["requests"]
    environment.expect("no pod gets a request", after == before, f"{after - before} requests")
    view = await asleep.view()
    environment.expect("and no revision scales up", view["queued"] == 0, view["queued"])


async def _must_echo(environment: Environment, app: AppHandle | str, target: str) -> None:
    response = await environment.request(app, target, headers=PROBE)
    name = app if isinstance(app, str) else app.name
    environment.expect(
        f"the probe for {name}{target} gets 200 with its hash",
        (response.status, response.headers.get("k-network-hash")) == (200, HASH),
        response,
    )


SCENARIO = Scenario(
    11,
    "ingress-probe",
    "The ingress's own readiness probe",
    knative="returns 200 with the hash at any path; with a 404, an ingress never becomes ready.",
    here="the same, for any host: of a revision with pods, without pods, or unknown.",
    script=script,
)

"""Probes of kubelet, of load balancers and of the ingress."""

from __future__ import annotations

import time

from activator.lab.client import fetch, open_and_close
from activator.lab.environment import Environment
from activator.lab.handles import AppHandle
from activator.lab.scenario import Scenario
from activator.lab.timeline import Who

#: Connections of a load balancer's TCP probe.
CONNECTIONS = 20
KUBELET = {"User-Agent": "kube-probe/1.29", "Accept": "*/*", "Connection": "close"}


async def probes_of_others(environment: Environment) -> None:
    """Run scenario 10: probes of kubelet, of cloud load balancers, and of the activator."""
    app = await environment.deploy(timeout=20)
    (pod,) = app.pods
    before = (await pod.counters())["requests"]
    await _as_kubelet(environment)
    await _as_load_balancer(environment, app)
    counters = await pod.counters()
    extra = counters["requests"] - before
    environment.expect("none of these probes reaches a pod", extra == 0, f"{extra} requests")

    response = await environment.request(app)
    environment.expect("a request still gets 200", response.status == 200, response)
    probes = counters["lastProbes"]
    ours = probes.get("Knative-Activator-Probe", [])
    known = {"GET /healthz", "K-Network-Probe: queue", "User-Agent: Knative-Activator-Probe"}
    environment.expect(
        "the activator's probe has the form that queue-proxy expects", known <= set(ours), ours
    )


async def _as_kubelet(environment: Environment) -> None:
    host, port = environment.activator.traffic
    for target in ("/healthz", "/any/path"):
        response = await fetch(host, port, target, headers=KUBELET)
        environment.note(Who.CLIENT, f"kubelet: GET {target}: {response.status}")
        environment.expect("kubelet's probe gets 200 at any path", response.status == 200)


async def _as_load_balancer(environment: Environment, app: AppHandle) -> None:
    environment.note(
        Who.CLIENT, f"a load balancer: opens and closes {CONNECTIONS} connections without a byte"
    )
    # The log arrives late: only the time of a line says whether it belongs to the connections.
    await app.until_view(
        "Kubernetes lists the pod as ready",
        lambda view: [pod["kubernetes"] for pod in view["pods"]] == ["ready"],
    )
    began = time.monotonic()
    for _ in range(CONNECTIONS):
        await open_and_close(*environment.activator.traffic)
    view = await app.view()
    await environment.settle()
    lines = sum(moment >= began for moment in environment.log_moments)
    environment.expect("connections without a byte cause no log line", lines == 0, lines)
    held = (view["queued"], view["inFlight"])
    environment.expect("and do not count as requests", held == (0, 0), held)


PROBES_OF_OTHERS = Scenario(
    10,
    "probes-of-others",
    "Probes of kubelet and of a cloud load balancer",
    knative="responds to kubelet itself, at any path, and ignores connections without a byte.",
    here="the same; its own probe of a pod has the form that queue-proxy expects.",
    script=probes_of_others,
)


HASH = "cafe0123"
PROBE = {
    "User-Agent": "Knative-Ingress-Probe",
    "K-Network-Probe": "probe",
    "K-Network-Hash": HASH,
}
TARGETS = ("/healthz", "/USN/42/orders", "/")


async def ingress_probe(environment: Environment) -> None:
    """Run scenario 11: an ingress checks whether its configuration has arrived."""
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


INGRESS_PROBE = Scenario(
    11,
    "ingress-probe",
    "The ingress's own readiness probe",
    knative="returns 200 with the hash at any path; with a 404, an ingress never becomes ready.",
    here="the same, for any host: of a revision with pods, without pods, or unknown.",
    script=ingress_probe,
)

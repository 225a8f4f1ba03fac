"""A pod is not ready; probes of kubelet, of load balancers and of the ingress."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from activator.lab.environment import QUICK, Environment
from activator.lab.handles import AppHandle, verdict
from activator.lab.kubelet import KubeletStep
from activator.lab.programs import fetch, open_and_close
from activator.lab.scenario import scenario
from activator.lab.timeline import Who

TIMEOUT = 3


@scenario(1, "exec-readiness")
async def exec_readiness(lab: Environment) -> None:
    """An exec readiness probe fails, with one container.

    Knative: queues each request until the pod is ready again, or returns 504 without a reason.

    Here: the same for requests: for an exec probe, only Kubernetes' list counts. The 504 and
    the API give the reason.
    """
    probes = replace(QUICK, exec_readiness=True)
    app = await lab.deploy(probes=probes, pod={"blind": True}, exec_readiness=True, timeout=TIMEOUT)
    (pod,) = app.pods
    lab.expect_200("while the probe passes, a request gets 200", await lab.request(app))

    await pod.switch("Exec", "its exec readiness probe begins to fail")
    await app.until_view(
        "Kubernetes: not ready; activator's probe: passed; decided by exec-readiness-probe",
        # The decision needs one more probe.
        lambda view: (
            verdict(view["pods"][0]) == ["not-ready", "passed", "wait", "exec-readiness-probe"]
        ),
    )
    queue_proxy = await pod.probe_as_kubelet()
    lab.expect("queue-proxy still responds 200 queue", queue_proxy.body == "queue", queue_proxy)
    before = await pod.requests()
    response = await lab.request(app)
    lab.expect(
        f"a request waits for its {TIMEOUT} s and gets 504",
        (response.status, response.body) == (504, "activator request timeout")
        and response.took >= TIMEOUT,
        response,
    )
    reason = response.headers.get("activator-reason", "")
    lab.expect("the 504 has the reason pods-not-ready", reason.startswith("pods-not-ready"), reason)
    after = await pod.requests()
    lab.expect("the pod gets no request", after == before, f"{after - before} requests")

    waiting = lab.start_request(app)
    await app.until_view("a request waits", lambda view: view["queued"] == 1)
    await pod.switch("Exec", "its exec readiness probe passes again")
    lab.expect_200("the queued request gets 200 when the probe passes again", await waiting)


#: Each request gets one of these statuses, so that the test can distinguish them.
STATUSES = (201, 202, 203, 206)


@scenario(5, "readiness")
async def readiness(lab: Environment) -> None:
    """Readiness of the serving container fails, with two containers.

    Knative: queues requests: no backend, capacity 0. They time out, or get responses when the
    probe passes again.

    Here: the same, in the order of their arrival, as soon as the probe passes.
    """
    app = await lab.deploy(
        pod={"container_concurrency": 1}, container_concurrency=1, sidecar={}, timeout=20
    )
    (pod,) = app.pods
    response = await lab.request(app)
    lab.expect_200("while the probe passes, a request gets 200", response)

    await pod.switch("Ready", "the readiness probe of its serving container begins to fail")
    await app.until_kubernetes("not-ready", "Kubernetes lists its pod as not ready")
    queue_proxy = await pod.probe_as_kubelet()
    lab.expect("queue-proxy responds to its probe with 503", queue_proxy.status == 503, queue_proxy)
    waiting = []
    for status in STATUSES:
        waiting.append(lab.start_request(app, f"/status?code={status}"))
        await _until_queued(app, len(waiting))
    lab.expect("none gets a response", not any(task.done() for task in waiting))
    view = await app.view()
    lab.expect_equal("the API has the reason pods-not-ready", view["reason"], "pods-not-ready")
    lab.expect_equal("and the capacity is 0", view["capacity"], 0)

    before = pod.count("responded")
    await pod.switch("Ready", "its readiness probe passes again")
    responses = await asyncio.gather(*waiting)
    found = [response.status for response in responses]
    lab.expect_equal("each gets its response when the probe passes again", found, list(STATUSES))
    await pod.until("responded", before + len(STATUSES))
    order = [details["status"] for kind, details in pod.events if kind == "responded"][before:]
    lab.expect_equal("in the order of their arrival", order, list(STATUSES))


async def _until_queued(app: AppHandle, count: int) -> None:
    what = "one request waits" if count == 1 else f"{count} requests wait"
    await app.until_view(what, lambda view: view["queued"] == count)


ANNOTATION = "activator.dev/readiness-policy"
SIDECAR = {"readinessProbe": {"httpGet": {"path": "/ready", "port": 8099}}}


@scenario(6, "sidecar-readiness")
async def sidecar_readiness(lab: Environment) -> None:
    """Readiness of a sidecar fails, with two containers.

    Knative: queues requests if queue-proxy polls the sidecar. An older queue-proxy does not:
    requests still go to the pod, although they should wait.

    Here: requests go to the pod as soon as queue-proxy reports the sidecar as ready again. For
    an older queue-proxy, the readiness policy kubernetes also requires that Kubernetes lists
    the pod as ready.
    """
    polled, older, policy = await asyncio.gather(
        _deploy(lab, "polled", polls_sidecar=True),
        _deploy(lab, "older"),
        _deploy(lab, "older-by-policy", {ANNOTATION: "kubernetes"}),
    )
    for app in (polled, older, policy):
        await app.pods[0].switch("SidecarReady", "the readiness probe of its sidecar fails")
    for app in (polled, older, policy):
        await app.until_kubernetes("not-ready", "Kubernetes lists its pod as not ready")
    await _queue_proxy_must_say(lab, polled, 503)
    await _queue_proxy_must_say(lab, older, 200)

    lab.expect_200("by default, requests go to the pod of older", await lab.request(older))
    polled.pods[0].process.pause(
        KubeletStep.CHECK
    )  # so that Kubernetes still lists it as not ready
    await _must_wait(lab, polled, "probe-failed")
    listed = (await polled.view())["pods"][0]["kubernetes"]
    lab.expect_equal("before Kubernetes lists the pod as ready", listed, "not-ready")
    await _must_wait(lab, policy, "kubernetes-policy")


async def _deploy(
    lab: Environment,
    name: str,
    annotations: dict[str, str] | None = None,
    *,
    polls_sidecar: bool = False,
) -> AppHandle:
    return await lab.deploy(
        name,
        probes=replace(QUICK, sidecar_readiness=True),
        pod={"polls_sidecar": polls_sidecar},
        sidecar=SIDECAR,
        timeout=20,
        annotations=annotations,
    )


async def _queue_proxy_must_say(lab: Environment, app: AppHandle, status: int) -> None:
    found = await app.pods[0].probe_as_kubelet()
    lab.expect(f"queue-proxy of {app.name} responds {status}", found.status == status, found)


async def _must_wait(lab: Environment, app: AppHandle, rule: str) -> None:
    waiting = lab.start_request(app)
    await app.until_view(
        f"a request waits, decided by {rule}",
        lambda view: view["queued"] == 1 and view["pods"][0]["decidedBy"] == rule,
    )
    before = await app.pods[0].requests()
    lab.expect_equal(f"the pod of {app.name} gets no request", before, 0)
    await app.pods[0].switch("SidecarReady", "the readiness probe of its sidecar passes again")
    lab.expect_200("the request gets 200 when the sidecar is ready again", await waiting)


@scenario(8, "other-port")
async def other_port(lab: Environment) -> None:
    """The readiness probe uses another port than requests.

    Knative: probes only queue-proxy, which probes that port.

    Here: the same: it probes queue-proxy at the port in Endpoints.
    """
    app = await lab.deploy(pod={"readiness_port": 0}, readiness_port=8090, timeout=20)
    (pod,) = app.pods
    lab.expect_200("a request gets 200", await lab.request(app))

    await pod.switch("Ready", "its readiness probe, on a port of its own, begins to fail")
    await app.until_kubernetes("not-ready", "Kubernetes lists its pod as not ready")
    waiting = lab.start_request(app)
    await app.until_view("a request waits", lambda view: view["queued"] == 1)
    await pod.switch("Ready", "its readiness probe passes again")
    lab.expect_200("the queued request gets 200 when the probe passes again", await waiting)

    counters = await pod.counters()
    asked = counters["lastProbes"].get("Knative-Activator-Probe", [])
    host = "Host: {}:{}".format(*pod.process.options.where)
    lab.expect("the activator probes queue-proxy, on the port in Endpoints", host in asked, asked)
    elsewhere = counters["atReadinessPort"]
    lab.expect_equal("and does not probe the application's own port", elsewhere, 0)


#: Connections of a load balancer's TCP probe.
CONNECTIONS = 20
KUBELET = {"User-Agent": "kube-probe/1.29", "Accept": "*/*", "Connection": "close"}


@scenario(10, "probes-of-others")
async def probes_of_others(lab: Environment) -> None:
    """Probes of kubelet and of a cloud load balancer.

    Knative: responds to kubelet itself, at any path, and ignores connections without a byte.

    Here: the same; its own probe of a pod has the form that queue-proxy expects.
    """
    app = await lab.deploy(timeout=20)
    (pod,) = app.pods
    before = await pod.requests()
    await _as_kubelet(lab)
    await _as_load_balancer(lab, app)
    counters = await pod.counters()
    extra = counters["requests"] - before
    lab.expect("none of these probes reaches a pod", extra == 0, f"{extra} requests")

    lab.expect_200("a request still gets 200", await lab.request(app))
    probes = counters["lastProbes"]
    ours = probes.get("Knative-Activator-Probe", [])
    known = {"GET /healthz", "K-Network-Probe: queue", "User-Agent: Knative-Activator-Probe"}
    lab.expect(
        "the activator's probe has the form that queue-proxy expects", known <= set(ours), ours
    )


async def _as_kubelet(lab: Environment) -> None:
    host, port = lab.activator.traffic
    for target in ("/healthz", "/any/path"):
        response = await fetch(host, port, target, headers=KUBELET)
        lab.note(Who.CLIENT, f"kubelet: GET {target}: {response.status}")
        lab.expect("kubelet's probe gets 200 at any path", response.status == 200)


async def _as_load_balancer(lab: Environment, app: AppHandle) -> None:
    lab.note(
        Who.CLIENT, f"a load balancer: opens and closes {CONNECTIONS} connections without a byte"
    )
    # The log arrives late: only the time of a line says whether it belongs to the connections.
    await app.until_view(
        "Kubernetes lists the pod as ready",
        lambda view: [pod["kubernetes"] for pod in view["pods"]] == ["ready"],
    )
    began = time.monotonic()
    for _ in range(CONNECTIONS):
        await open_and_close(*lab.activator.traffic)
    view = await app.view()
    await lab.settle()
    lines = sum(moment >= began for moment in lab.log_moments)
    lab.expect_equal("connections without a byte cause no log line", lines, 0)
    held = (view["queued"], view["inFlight"])
    lab.expect_equal("and do not count as requests", held, (0, 0))


HASH = "cafe0123"
PROBE = {"User-Agent": "Knative-Ingress-Probe", "K-Network-Probe": "probe", "K-Network-Hash": HASH}
TARGETS = ("/healthz", "/USN/42/orders", "/")


@scenario(11, "ingress-probe")
async def ingress_probe(lab: Environment) -> None:
    """The ingress's own readiness probe.

    Knative: returns 200 with the hash at any path; with a 404, an ingress never becomes ready.

    Here: the same, for any host: of a revision with pods, without pods, or unknown.
    """
    app = await lab.deploy(timeout=20)
    asleep = await lab.deploy("asleep", pods=0, timeout=20)
    (pod,) = app.pods
    before = await pod.requests()
    for target in TARGETS:
        await _must_echo(lab, app, target)
    await _must_echo(lab, asleep, "/healthz")
    await _must_echo(lab, "nobody", "/healthz")
    after = await pod.requests()
    lab.expect("no pod gets a request", after == before, f"{after - before} requests")
    view = await asleep.view()
    lab.expect_equal("and no revision scales up", view["queued"], 0)


async def _must_echo(lab: Environment, app: AppHandle | str, target: str) -> None:
    response = await lab.request(app, target, headers=PROBE)
    name = app if isinstance(app, str) else app.name
    what = f"the probe for {name}{target} gets 200 with its hash"
    lab.expect_response(what, response, 200, k_network_hash=HASH)

"""A pod is not ready: by its container's probe, its sidecar's, or on another port."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from activator.lab.environment import QUICK, Environment
from activator.lab.handles import AppHandle, View
from activator.lab.kubelet import KubeletStep
from activator.lab.scenario import Scenario

TIMEOUT = 3


async def exec_readiness(environment: Environment) -> None:
    """Run scenario 1: a failing exec readiness probe, which queue-proxy cannot run."""
    probes = replace(QUICK, exec_readiness=True)
    app = await environment.deploy(
        probes=probes, pod={"blind": True}, exec_readiness=True, timeout=TIMEOUT
    )
    (pod,) = app.pods
    response = await environment.request(app)
    environment.expect(
        "while the probe passes, a request gets 200", response.status == 200, response
    )

    await pod.switch("Exec", "its exec readiness probe begins to fail")
    await app.until_view(
        "Kubernetes: not ready; activator's probe: passed; decided by exec-readiness-probe",
        _has_decided,
    )
    queue_proxy = await pod.probe_as_kubelet()
    environment.expect(
        "queue-proxy still responds 200 queue", queue_proxy.body == "queue", queue_proxy
    )
    before = (await pod.counters())["requests"]
    response = await environment.request(app)
    environment.expect(
        f"a request waits for its {TIMEOUT} s and gets 504",
        (response.status, response.body) == (504, "activator request timeout")
        and response.took >= TIMEOUT,
        response,
    )
    reason = response.headers.get("activator-reason", "")
    environment.expect(
        "the 504 has the reason pods-not-ready", reason.startswith("pods-not-ready"), reason
    )
    after = (await pod.counters())["requests"]
    environment.expect("the pod gets no request", after == before, f"{after - before} requests")

    waiting = environment.start_request(app)
    await app.until_view("a request waits", lambda view: view["queued"] == 1)
    await pod.switch("Exec", "its exec readiness probe passes again")
    response = await waiting
    environment.expect(
        "the queued request gets 200 when the probe passes again", response.status == 200, response
    )


def _has_decided(view: View) -> bool:
    """Return whether the API shows the decision, which needs one more probe."""
    keys = ("kubernetes", "probe", "decision", "decidedBy")
    said = [view["pods"][0][key] for key in keys]
    return said == ["not-ready", "passed", "wait", "exec-readiness-probe"]


EXEC_READINESS = Scenario(
    1,
    "exec-readiness",
    "An exec readiness probe fails, with one container",
    knative="queues each request until the pod is ready again, or returns 504 without a reason.",
    here="the same for requests: for an exec probe, only Kubernetes' list counts. The 504 "
    "and the API give the reason.",
    script=exec_readiness,
)


#: Each request gets one of these statuses, so that the test can distinguish them.
STATUSES = (201, 202, 203, 206)


async def readiness(environment: Environment) -> None:
    """Run scenario 5: the serving container is not ready, and queue-proxy reports it."""
    app = await environment.deploy(
        pod={"container_concurrency": 1}, container_concurrency=1, sidecar={}, timeout=20
    )
    (pod,) = app.pods
    response = await environment.request(app)
    environment.expect(
        "while the probe passes, a request gets 200", response.status == 200, response
    )

    await pod.switch("Ready", "the readiness probe of its serving container begins to fail")
    await app.until_view(
        "Kubernetes lists its pod as not ready",
        lambda view: view["pods"][0]["kubernetes"] == "not-ready",
    )
    queue_proxy = await pod.probe_as_kubelet()
    environment.expect(
        "queue-proxy responds to its probe with 503", queue_proxy.status == 503, queue_proxy
    )
    waiting = []
    for status in STATUSES:
        waiting.append(environment.start_request(app, f"/status?code={status}"))
        await _until_queued(app, len(waiting))
    environment.expect("none gets a response", not any(task.done() for task in waiting))
    view = await app.view()
    reason, capacity = view["reason"], view["capacity"]
    environment.expect("the API has the reason pods-not-ready", reason == "pods-not-ready", reason)
    environment.expect("and the capacity is 0", capacity == 0, capacity)

    before = pod.count("responded")
    await pod.switch("Ready", "its readiness probe passes again")
    responses = await asyncio.gather(*waiting)
    found = [response.status for response in responses]
    environment.expect(
        "each gets its response when the probe passes again", found == list(STATUSES), found
    )
    await pod.until("responded", before + len(STATUSES))
    order = [details["status"] for kind, details in pod.events if kind == "responded"][before:]
    environment.expect("in the order of their arrival", order == list(STATUSES), order)


async def _until_queued(app: AppHandle, count: int) -> None:
    what = "one request waits" if count == 1 else f"{count} requests wait"
    await app.until_view(what, lambda view: view["queued"] == count)


READINESS = Scenario(
    5,
    "readiness",
    "Readiness of the serving container fails, with two containers",
    knative="queues requests: no backend, capacity 0. They time out, or get responses when the "
    "probe passes again.",
    here="the same, in the order of their arrival, as soon as the probe passes.",
    script=readiness,
)


ANNOTATION = "activator.dev/readiness-policy"
SIDECAR = {"readinessProbe": {"httpGet": {"path": "/ready", "port": 8099}}}


async def sidecar_readiness(environment: Environment) -> None:
    """Run scenario 6: a sidecar is not ready, which an older queue-proxy does not poll."""
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
    polled.pods[0].pause(KubeletStep.CHECK)  # so that Kubernetes still lists it as not ready
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


SIDECAR_READINESS = Scenario(
    6,
    "sidecar-readiness",
    "Readiness of a sidecar fails, with two containers",
    knative="queues requests if queue-proxy polls the sidecar. An older queue-proxy does not: "
    "requests still go to the pod, although they should wait.",
    here="requests go to the pod as soon as queue-proxy reports the sidecar as ready again. For an "
    "older queue-proxy, the readiness policy kubernetes also requires that Kubernetes lists the "
    "pod as ready.",
    script=sidecar_readiness,
)


async def other_port(environment: Environment) -> None:
    """Run scenario 8: the readiness probe goes to another port than requests."""
    app = await environment.deploy(pod={"readiness_port": 0}, readiness_port=8090, timeout=20)
    (pod,) = app.pods
    response = await environment.request(app)
    environment.expect("a request gets 200", response.status == 200, response)

    await pod.switch("Ready", "its readiness probe, on a port of its own, begins to fail")
    await app.until_view(
        "Kubernetes lists its pod as not ready",
        lambda view: view["pods"][0]["kubernetes"] == "not-ready",
    )
    waiting = environment.start_request(app)
    await app.until_view("a request waits", lambda view: view["queued"] == 1)
    await pod.switch("Ready", "its readiness probe passes again")
    response = await waiting
    environment.expect(
        "the queued request gets 200 when the probe passes again", response.status == 200, response
    )

    counters = await pod.counters()
    asked = counters["lastProbes"].get("Knative-Activator-Probe", [])
    host = f"Host: {pod.options.address}:{pod.options.port}"
    environment.expect(
        "the activator probes queue-proxy, on the port in Endpoints", host in asked, asked
    )
    elsewhere = counters["atReadinessPort"]
    environment.expect("and does not probe the application's own port", elsewhere == 0, elsewhere)


OTHER_PORT = Scenario(
    8,
    "other-port",
    "The readiness probe uses another port than requests",
    knative="probes only queue-proxy, which probes that port.",
    here="the same: it probes queue-proxy at the port in Endpoints.",
    script=other_port,
)

"""pkg/activator/net/revision_backends_test.go: which endpoints become usable, and when.

Knative's tests count updates on a channel. These tests see an update as a pod that gets requests.
With containerConcurrency 1, as there, the requests in flight show exactly which pods are usable.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.knative.objects import H2C, config_map, private, private_service, revision
from tests.knative.peers import Client, to
from tests.knative.pods import PASSES, UNAVAILABLE, Reaction, ScriptedPod, breaks, http, slowly
from tests.knative.world import NEVER, World

EXEC = {"readinessProbe": {"exec": {"command": ["/ready"]}}}
STARTUP = {"startupProbe": {"httpGet": {"path": "/", "port": 8080}}}


def list_pods(world: World, *ready: ScriptedPod, not_ready: tuple[ScriptedPod, ...] = ()) -> None:
    """Write the private Endpoints."""
    world.apply(private([pod.at for pod in ready], [pod.at for pod in not_ready]))


async def wait_long(world: World, calls: int = 4) -> list[Client]:
    """Send more requests than there are pods, and wait as long as Knative does for an update."""
    clients = await world.calls(calls)
    await world.passes(NEVER)
    return clients


async def cluster_ip_of(
    world: World, *script: Reaction, port_name: str = "http", own_port: bool = False
) -> ScriptedPod:
    """Apply the private Service; return the server at its ClusterIP, which keeps its requests."""
    found = await world.pod(*script, listening=False)
    if own_port:
        found.port = 0
    await found.listen()
    found.holding = True
    world.apply(private_service(found.at, port_name=port_name))
    return found


def network(world: World, **data: str) -> None:
    """Write config-network; keys have ``_`` instead of ``-``."""
    named = {key.replace("_", "-"): value for key, value in data.items()}
    world.apply(config_map("config-network", named))


# TestRevisionWatcher


async def test_TestRevisionWatcher__single_healthy_podIP(world: World) -> None:
    """A ready pod that responds 200 ``queue`` is usable."""
    (pod,) = await world.serving(1, holding=True)
    world.apply(revision(cc=1))
    list_pods(world, pod)
    await wait_long(world)
    assert world.took() == ["pod-0"]
    probe = pod.probes[0]
    assert (probe.method, probe.target, probe.version) == (b"GET", b"/healthz", b"1.1")
    assert probe.all(b"k-network-probe") == [b"queue"]
    assert probe.all(b"user-agent") == [b"Knative-Activator-Probe"]


async def test_TestRevisionWatcher__single_not_ready_but_healthy_podIP(world: World) -> None:
    """A pod that Kubernetes does not list as ready is usable once it passes a probe."""
    (pod,) = await world.serving(1, holding=True)
    world.apply(revision(cc=1))
    list_pods(world, not_ready=(pod,))
    await wait_long(world)
    assert world.took() == ["pod-0"]


async def test_TestRevisionWatcher__single_http2_podIP(world: World) -> None:
    """An h2c revision: the pod's port is ``http2``. The activator still probes over HTTP/1.1."""
    (pod,) = await world.serving(1, holding=True)
    world.apply(revision(cc=1, protocol=H2C), private([pod.at], port_name="http2"))
    await wait_long(world)
    assert world.took() == ["pod-0"]
    assert pod.probes[0].version == b"1.1"


@pytest.mark.parametrize("was_happy", [False, True], ids=["no pods", "no pods, was happy"])
async def test_TestRevisionWatcher__no_pods(world: World, was_happy: bool) -> None:
    """Empty Endpoints, with or without earlier pods: requests wait for the next pod."""
    first, second = await world.serving(2, holding=True)
    world.apply(revision(cc=1))
    if was_happy:
        list_pods(world, first)
        assert await world.outcome(await wait_long(world, 1)) == {"waits": 1}
        first.release()
    list_pods(world)
    await world.passes()
    clients = await wait_long(world, 1)
    assert world.took() == []
    list_pods(world, second)
    await world.until(lambda: second.traffic)
    second.release()
    assert await clients[0].text() == "pod-1"


async def test_TestRevisionWatcher__single_unavailable_podIP(world: World) -> None:
    """A pod that responds 503 is not usable."""
    pod = await world.pod(UNAVAILABLE)
    world.apply(revision(cc=1))
    list_pods(world, pod)
    assert await world.outcome(await wait_long(world)) == {"waits": 4}
    assert pod.probes
    assert not pod.traffic


@pytest.mark.parametrize("listening", [True, False], ids=["broken", "refused"])
async def test_TestRevisionWatcher__single_error_podIP(world: World, listening: bool) -> None:
    """A pod whose connection fails is not usable."""
    pod = await world.pod(breaks, listening=listening)
    world.apply(revision(cc=1))
    list_pods(world, pod)
    assert await world.outcome(await wait_long(world)) == {"waits": 4}
    assert not pod.traffic


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(http(b"queue", 201), id="201"),
        pytest.param(http(b"queue", 404), id="404"),
        pytest.param(http(b"queue", 503), id="503"),
        pytest.param(http(b"queue\n"), id="a line feed"),
        pytest.param(http(b"Queue"), id="upper case"),
        pytest.param(http(b""), id="nothing"),
        pytest.param(http(b"queue" * 1000), id="too much"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nqueue", id="too little"),
        pytest.param(b"no HTTP at all\r\n\r\n", id="nonsense"),
    ],
)
async def test_TestRevisionWatcher__responses_that_do_not_pass(world: World, answer: bytes) -> None:
    """A probe passes only with status 200 and exactly the body ``queue``."""
    pod = await world.pod(answer)
    world.apply(revision(cc=1))
    list_pods(world, pod)
    assert await world.outcome(await wait_long(world, 2)) == {"waits": 2}
    assert pod.probes
    assert not pod.traffic


async def test_TestRevisionWatcher__podIP_slow_ready(world: World) -> None:
    """An error, then 200: the pod is usable after the second probe."""
    pod = await world.pod(breaks, PASSES)
    pod.holding = True
    world.apply(revision(cc=1))
    list_pods(world, pod)
    await wait_long(world)
    assert world.took() == ["pod-0"]
    assert len(pod.probes) == 2


async def test_TestRevisionWatcher__multiple_healthy_podIP(world: World) -> None:
    """Two ready pods and one that is not ready pass their probes: all three are usable."""
    one, two, three = await world.serving(3, holding=True)
    world.apply(revision(cc=1))
    list_pods(world, one, two, not_ready=(three,))
    await wait_long(world)
    assert world.took() == ["pod-0", "pod-1", "pod-2"]


async def test_TestRevisionWatcher__one_healthy_one_unhealthy_podIP(world: World) -> None:
    """Only the healthy one of two pods is usable."""
    bad = await world.pod(UNAVAILABLE)
    good = await world.pod()
    good.holding = True
    world.apply(revision(cc=1))
    list_pods(world, bad, good)
    await wait_long(world)
    assert world.took() == ["pod-1"]


async def test_TestRevisionWatcher__one_healthy_one_unhealthy_podIP_then_both_healthy(
    world: World,
) -> None:
    """Two updates: one pod, then both."""
    late = await world.pod(breaks)
    good = await world.pod()
    late.holding = good.holding = True
    world.apply(revision(cc=1))
    list_pods(world, late, good)
    await wait_long(world, 2)
    assert world.took() == ["pod-1"]
    late.reacts(PASSES)
    await world.passes()
    assert world.took() == ["pod-0", "pod-1"]


async def test_TestRevisionWatcher__single_http2_clusterIP(world: World) -> None:
    """Both pods respond 503, and the ClusterIP passes its probe: requests go to the ClusterIP.

    Its capacity is that of the one *ready* pod.
    """
    ready, not_ready = await world.pod(UNAVAILABLE), await world.pod(UNAVAILABLE)
    cluster_ip = await cluster_ip_of(world, port_name="http2")
    world.apply(revision(cc=1, protocol=H2C))
    world.apply(private([ready.at], [not_ready.at], port_name="http2"))
    await wait_long(world)
    assert world.load() == {cluster_ip.name: 1}


async def test_TestRevisionWatcher__clusterIP_slow_ready_no_pod_addressability(
    world: World,
) -> None:
    """The pod responds 503; the ClusterIP fails once, then passes: requests go there."""
    pod = await world.pod(UNAVAILABLE)
    cluster_ip = await cluster_ip_of(world, breaks, PASSES)
    world.apply(revision(cc=1))
    list_pods(world, pod)
    await world.calls(4)
    await world.until(lambda: cluster_ip.in_flight, "the ClusterIP is used")
    assert world.load() == {cluster_ip.name: 1}
    assert len(cluster_ip.probes) == 2


async def test_TestRevisionWatcher__clusterIP_ready_no_pod_addressability(world: World) -> None:
    """The port is the Service's, found by its name; the port of the Endpoints differs."""
    pod = await world.pod(UNAVAILABLE)
    cluster_ip = await cluster_ip_of(world, own_port=True)
    assert cluster_ip.port != pod.port
    world.apply(revision(cc=1))
    list_pods(world, pod)
    await wait_long(world)
    assert world.load() == {cluster_ip.name: 1}


async def test_TestRevisionWatcher__clusterIP_ready_pod_fails_with_non_mesh_error_then_succeeds(
    world: World,
) -> None:
    """500, then 200: the pod is usable after the second probe.

    The healthy ClusterIP gets no request: a 500 proves that no mesh is in front of the pod.
    """
    pod = await world.pod(http(status=500), http(status=500), PASSES)
    pod.holding = True
    cluster_ip = await cluster_ip_of(world)
    world.apply(revision(cc=1))
    list_pods(world, pod)
    await wait_long(world)
    assert world.took() == ["pod-0"]
    assert not cluster_ip.traffic


async def test_TestRevisionWatcher__one_pod_proves_that_there_is_no_mesh(world: World) -> None:
    """A ready pod responds 503, another pod 404: a 404 proves that there is no mesh.

    So the ClusterIP gets no request.
    """
    ready, not_ready = await world.pod(UNAVAILABLE), await world.pod(http(status=404))
    cluster_ip = await cluster_ip_of(world)
    world.apply(revision(cc=1))
    list_pods(world, ready, not_ready=(not_ready,))
    assert await world.outcome(await wait_long(world)) == {"waits": 4}
    assert not cluster_ip.traffic


async def test_TestRevisionWatcher__a_later_proof_ends_the_clusterIPs_use(world: World) -> None:
    """A pod responds 503, so the ClusterIP is usable. After a 500 neither is."""
    pod = await world.pod(UNAVAILABLE)
    cluster_ip = await cluster_ip_of(world)
    world.apply(revision(cc=1))
    list_pods(world, pod)
    clients = await wait_long(world, 2)
    assert world.load() == {cluster_ip.name: 1}
    pod.reacts(http(status=500))
    await world.passes(2)
    cluster_ip.release()
    await world.passes(NEVER)
    assert await world.outcome(clients) == {cluster_ip.name: 1, "waits": 1}


async def test_TestRevisionWatcher__passthrough_lb_clusterIP_ready_but_no_fallback(
    world: World,
) -> None:
    """Pods are addressable through the mesh: a 503 is a failure, and the ClusterIP is unused."""
    pod = await world.pod(UNAVAILABLE)
    cluster_ip = await cluster_ip_of(world)
    network(world, enable_mesh_pod_addressability="true")
    world.apply(revision(cc=1))
    list_pods(world, pod)
    assert await world.outcome(await wait_long(world)) == {"waits": 4}
    assert not cluster_ip.probes
    assert pod.probes[0].all(b"k-passthrough-lb") == [b"true"]
    assert pod.probes[0].all(b"host") == [b"real-name-private.real-namespace"]


async def test_TestRevisionWatcher__mesh_mode_enabled_pod_ready_but_should_still_use_cluster_IP(
    world: World,
) -> None:
    """Mode ``enabled``: a healthy pod gets no request, and not even a probe."""
    pod = await world.pod()
    cluster_ip = await cluster_ip_of(world)
    network(world, mesh_compatibility_mode="enabled")
    world.apply(revision(cc=1))
    list_pods(world, pod)
    await wait_long(world)
    assert world.load() == {cluster_ip.name: 1}
    assert not pod.probes


async def test_TestRevisionWatcher__mesh_mode_enabled_and_pods_addressable(world: World) -> None:
    """Mode ``enabled`` with addressable pods: pods are usable.

    Knative uses neither pods nor ClusterIP, and requests wait until their deadline.
    """
    (pod,) = await world.serving(1, holding=True)
    await cluster_ip_of(world)
    network(world, mesh_compatibility_mode="enabled", enable_mesh_pod_addressability="true")
    world.apply(revision(cc=1))
    list_pods(world, pod)
    await wait_long(world)
    assert world.took() == ["pod-0"]


async def test_TestRevisionWatcher__mesh_mode_disabled_pod_initially_returns_mesh_error(
    world: World,
) -> None:
    """Mode ``disabled``: a pod that responds 503, then 200, is usable; the ClusterIP never is."""
    pod = await world.pod(UNAVAILABLE, PASSES)
    pod.holding = True
    cluster_ip = await cluster_ip_of(world)
    network(world, mesh_compatibility_mode="disabled")
    world.apply(revision(cc=1))
    list_pods(world, not_ready=(pod,))
    await wait_long(world)
    assert world.took() == ["pod-0"]
    assert len(pod.probes) == 2
    assert not cluster_ip.probes


async def test_TestRevisionWatcher__ready_pod_in_k8s_api_when_mesh_compat_disabled(
    world: World,
) -> None:
    """Mode ``disabled``: a pod listed as ready is usable although each probe fails."""
    pod = await world.pod(UNAVAILABLE)
    pod.holding = True
    network(world, mesh_compatibility_mode="disabled")
    world.apply(revision(cc=1))
    list_pods(world, pod)
    await wait_long(world)
    assert world.took() == ["pod-0"]


async def test_TestRevisionWatcher__the_clusterIP_is_no_latch(world: World) -> None:
    """At start-up pods respond 503 for longer than the ClusterIP, which is therefore usable.

    Once a pod passes a probe, requests go to pods again. Knative uses the ClusterIP until the
    Endpoints object is created again.
    """
    pod = await world.pod(UNAVAILABLE)
    cluster_ip = await cluster_ip_of(world)
    pod.holding = True
    world.apply(revision(cc=1))
    list_pods(world, pod)
    await wait_long(world, 2)
    assert world.load() == {cluster_ip.name: 1}
    pod.reacts(PASSES)
    await world.until(lambda: pod.in_flight, "the pod is used")
    assert world.load() == {cluster_ip.name: 1, "pod-0": 1}, "a request in flight stays at its pod"
    cluster_ip.release()
    pod.release()
    pod.holding = False
    assert (await world.ask()).body == b"pod-0"
    assert len(cluster_ip.traffic) == 1


# TestRevisionBackendManagerAddEndpoint


async def test_TestRevisionBackendManagerAddEndpoint__add_slow_healthy(world: World) -> None:
    """Endpoints arrive, the pod responds 503, then 200: it is usable."""
    pod = await world.pod(UNAVAILABLE, PASSES)
    pod.holding = True
    world.apply(revision(cc=1))
    await world.passes()
    list_pods(world, pod)
    await wait_long(world)
    assert world.took() == ["pod-0"]


async def test_TestRevisionBackendManagerAddEndpoint__add_slow_ready_http2(world: World) -> None:
    """The same for an h2c revision: its port is ``http2``, not ``http``."""
    pod = await world.pod(UNAVAILABLE, PASSES)
    other = await world.pod()
    pod.holding = True
    world.apply(revision(cc=1, protocol=H2C), private([other.at], port_name="http"))
    await wait_long(world, 1)
    assert world.took() == []
    world.apply(private([pod.at], port_name="http2"))
    await world.passes()
    assert world.took() == ["pod-0"]


async def test_TestRevisionBackendManagerAddEndpoint__multiple_revisions(world: World) -> None:
    """Two Endpoints objects make two sets of pods, each with its own port number."""
    one, two = await world.serving(2)
    await two.refuse()
    two.port = 0  # any other port
    await two.listen()
    assert one.port != two.port
    world.apply(revision("rev-1", cc=1), revision("rev-2", cc=1))
    world.apply(private([one.at], name="rev-1"), private([two.at], name="rev-2"))
    assert await (await world.call(to("rev-1"))).text() == "pod-0"
    assert await (await world.call(to("rev-2"))).text() == "pod-1"


async def test_TestRevisionBackendManagerAddEndpoint__no_pods_available_but_non_mesh_related_error(
    world: World,
) -> None:
    """The pod responds 404, which no mesh does: the healthy ClusterIP gets no request."""
    pod = await world.pod(http(status=404))
    cluster_ip = await cluster_ip_of(world)
    world.apply(revision(cc=1))
    list_pods(world, pod)
    assert await world.outcome(await wait_long(world)) == {"waits": 4}
    assert not cluster_ip.traffic


async def test_TestRevisionBackendManagerAddEndpoint__no_pod_addressability(world: World) -> None:
    """The pod responds 503 and the ClusterIP is healthy: requests go to the ClusterIP."""
    pod = await world.pod(UNAVAILABLE)
    cluster_ip = await cluster_ip_of(world)
    world.apply(revision(cc=1))
    list_pods(world, pod)
    await wait_long(world)
    assert world.load() == {cluster_ip.name: 1}
    assert not pod.traffic


async def test_TestRevisionBackendManagerAddEndpoint__unhealthy(world: World) -> None:
    """The pod responds 503 and the ClusterIP fails: neither is usable."""
    pod = await world.pod(UNAVAILABLE)
    cluster_ip = await cluster_ip_of(world, breaks)
    world.apply(revision(cc=1))
    list_pods(world, pod)
    assert await world.outcome(await wait_long(world)) == {"waits": 4}
    assert not cluster_ip.traffic


async def test_TestRevisionBackendManagerAddEndpoint__unready_pod_successfully_probed(
    world: World,
) -> None:
    """A pod that is not ready and passes its probe is usable."""
    (pod,) = await world.serving(1, holding=True)
    world.apply(revision(cc=1))
    await world.passes()
    list_pods(world, not_ready=(pod,))
    await wait_long(world)
    assert world.took() == ["pod-0"]


@pytest.mark.parametrize("probe", [EXEC, STARTUP], ids=["exec", "startup"])
async def test_TestRevisionBackendManagerAddEndpoint__exec_probe_only_ready_when_kubernetes_agrees(
    world: World, probe: dict[str, Any]
) -> None:
    """queue-proxy cannot run the container's probe: a pod that is not ready is not usable.

    Knative's case expects no update and never waits for one; this one waits.
    """
    pod = await world.pod()
    world.apply(revision(cc=1, container=probe))
    list_pods(world, not_ready=(pod,))
    assert await world.outcome(await wait_long(world)) == {"waits": 4}
    assert not pod.traffic


@pytest.mark.parametrize("probe", [EXEC, STARTUP], ids=["exec", "startup"])
async def test_TestRevisionBackendManagerAddEndpoint__exec_probe_goes_ready(
    world: World, probe: dict[str, Any]
) -> None:
    """The same pod, listed as ready, is usable."""
    (pod,) = await world.serving(1, holding=True)
    world.apply(revision(cc=1, container=probe))
    list_pods(world, not_ready=(pod,))
    await wait_long(world)
    assert world.took() == []
    list_pods(world, pod)
    await world.passes()
    assert world.took() == ["pod-0"]


async def test_TestRevisionBackendManagerAddEndpoint__sidecar_exec_probe_not_ready(
    world: World,
) -> None:
    """A sidecar has an exec probe: the pod is not usable before Kubernetes lists it as ready.

    Knative's case claims this and never waits; its code publishes the pod.
    """
    pod = await world.pod()
    world.apply(revision(cc=1, sidecars=[{"name": "sidecar", "image": "x", **EXEC}]))
    list_pods(world, not_ready=(pod,))
    assert await world.outcome(await wait_long(world)) == {"waits": 4}
    assert not pod.traffic


async def test_TestRevisionBackendManagerAddEndpoint__sidecar_exec_probe_ready(
    world: World,
) -> None:
    """The same pod with that sidecar, listed as ready, is usable."""
    (pod,) = await world.serving(1, holding=True)
    world.apply(revision(cc=1, sidecars=[{"name": "sidecar", "image": "x", **EXEC}]))
    list_pods(world, pod)
    await wait_long(world)
    assert world.took() == ["pod-0"]


# Single functions


async def test_TestCheckDestsReadyToNotReady(world: World) -> None:
    """A pod that becomes not ready counts as healthy only after another probe.

    Knative probes it in every round until the next event; this activator probes until it passes.
    """
    one, two, three = await world.serving(3, holding=True)
    three.reacts(UNAVAILABLE)
    world.apply(revision(cc=1))
    list_pods(world, one, two, not_ready=(three,))
    await wait_long(world)
    assert world.took() == ["pod-0", "pod-1"]
    two.reacts(UNAVAILABLE)
    list_pods(world, one, not_ready=(two, three))
    await world.passes()
    one.release()
    two.release()
    await world.passes()
    assert world.took() == ["pod-0"], "the fourth request goes to the healthy pod"
    two.reacts(PASSES)
    await wait_long(world, 2)
    assert world.took() == ["pod-0", "pod-1"]
    three.reacts(PASSES)
    await world.passes()
    assert world.took() == ["pod-0", "pod-1", "pod-2"]


async def test_TestCheckDestsSwinging(world: World) -> None:
    """Pods start, fail and end: requests go only to pods that are listed and healthy."""
    pods = await world.serving(4, holding=True)
    world.apply(revision(cc=1))

    async def in_use(*ready: ScriptedPod, not_ready: tuple[ScriptedPod, ...] = ()) -> list[str]:
        list_pods(world, *ready, not_ready=not_ready)
        await world.passes()
        clients = await wait_long(world, 5)
        found = world.took()
        for client in clients:
            client.abort()
        await world.passes()
        return found

    pods[1].reacts(breaks)
    assert await in_use(pods[0], not_ready=(pods[1],)) == ["pod-0"]
    pods[1].reacts(PASSES)
    assert await in_use(pods[0], not_ready=(pods[1],)) == ["pod-0", "pod-1"]
    assert await in_use(pods[1], pods[2]) == ["pod-1", "pod-2"]
    pods[3].reacts(UNAVAILABLE)
    assert await in_use(pods[2], pods[3]) == ["pod-2"]
    assert await in_use(pods[2]) == ["pod-2"]
    assert await in_use() == []
    assert await in_use(pods[0]) == ["pod-0"]


async def test_TestRevisionDeleted(world: World) -> None:
    """The Endpoints object is deleted.

    Knative emits no update and continues to use the last listed pods. This activator sends no
    requests to pods that are not listed; requests wait for the next object.
    """
    pod = await world.pod()
    world.apply(revision(cc=1))
    list_pods(world, pod)
    assert await (await world.call()).text() == "pod-0"
    world.delete("Endpoints", "real-name-private")
    while (await world.api())["pods"]:
        await world.passes(0.005)
    client = await world.call()
    await world.passes(NEVER)
    assert client.waits
    list_pods(world, pod)
    assert await client.text() == "pod-0"


async def test_TestServiceDoesNotExist(world: World) -> None:
    """The pods fail and there is no private Service: no endpoint is usable, and no error occurs."""
    pod = await world.pod(UNAVAILABLE)
    world.apply(revision(cc=1))
    list_pods(world, pod)
    assert await world.outcome(await wait_long(world)) == {"waits": 4}
    pod.reacts(PASSES)
    await world.until(lambda: pod.traffic)


async def test_TestServiceMoreThanOne(world: World) -> None:
    """No Service of the revision has the private Service's name: no endpoint is usable."""
    pod, elsewhere = await world.pod(UNAVAILABLE), await world.pod()
    world.apply(revision(cc=1), private_service(elsewhere.at, called="service1"))
    world.apply(private_service(elsewhere.at, called="service2"))
    list_pods(world, pod)
    assert await world.outcome(await wait_long(world)) == {"waits": 4}
    assert not elsewhere.probes


# TestProbePodIPs


async def test_TestProbePodIPs__all_healthy(world: World) -> None:
    """Healthy pods are not probed again when they are listed again."""
    pods = await world.serving(3)
    world.apply(revision(cc=1))
    list_pods(world, *pods)
    await world.passes()
    assert [len(pod.probes) for pod in pods] == [1, 1, 1]
    list_pods(world, pods[0], pods[2], pods[1])
    await world.passes(NEVER)
    assert [len(pod.probes) for pod in pods] == [1, 1, 1]


async def test_TestProbePodIPs__one_pod_fails_probe(world: World) -> None:
    """One pod fails, one is slow, one passes: two are healthy. A failure ends no other probe."""
    broken = await world.pod(breaks)
    slow = await world.pod(slowly(0.1))
    well = await world.pod()
    slow.holding = well.holding = True
    world.apply(revision(cc=1))
    list_pods(world, not_ready=(broken, slow, well))
    await world.passes(0.15)
    assert [len(pod.probes) for pod in (broken, slow, well)] == [1, 1, 1]
    await wait_long(world)
    assert world.took() == ["pod-1", "pod-2"]


async def test_TestProbePodIPs__ready_pods_skipped_with_mesh_disabled(world: World) -> None:
    """Mode ``disabled``: both pods are usable before the ready one has responded to a probe."""
    ready, not_ready = await world.pod(slowly(5)), await world.pod()
    ready.holding = not_ready.holding = True
    network(world, mesh_compatibility_mode="disabled")
    world.apply(revision(cc=1))
    list_pods(world, ready, not_ready=(not_ready,))
    await world.calls(2)
    await world.until(lambda: world.took() == ["pod-0", "pod-1"])
    assert len(not_ready.probes) == 1


async def test_TestProbePodIPs__ready_pods_not_skipped_with_mesh_auto(world: World) -> None:
    """Mode ``auto``: a ready pod is probed like any other."""
    ready, not_ready = await world.serving(2, holding=True)
    world.apply(revision(cc=1))
    list_pods(world, ready, not_ready=(not_ready,))
    await world.passes()
    assert [len(ready.probes), len(not_ready.probes)] == [1, 1]
    await wait_long(world)
    assert world.took() == ["pod-0", "pod-1"]


async def test_TestProbePodIPs__only_ready_pods_healthy_without_optimisation(world: World) -> None:
    """With a startup probe both pods are probed, and only the ready one is usable."""
    ready, not_ready = await world.serving(2, holding=True)
    world.apply(revision(cc=1, container=STARTUP))
    list_pods(world, ready, not_ready=(not_ready,))
    await world.passes()
    assert [len(ready.probes), len(not_ready.probes)] == [1, 1]
    await wait_long(world)
    assert world.took() == ["pod-0"]


async def test_TestProbePodIPs__removes_non_existent_pods(world: World) -> None:
    """A delisted pod gets no request; the others are not probed again."""
    pods = await world.serving(3, holding=True)
    world.apply(revision(cc=1))
    list_pods(world, *pods)
    await world.passes()
    list_pods(world, *pods[:2])
    await wait_long(world)
    assert world.took() == ["pod-0", "pod-1"]
    assert [len(pod.probes) for pod in pods] == [1, 1, 1]

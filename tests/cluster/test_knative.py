"""Knative's dialect in a cluster: the overlay, a Revision, and its private Service.

Knative itself is not there. The test makes the objects of its controllers. It also scales:
`autoscaler` only prints the activators' reports.
"""

from __future__ import annotations

import asyncio
from typing import Final

from activator.lab.objects import revision
from tests.cluster.cluster import AUTOSCALER, Cluster
from tests.cluster.objects import Object, definition, deployment, plain_service

KNATIVE: Final = "knative-serving"
NAME: Final = "hello-00001"


def config(name: str) -> Object:
    metadata = {"name": name, "namespace": KNATIVE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}}


async def test_a_revision_is_served_from_zero(cluster: Cluster, namespace: str) -> None:
    cluster.image("autoscaler", AUTOSCALER)
    listens = {"tcpSocket": {"port": "http"}, "periodSeconds": 1}
    autoscaler = deployment(KNATIVE, "autoscaler", image="ko/autoscaler:1", probe=listens)
    pod = autoscaler["spec"]["template"]["spec"]["containers"][0]
    pod["args"] = []
    await cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KNATIVE}},
        definition("serving.knative.dev", "v1", "Revision"),
        *map(config, ("config-network", "config-logging", "config-observability")),
        autoscaler,
        plain_service(KNATIVE, "autoscaler", port={"port": 8080}),
    )
    await cluster.kubectl("apply", "-k", "manifests/overlays/knative")
    await cluster.kubectl(
        "-n", KNATIVE, "rollout", "status", "deployment/activator", "--timeout=90s"
    )
    workload = deployment(namespace, NAME, replicas=0, image="example.com/sample:1", probe=listens)
    workload["spec"]["template"]["spec"]["containers"][0]["args"] = ["--port", "8080"]
    await cluster.apply(workload, revision(NAME, namespace=namespace, timeout=60))
    uid = ("-n", namespace, "get", "revision", NAME, "--output=jsonpath={.metadata.uid}")
    labels = {
        "serving.knative.dev/revision": NAME,
        "serving.knative.dev/revisionUID": await cluster.kubectl(*uid),
        "serving.knative.dev/service": "hello",
        "networking.internal.knative.dev/serverlessservice": NAME,
        "networking.internal.knative.dev/serviceType": "Private",
    }
    private = plain_service(namespace, f"{NAME}-private", selects=NAME)
    private["metadata"]["labels"] = labels
    await cluster.apply(private)
    await cluster.shows(f"{namespace}/{NAME}", "no-endpoints", namespace=KNATIVE)
    headers = {"Knative-Serving-Namespace": namespace, "Knative-Serving-Revision": NAME}

    async def reported() -> bool:
        log = await cluster.kubectl("-n", KNATIVE, "logs", "deployment/autoscaler")
        return f"{namespace}/{NAME}: 1" in log

    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(
            cluster.ask("hello.example.com", headers=headers, namespace=KNATIVE)
        )
        await cluster.until(reported, "the autoscaler has the report")
        waits = await cluster.explain(f"{namespace}/{NAME}", namespace=KNATIVE)
        scale = ("scale", f"deployment/{NAME}", "--replicas=1")
        await cluster.kubectl("-n", namespace, *scale)
    assert "1 request waits" in waits
    assert asking.result().status == 200
    # What the activator must not have: it writes nothing, and reads no Secrets.
    for verb, resource in (("patch", "deployments"), ("get", "secrets"), ("create", "events")):
        account = f"--as=system:serviceaccount:{KNATIVE}:activator"
        done = await cluster.run("kubectl", "auth", "can-i", verb, resource, "-A", account)
        assert done.output.startswith("no"), (verb, resource)

"""The waker ``http`` in a cluster: a stand-in for vLLM sleeps, and wakes for the first request."""

from __future__ import annotations

import json
import sys

from activator.lab.programs import fetch
from tests.cluster.cluster import Cluster
from tests.cluster.objects import deployment, service
from tests.process import ROOT

ROLE = "manifests/components/waker-http/rbac.yaml"
IMAGE = "vllm/vllm-openai:v0.18.0"


async def test_a_model_server_sleeps_and_wakes_by_its_own_calls(
    product: Cluster, namespace: str
) -> None:
    command = ("env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.cluster.fake_vllm")
    product.image("vllm-openai", command)
    await product.kubectl("apply", "-f", ROLE)
    await product.apply(
        deployment(namespace, replicas=1, image=IMAGE),
        service(namespace, annotations={"profile": "vllm-sleep"}),
    )

    async def sleeps() -> bool:
        pods = await product.pods("hello", namespace)
        if len(pods) != 1 or not (ip := pods[0]["status"].get("podIP")):
            return False
        try:
            response = await fetch(ip, 8080, "/is_sleeping")
        except OSError:
            return False
        return bool(json.loads(response.body)["is_sleeping"])

    for _ in range(2):
        await product.until(sleeps, "the server sleeps")
        found = await product.get("service", "hello", namespace)
        assert found is not None
        mark = json.loads(found["metadata"]["annotations"]["activator.dev/asleep"])
        assert mark["profile"] == "vllm-sleep"
        response = await product.ask(f"hello.{namespace}", "/v1/completions")
        assert (response.status, json.loads(response.body)) == (200, {"model": "m"})
        assert not await sleeps()
    lost = await product.ask(f"hello.{namespace}", "/counts")
    assert json.loads(lost.body) == {"lost": 0}

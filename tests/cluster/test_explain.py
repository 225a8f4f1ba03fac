"""What explain, status, Events and 504 say in a cluster, in each failure of a cold start."""

from __future__ import annotations

import asyncio
import json
from typing import NamedTuple

import pytest

from tests.cluster.cluster import SYSTEM, Cluster
from tests.cluster.objects import Object, deployment, service

STARTS = "Nothing yet: a pod is starting."


class Failure(NamedTuple):
    """A cold start that fails, and the texts about it.

    Attributes:
        objects: the Service and its workloads.
        title: of `explain`, while the request waits.
        shown: further texts of `explain`.
        reason: how the header field of the 504 begins.
        event: a text of an Event of the Service; empty for none.
    """

    objects: tuple[Object, ...]
    title: str
    shown: tuple[str, ...]
    reason: str
    event: str = ""


def failures(namespace: str) -> dict[str, Failure]:
    """Return the failures, by the name of the Service."""
    short = {"timeout-seconds": 15}
    fails = {"httpGet": {"path": "/no-such-page", "port": "http"}, "periodSeconds": 1}
    another = deployment(namespace, "two-workloads", replicas=0)
    another["metadata"]["name"] = "another"
    return {
        "no-image": Failure(
            (
                deployment(namespace, "no-image", replicas=0, image="registry.invalid/none:1"),
                service(namespace, "no-image", short),
            ),
            "1 request waits, starting",
            ("(10.244.", "connection refused", STARTS, "Deployment/no-image, owner self"),
            "pods-not-ready; 10.244.",
        ),
        "not-ready": Failure(
            (
                deployment(namespace, "not-ready", replicas=0, probe=fails),
                service(namespace, "not-ready", short),
            ),
            "1 request waits, starting",
            ("8080: status 404", "GET /no-such-page", "readiness probe of container hello", STARTS),
            "pods-not-ready; 10.244.",
        ),
        "late": Failure(
            (
                deployment(namespace, "late", replicas=0, start_after=60),
                service(namespace, "late", short),
            ),
            "1 request waits, starting",
            ("connection refused", "GET /healthz", STARTS, "not-ready"),
            "pods-not-ready; 10.244.",
        ),
        "no-port": Failure(
            (
                deployment(namespace, "no-port", replicas=0),
                service(namespace, "no-port", short, port={"targetPort": "nowhere"}),
            ),
            "1 request waits, no-such-port",
            ("no container has a port named 'nowhere', the targetPort", "Correct Service"),
            "no-endpoints",
        ),
        "no-workload": Failure(
            (service(namespace, "no-workload", short),),
            "1 request waits, no-scalable-target",
            ("no Deployment or StatefulSet has pods with the labels app=no-workload",),
            "no-endpoints",
            "no-scalable-target: no Deployment or StatefulSet in",
        ),
        "two-workloads": Failure(
            (
                deployment(namespace, "two-workloads", replicas=0),
                another,
                service(namespace, "two-workloads", short),
            ),
            "1 request waits, several-targets",
            ("another", "activator.dev/target"),
            "no-endpoints",
            "several-targets",
        ),
    }


async def test_each_failed_cold_start_has_its_reason(product: Cluster, namespace: str) -> None:
    cases = failures(namespace)
    await product.apply(*(found for case in cases.values() for found in case.objects))
    for name in cases:
        await product.shows(f"{namespace}/{name}", "no request waits")

    async def fail(name: str, case: Failure) -> None:
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(product.ask(f"{name}.{namespace}"))
            text = await product.shows(f"{namespace}/{name}", case.title)
            for shown in case.shown:  # a pod has no address at first
                if shown not in text:
                    text = await product.shows(f"{namespace}/{name}", shown)
        assert "activator reason " in text, name
        response = asking.result()
        assert response.status == 504, name
        assert response.headers["activator-reason"].startswith(case.reason), name
        after = await product.shows(f"{namespace}/{name}", "Last failure")
        assert "1 in a row" in after, name
        assert "timed-out" in after, name
        if case.event:
            await product.announced(name, case.event, namespace)

    async with asyncio.TaskGroup() as all_cases:
        for name, case in cases.items():
            all_cases.create_task(fail(name, case))
    status = await product.status()
    for name in cases:
        row = next(line for line in status.splitlines() if f"{namespace}/{name} " in line)
        assert "1 failed start" in row


async def test_a_normal_cold_start_shows_its_progress_and_no_advice(
    product: Cluster, namespace: str
) -> None:
    name = f"{namespace}/hello"
    await product.apply(deployment(namespace, replicas=0, start_after=5), service(namespace))
    asleep = await product.shows(name, "asleep")
    assert "Nothing while no request waits: the first request wakes the workload." in asleep
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(product.ask(f"hello.{namespace}"))
        starting = await product.shows(name, "1 request waits, starting")
    assert "Failed starts" not in starting
    assert asking.result().status == 200
    awake = await product.shows(name, "probe-passed")
    assert "served" in awake
    assert "What to do" not in awake


WRONG = {
    "idle-seconds": "soon",
    "owner": "everyone",
    "container-concurrency": "-1",
    "load-balancing": "best",
    "while-waiting": "sing",
    "timeout-seconds": "1h",
    "priority": "highest",
}


async def test_wrong_values_take_no_service_off_the_air_also_after_a_restart(
    product: Cluster, namespace: str
) -> None:
    names = {key: f"wrong-{key}" for key in WRONG}
    for key, name in names.items():
        given = service(namespace, name, {key: WRONG[key]})
        await product.apply(deployment(namespace, name, replicas=1), given)
    for restarted in (False, True):
        if restarted:
            await product.kubectl("-n", SYSTEM, "rollout", "restart", "deployment/activator")
            await product.rolled_out("activator")
        for key, name in names.items():
            assert (await product.ask(f"{name}.{namespace}")).status == 200, key
            text = await product.shows(f"{namespace}/{name}", "Warnings")
            assert f"activator.dev/{key}]: " in text, key
            assert f"got '{WRONG[key]}'" in text, key
            event = await product.announced(name, f"activator.dev/{key}", namespace)
            assert event.startswith("service-warning: "), key


async def test_a_missing_rule_of_the_role_is_named_until_it_is_there(
    product: Cluster, namespace: str
) -> None:
    name = f"{namespace}/hello"
    await product.apply(
        deployment(namespace, replicas=0), service(namespace, annotations={"timeout-seconds": 60})
    )
    await product.shows(name, "asleep")
    role = json.loads(await product.kubectl("get", "clusterrole", "activator-scale", "-o", "json"))
    kept = [r for r in role["rules"] if not any("/scale" in each for each in r["resources"])]
    assert kept != role["rules"]

    async def allow(rules: list[Object]) -> None:
        body = json.dumps({"rules": rules})
        await product.kubectl("patch", "clusterrole", "activator-scale", "--type=merge", "-p", body)

    await allow(kept)
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(product.ask(f"hello.{namespace}"))
        try:
            text = await product.shows(name, "1 request waits, scale-forbidden")
            event = await product.announced("hello", "scale-forbidden", namespace)
        finally:
            await allow(role["rules"])
    assert "deployments/scale" in text
    assert "deployments/scale" in event
    assert asking.result().status == 200


async def test_takeover_refuses_a_limit_with_a_remedy(product: Cluster, namespace: str) -> None:
    given: dict[str, str | int] = {"route": "takeover", "container-concurrency": 1, "min-scale": 1}
    await product.apply(deployment(namespace, replicas=1), service(namespace, annotations=given))
    text = await product.shows(f"{namespace}/hello", "1 usable pod without limit")
    assert "takeover-cannot-limit" in text
    assert "use route front, or remove the limit" in text
    await product.announced("hello", "takeover-cannot-limit", namespace)


@pytest.mark.parametrize(
    ("command", "status", "shown"),
    [
        ("status", 0, "OLDEST-WAITER"),
        ("explain default/none", 4, "activator status lists all"),
        ("reason pods-not-ready", 0, "pods-not-ready"),
        ("reason none", 2, "`activator reason` lists all reasons"),
    ],
)
async def test_a_command_about_no_object_ends_with_a_hint(
    product: Cluster, command: str, status: int, shown: str
) -> None:
    words = ("exec", "deployment/activator", "--", "activator", *command.split())
    done = await product.run("kubectl", "-n", SYSTEM, *words)
    assert "Traceback" not in done.output
    assert shown in done.output
    assert done.status == status, done.output

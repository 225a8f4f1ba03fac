"""The API server refuses the annotations that the activator refuses, by the same sentence."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
import pytest

from activator.objects.fields import ManifestError, Problems, root
from activator.plain import annotations as plain
from manifests.admission_policy import FILE
from tests.activator.objects import test_policies as of_pods
from tests.activator.objects import test_queue_order as of_the_queue
from tests.activator.objects import test_request_policies as of_requests
from tests.activator.plain import test_annotations as of_services
from tests.cluster.cluster import Cluster
from tests.cluster.objects import service
from tests.guards import expect_none

#: The activator alone refuses some of their values, which no shape can tell.
BY_THE_ACTIVATOR_ALONE: Final = {"awake", "auth-url", "sleep-patch", "parked-cpu"}
#: No annotation may have it, and no message shows it as it is.
CONTROL: Final = "\x01x"
REFUSED: Final = "denied request: "


@pytest.fixture
async def policy(cluster: Cluster, namespace: str) -> AsyncIterator[None]:
    """Apply the policies for one test."""
    async with applied(cluster, namespace):
        yield


@asynccontextmanager
async def applied(cluster: Cluster, namespace: str) -> AsyncIterator[None]:
    """Apply the policies, and wait until they are in effect."""
    await cluster.kubectl("apply", "-f", str(FILE))

    async def in_effect(*, wanted: bool = True) -> bool:
        async with cluster.api() as api:
            refused = await create(api, namespace, {"owner": "me"})
            warned = await create(api, namespace, {"x": ""})
        is_refused, is_warned = refused.status_code == 422, "Warning" in warned.headers
        return is_refused and is_warned if wanted else is_refused or is_warned

    async def gone() -> bool:
        return not await in_effect(wanted=False)

    await cluster.until(in_effect, "the policies are in effect")
    yield
    await cluster.kubectl("delete", "-f", str(FILE))
    await cluster.until(gone, "the policies are gone")


async def create(
    api: httpx.AsyncClient, namespace: str, annotations: Mapping[str, Any]
) -> httpx.Response:
    """Create a Service that opts in, without a trace."""
    path = f"/api/v1/namespaces/{namespace}/services"
    obj = service(namespace, annotations=annotations)
    return await api.post(path, params={"dryRun": "All"}, json=obj)


def by_the_activator(annotations: Mapping[str, Any]) -> str:
    """Return the sentences of the activator's error; empty without one."""
    metadata = root(service("shop", annotations=annotations), "Service")["metadata"]
    problems = Problems()
    try:
        plain.is_enabled(metadata)
        problems.settle(plain.read(metadata, problems))
    except ManifestError as error:
        return f"{error.path}: {error.problem}"
    return ""


def by_the_api_server(response: httpx.Response) -> str:
    """Return the sentences of the policy; empty if it accepts the object."""
    if response.status_code == 201:
        return ""
    text: str = response.json()["message"]
    assert REFUSED in text, text
    return text.partition(REFUSED)[2]


def cases() -> Iterator[dict[str, Any]]:
    """Yield the right and the wrong values of the activator's own tests, and some for each row."""
    for name in plain.READERS:
        for value in ("", " ", CONTROL, "it's", 'it\'s "x"', "\\", "a\tb\r\n'c'", "x" * 70):
            yield {name.removeprefix(plain.PREFIX): value}
    tables: list[Any] = [
        *of_services.RIGHT, *of_services.WRONG, *of_the_queue.RIGHT, *of_requests.RIGHT,
        *(({name: value}, "") for name, value, _ in of_pods.WRONG),
        *(({name: value}, "") for name, value, _ in of_the_queue.WRONG),
        *(({name: value}, "") for name, value, _ in of_requests.WRONG),
    ]  # fmt: skip
    for texts, _ in tables:
        yield {name.replace("_", "-"): value for name, value in texts.items()}
    yield {"load-balancing": "hash"}
    yield {"load-balancing": "hash", "hash-key": " "}
    yield {"load-balancing": "hash", "hash-key": "path"}
    yield {"load-balancing": "hash", "hash-key": "path", "sticky": "header:X-User"}
    yield {"load-balancing": "hash", "hash-key": "x", "sticky": "cookie"}
    yield {"min-scale": "03", "max-scale": "2", "route": "x", "auth-url": "y"}
    yield {"min-scale": "3", "max-scale": "0"}
    yield {"min-scale": "3", "max-scale": "x"}
    yield {"waker": "http", "sleep-url": "sleep", "state-url": "/s", "asleep-when": "x"}
    # As much as one Service may have: the cost of an expression is limited.
    yield {"sleep-patch": f'{{"a": "{"b" * 4087}"}}', "wake-patch": f'{{"a": "{"b" * 4088}"}}'}
    longest = ",".join(".".join(["a" * 60] * 4) + f".{n:03}" for n in range(256))
    yield {"hosts": longest}
    yield {"hosts": f"{longest}-"}
    yield {"hosts": "a," * 100_000, "owner": "b" * 50_000}
    yield {"wake-not-paths": ",".join(["/" + "p" * 199] * 64), "models": ",".join(["m" * 200] * 64)}


@pytest.mark.usefixtures("policy")
async def test_both_refuse_the_same_values_by_the_same_sentence(
    cluster: Cluster, namespace: str
) -> None:
    different, alone = list[str](), set[str]()
    refused = 0
    async with cluster.api() as api:
        for case in cases():
            if not all(isinstance(value, str) for value in case.values()):
                continue  # the API server does not decode it
            response = await create(api, namespace, case)
            theirs, own = by_the_api_server(response), by_the_activator(case)
            refused += bool(theirs)
            if own and not theirs:
                ((name, text),) = case.items()
                assert plain.READERS[plain.PREFIX + name].shape.allows(text.strip()), case
                alone.add(name)
            elif own != theirs and not _same_but_for_escapes(own, theirs):
                different.append(f"{str(case)[:200]}: {theirs[:300]} instead of {own[:300]}")
    expect_none(different)
    assert alone == BY_THE_ACTIVATOR_ALONE
    assert refused > len(plain.READERS)


def _same_but_for_escapes(own: str, theirs: str) -> bool:
    """Return whether only the order differs, and characters that Python escapes as numbers."""
    known = own.encode().decode("unicode_escape")
    return sorted(known.split("; metadata.")) == sorted(theirs.split("; metadata."))


async def test_an_old_value_blocks_no_other_change(cluster: Cluster, namespace: str) -> None:
    old = {"owner": "me", "min-scale": "3", "max-scale": "2", "hosst": "a.com", "waker": "hammer"}
    await cluster.apply(service(namespace, annotations=old))
    await cluster.apply(service(namespace, "other", {**old, "enabled": "false"}))
    async with applied(cluster, namespace), cluster.api() as api:

        async def change(name: str = "hello", **annotations: str | None) -> str:
            found = {plain.PREFIX + key.replace("_", "-"): annotations[key] for key in annotations}
            response = await api.patch(
                f"/api/v1/namespaces/{namespace}/services/{name}",
                params={"dryRun": "All"},
                headers={"Content-Type": "application/merge-patch+json"},
                json={"metadata": {"annotations": found, "labels": {"new": "label"}}},
            )
            assert "Warning" not in response.headers
            return "" if response.status_code == 200 else response.json()["message"]

        assert not await change()
        assert not await change(asleep='{"waker":"resize"}')  # the scaler's mark
        assert not await change("other", asleep="{}")
        assert not await change(asleep=None)
        assert not await change(timeout_seconds="5")
        assert not await change(owner="keda", max_scale="4")
        assert not await change(owner=None, min_scale=None)
        assert "owner]: expected one of self, keda, hpa, none, got 'I'" in await change(owner="I")
        assert "waker]: expected one of scale, patch, http" in await change(waker="nail")
        assert "timeout-seconds]: expected" in await change(timeout_seconds="5s")
        wrong = "max-scale]: expected 0 or at least min-scale, which is 4, got '2'"
        assert wrong in await change(min_scale="4")
        # Before it opts in, no value counts; all of them are new then.
        assert not await change("other", route="x")
        assert "owner]: expected" in await change("other", enabled="true")
        right = {"owner": "self", "max_scale": "3", "waker": "patch", "sleep_patch": '{"a": 1}'}
        assert not await change("other", enabled="true", **right)


@pytest.mark.usefixtures("policy")
async def test_an_unknown_name_warns(cluster: Cluster, namespace: str) -> None:
    async with cluster.api() as api:
        response = await create(api, namespace, {"hosst": "a.com", "hosts": "a.com"})
    assert response.status_code == 201
    (warning,) = response.headers.get_list("Warning")
    assert "the annotation 'activator.dev/hosst' is unknown and has no effect" in warning
    assert "activator.dev/hosts'" not in warning


@pytest.mark.usefixtures("policy")
async def test_kubernetes_finds_no_wrong_type(cluster: Cluster) -> None:
    async def checked() -> Any:
        listed = "validatingadmissionpolicies"
        found = json.loads(await cluster.kubectl("get", listed, "-o", "json"))["items"]
        return all("typeChecking" in each.get("status", {}) for each in found) and found

    for each in await cluster.until(checked, "Kubernetes has checked the types"):
        assert each["status"]["typeChecking"] == {}

"""Fixtures: one cluster for all tests of a worker, with the product installed as shipped."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import uvloop

from tests.cluster.cluster import SYSTEM, Cluster
from tests.cluster.programs import Unavailable

KUSTOMIZE = ("kubectl", "apply", "-k", "manifests/overlays/services")
#: uvloop's text about a connect of the tests' own client that a time limit has cancelled.
UNCLOSED = (
    r"ignore:Exception ignored in. 'uvloop\.loop\.UVHandle:pytest.PytestUnraisableExceptionWarning"
)
#: A namespace for each test, so that no test meets the objects of another.
_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let no test fail for a connect that another one of its worker has cancelled."""
    for item in items:
        if "cluster" in item.path.parts:
            item.add_marker(pytest.mark.filterwarnings(UNCLOSED))


@pytest.fixture(scope="session")
def anyio_backend() -> Any:
    """Use the real loop: processes have no virtual clock, and shared fixtures need one loop."""
    return "asyncio", {"loop_factory": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Provide the cluster, without the product; without its programs the run ends."""
    try:
        found = Cluster(tmp_path_factory.mktemp("cluster"))
    except Unavailable as missing:
        pytest.exit(str(missing), returncode=2)
    try:
        found.start()
        yield found
    finally:
        found.stop()


@pytest.fixture
async def product(cluster: Cluster) -> Cluster:
    """Provide the cluster with activator and scaler, installed by kustomize."""
    await cluster.install(*KUSTOMIZE)
    return cluster


@pytest.fixture
async def two_activators(product: Cluster) -> AsyncIterator[None]:
    """Run two activators. Each knows only its own requests, so other tests have one."""
    await product.kubectl("-n", SYSTEM, "scale", "deployment/activator", "--replicas=2")
    await product.rolled_out("activator")
    yield
    await product.kubectl("-n", SYSTEM, "scale", "deployment/activator", "--replicas=1")


@pytest.fixture
async def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """Provide a namespace for one test; if the test fails, print what helps to find out why."""
    name = f"case-{os.getpid()}-{next(_numbers)}"
    await cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    failed = request.session.testsfailed
    yield name
    if request.session.testsfailed != failed:
        for words in (
            ("get", "pods,deployments,endpointslices", "-A"),
            ("-n", name, "get", "events"),
            ("-n", SYSTEM, "get", "leases"),
            ("-n", SYSTEM, "logs", "-l", "app=activator", "--tail=30"),
            ("-n", SYSTEM, "logs", "-l", "app=activator-scale", "--tail=30"),
        ):
            print((await cluster.run("kubectl", *words)).output)
    # Without a wait: the objects go while the next tests run.
    await cluster.run("kubectl", "delete", "namespace", name, "--wait=false")

"""The manifests permit exactly the requests that the program sends to the API server."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import trustme

from tests.activator.discovery.fake_api_server import Call, FakeApiServer
from tests.conftest import on_uvloop
from tests.manifests import knative
from tests.manifests.knative import NAMESPACE
from tests.manifests.kustomize import MANIFESTS, ROOT, Object, build, find

pytestmark = on_uvloop  # processes run in real time

OVERLAY = MANIFESTS / "overlays" / "knative"
PATIENCE = 45.0

#: Free ports, and no autoscaler of another process.
ENVIRONMENT = knative.ENVIRONMENT | {
    "POD_IP": "127.0.0.1",
    "ACTIVATOR_BIND": "127.0.0.1",
    "ACTIVATOR_HTTP_PORT": "0",
    "ACTIVATOR_H2C_PORT": "0",
    "ACTIVATOR_ADMIN_PORT": "0",
    "METRICS_PROMETHEUS_PORT": "0",
    "PROFILING_PORT": "0",
    "ACTIVATOR_AUTOSCALER_URL": "",
    "ACTIVATOR_LAME_DUCK": "0s",
}


class Grant(NamedTuple):
    """One permission of a rule; an empty namespace or name means any."""

    group: str
    resource: str
    namespace: str
    verb: str
    name: str

    def covers(self, call: Call) -> bool:
        """Return whether the API server would permit a request.

        To list or watch under a rule with names, a request has to select by such a name:
        https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources
        """
        return (
            (self.group, self.resource, self.verb) == (call.group, call.resource, call.verb)
            and self.namespace in ("", call.namespace)
            and self.name in ("", call.name)
        )


def grants(objects: Iterable[Object], deployment_name: str = "activator") -> set[Grant]:
    """Return the permissions of a Deployment's service account in the manifests."""
    objects = list(objects)
    deployment = find(objects, "Deployment", deployment_name)
    account = {
        "kind": "ServiceAccount",
        "name": deployment["spec"]["template"]["spec"]["serviceAccountName"],
        "namespace": deployment["metadata"]["namespace"],
    }
    found = set()
    for binding in objects:
        if account in binding.get("subjects", []):
            role = find(objects, binding["roleRef"]["kind"], binding["roleRef"]["name"])
            namespace = role["metadata"].get("namespace", "")
            for rule in role["rules"]:
                found |= set(_of(rule, namespace))
    return found


def _of(rule: Mapping[str, Any], namespace: str) -> Iterator[Grant]:
    assert not set(rule) - {"apiGroups", "resources", "resourceNames", "verbs"}
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames", [""]):
                    yield Grant(group, resource, namespace, verb, name)


async def calls(
    folder: Path,
    watched: Iterable[str],
    *objects: Object,
    network: Mapping[str, str] = MappingProxyType({}),
    **settings: str,
) -> list[Call]:
    """Start ``activator run`` on a scripted API server; return its requests.

    Arguments:
        watched: the kinds whose watches it must open.
        objects: the objects of the cluster.
        network: the data of config-network.
        settings: environment variables.
    """
    async with FakeApiServer() as api:
        for obj in (knative.config_map("config-network", dict(network)), *objects):
            api.put(obj)
        environment = ENVIRONMENT | settings | {"KUBECONFIG": api.kubeconfig(folder)}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "activator", "run"),
            env=environment | {"PATH": os.environ["PATH"]},
            cwd=ROOT,
            stderr=PIPE,
        )
        try:
            async with asyncio.timeout(PATIENCE):
                for kind in watched:
                    await api.watched(kind)
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            _, log = await process.communicate()
            print(log.decode())  # pytest shows it with a failure
        assert process.returncode == 0
        return api.calls


@pytest.mark.parametrize(
    ("endpoints", "kinds"),
    [
        ("auto", {"Endpoints", "EndpointSlice"}),
        ("endpoints", {"Endpoints"}),
        ("slices", {"EndpointSlice"}),
    ],
)
async def test_each_request_is_permitted(endpoints: str, kinds: set[str], tmp_path: Path) -> None:
    watched = {"Revision", "Service", "ConfigMap"} | kinds
    made = await calls(tmp_path, watched, ACTIVATOR_ENDPOINTS=endpoints)
    permitted = grants(build(OVERLAY))
    assert [call for call in made if not any(grant.covers(call) for grant in permitted)] == []
    if endpoints == "auto":  # the default: all of it is needed
        unused = {grant for grant in permitted if not any(grant.covers(call) for call in made)}
        assert unused == set()


async def test_knatives_own_roles_permit_all_but_slices(tmp_path: Path) -> None:
    """With these rules, which stay if only the image changes, the activator uses no slices."""
    kinds = ("Revision", "Service", "ConfigMap", "Endpoints", "EndpointSlice")
    denied = {
        call.resource
        for call in await calls(tmp_path, kinds)
        if (call.group, call.resource)
        not in (knative.CLUSTER_ROLE | (knative.ROLE if call.namespace == NAMESPACE else set()))
    }
    assert denied == {"endpointslices"}


async def test_with_internal_tls_one_secret_is_read(tmp_path: Path) -> None:
    """The activator requests no other Secret, so a rule with this name is enough."""
    kinds = ("Revision", "Service", "ConfigMap", "Endpoints", "EndpointSlice", "Secret")
    tls = {"system-internal-tls": "enabled"}
    secret = knative.routing_certificate(trustme.CA())
    made = await calls(tmp_path, kinds, secret, network=tls, ACTIVATOR_HTTPS_PORT="0")
    permitted = grants(build(OVERLAY, ["internal-tls"]))
    assert [call for call in made if not any(grant.covers(call) for grant in permitted)] == []
    assert {grant for grant in permitted if not any(grant.covers(call) for call in made)} == set()


def test_secrets_are_readable_only_with_internal_tls() -> None:
    secrets = {grant.name for grant in grants(build(OVERLAY)) if grant.resource == "secrets"}
    assert secrets == set()
    with_tls = grants(build(OVERLAY, ["internal-tls"]))
    assert {grant.name for grant in with_tls if grant.resource == "secrets"} == {
        "routing-serving-certs"
    }


def test_nothing_can_be_written() -> None:
    permitted = grants(build(OVERLAY, ["internal-tls", "service-monitor"]))
    assert {grant.verb for grant in permitted} == {"list", "watch"}
    assert {grant.namespace for grant in permitted if grant.resource == "configmaps"} == {NAMESPACE}

"""The activator's own readers read the objects: both must mean the same."""

from __future__ import annotations

import json

from activator.discovery import endpoints
from activator.discovery.endpoints import PrivateEndpoints
from activator.knative import revisions
from activator.lab.objects import (
    TCP_PROBE,
    PodAddress,
    deployment,
    private_endpoints,
    revision,
    service,
    write_object,
)
from throttler.model import AppProtocol, Endpoint, RevisionID


def test_revision_means_what_was_asked_for():
    found = revisions.parse(
        revision("a", namespace="n", container_concurrency=3, timeout=7, uid="u")
    )
    assert (found.id, found.uid) == (RevisionID("n", "a"), "u")
    assert (found.container_concurrency, found.timeout) == (3, 7)
    assert found.probe_suffices
    assert not revisions.parse(revision("a", exec_readiness=True)).probe_suffices
    assert revisions.parse(revision("a", readiness_port=8090)).probe_suffices
    assert revisions.parse(revision("a", sidecar={})).probe_suffices
    probe = {"readinessProbe": {"httpGet": {"port": 8099}}}
    assert revisions.parse(revision("a", sidecar=probe)).probe_suffices
    assert revision("a")["metadata"]["uid"] != revision("a")["metadata"]["uid"]


def test_endpoints_list_pods_by_readiness_and_port():
    pods = [
        PodAddress("127.0.0.1", 8012, "u1", "p1", ready=True),
        PodAddress("127.0.0.2", 8012, "u2", "p2"),
        PodAddress("127.0.0.1", 9000, ready=True),
    ]
    found = endpoints.parse(private_endpoints("a", pods, namespace="n"))
    assert isinstance(found, PrivateEndpoints)
    assert found.revision_id == RevisionID("n", "a")
    dests = found.endpoints[AppProtocol.HTTP1]
    assert dests.ready == {Endpoint("127.0.0.1:8012", "u1"), Endpoint("127.0.0.1:9000")}
    assert dests.not_ready == {Endpoint("127.0.0.2:8012", "u2")}


def test_endpoints_without_pods_have_no_subsets_as_in_kubernetes():
    assert "subsets" not in private_endpoints("a", [])


def test_file_is_replaced_whole_and_nothing_else_is_left(tmp_path):
    first = write_object(tmp_path, private_endpoints("a", []))
    pod = PodAddress("127.0.0.1", 8012, ready=True)
    second = write_object(tmp_path, private_endpoints("a", [pod]))
    other = write_object(tmp_path, revision("a"))
    assert first == second
    assert sorted(tmp_path.iterdir()) == sorted([first, other])
    assert json.loads(first.read_text())["subsets"][0]["addresses"][0]["ip"] == "127.0.0.1"


def test_service_selects_the_pods_of_its_deployment():
    made, found = deployment("web"), service("web", annotations={"enabled": "true"})
    template = made["spec"]["template"]["metadata"]["labels"]
    assert found["spec"]["selector"].items() <= template.items()
    assert found["metadata"]["annotations"] == {"activator.dev/enabled": "true"}
    names = [port["name"] for port in made["spec"]["template"]["spec"]["containers"][0]["ports"]]
    assert found["spec"]["ports"][0]["targetPort"] in names


def test_template_has_the_probe():
    made = deployment("web", probe=TCP_PROBE)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"] == {"tcpSocket": {"port": "http"}}
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "web"}

"""The probe of a Service's pods, and its description in ``explain``."""

from __future__ import annotations

from typing import Any

import pytest

from activator.plain.annotations import ChosenProbe, ReadinessPolicy
from activator.plain.revisions import choose_probe
from activator.plain.workloads import ContainerProbe, parse
from tests.activator.plain.objects import container, deployment
from tests.rows import in_one_test
from throttler.model import ProbeKind, ReadinessRule

AUTO, PROBE, KUBERNETES = ReadinessPolicy
HTTP_8080 = {"httpGet": {"port": 8080, "path": "/up"}}
EXEC = {"exec": {"command": ["true"]}}


@in_one_test(
    ("containers", "kind", "readiness", "why"),
    [
        (
            [container(readinessProbe=HTTP_8080)],
            ProbeKind.HTTP,
            ReadinessRule.PROBE,
            "of container app.",
        ),
        (
            [container(readinessProbe={"httpGet": {"port": "http"}})],
            *(ProbeKind.HTTP, ReadinessRule.PROBE, "of container app."),
        ),
        (
            [container(readinessProbe={"grpc": {"port": 8080}})],
            ProbeKind.GRPC,
            ReadinessRule.PROBE,
            "of container",
        ),
        ([container()], ProbeKind.TCP, ReadinessRule.PROBE, "has no readiness probe"),
        (
            [container("a", 1), container("b", 2)],
            ProbeKind.TCP,
            ReadinessRule.PROBE,
            "No container declares port",
        ),
        (
            [container(readinessProbe={"httpGet": {"port": 9999}})],
            *(ProbeKind.TCP, ReadinessRule.PROBE, "on another port"),
        ),
        (
            [container(readinessProbe={"httpGet": {"port": 8080, "host": "example.com"}})],
            *(ProbeKind.HTTP, ReadinessRule.PROBE, "of container app."),
        ),
        (
            [container(readinessProbe={"tcpSocket": {"port": 8080, "host": "example.com"}})],
            *(ProbeKind.TCP, ReadinessRule.PROBE, "host of its own"),
        ),
        (
            [container(readinessProbe=EXEC)],
            ProbeKind.TCP,
            ReadinessRule.EXEC_READINESS_PROBE,
            "only kubelet can run the command",
        ),
        (
            [container(readinessProbe=HTTP_8080, startupProbe=HTTP_8080)],
            *(ProbeKind.HTTP, ReadinessRule.STARTUP_PROBE, "container app has a startup probe"),
        ),
        (
            [container(readinessProbe=HTTP_8080), container("side", 1, readinessProbe=HTTP_8080)],
            *(
                ProbeKind.HTTP,
                ReadinessRule.SIDECAR_READINESS_PROBE,
                "container side has a readiness probe of its own",
            ),
        ),
    ],
)
def test_the_probe_of_the_container(
    containers: Any, kind: ProbeKind, readiness: ReadinessRule, why: str
) -> None:
    found = choose_probe(AUTO, None, parse(deployment(*containers), "Deployment"), 8080)
    assert found.probe is not None
    assert (found.probe.kind, found.readiness) == (kind, readiness)
    assert why in found.why


def test_a_port_that_no_container_has_is_named() -> None:
    """The controller of EndpointSlices lists such pods without a port."""
    workload = parse(deployment(container(readinessProbe=HTTP_8080)), "Deployment")
    why = "No container declares port htpp, so the probe is a TCP connect."
    assert choose_probe(AUTO, None, workload, "htpp").why == why


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (ChosenProbe(ProbeKind.TCP), ContainerProbe(ProbeKind.TCP)),
        (ChosenProbe(ProbeKind.HTTP, "/x"), ContainerProbe(ProbeKind.HTTP, path="/x")),
        (ChosenProbe(ProbeKind.GRPC, "a.B"), ContainerProbe(ProbeKind.GRPC, service="a.B")),
    ],
)
def test_an_annotation_wins(annotation: ChosenProbe, expected: ContainerProbe) -> None:
    workload = parse(deployment(container(readinessProbe=HTTP_8080)), "Deployment")
    assert choose_probe(AUTO, annotation, workload, 8080)[:2] == (expected, ReadinessRule.PROBE)


@pytest.mark.parametrize("policy", ReadinessPolicy)
def test_no_probe_leaves_the_decision_to_kubernetes(policy: ReadinessPolicy) -> None:
    found = choose_probe(policy, ChosenProbe(ProbeKind.NONE), None, 8080)
    assert found[:2] == (None, ReadinessRule.NO_PROBE)


def test_an_unknown_workload_is_probed_by_connecting() -> None:
    assert choose_probe(AUTO, None, None, 8080)[:2] == (
        ContainerProbe(ProbeKind.TCP),
        ReadinessRule.PROBE,
    )


@pytest.mark.parametrize(
    ("policy", "readiness"),
    [(PROBE, ReadinessRule.PROBE), (KUBERNETES, ReadinessRule.KUBERNETES_POLICY)],
)
def test_the_policy_decides_about_the_list_of_kubernetes(
    policy: ReadinessPolicy, readiness: ReadinessRule
) -> None:
    for probe in (EXEC, HTTP_8080):
        workload = parse(deployment(container(readinessProbe=probe)), "Deployment")
        assert choose_probe(policy, None, workload, 8080).readiness is readiness


@pytest.mark.parametrize("word", ProbeKind)
def test_a_probe_of_the_annotation_speaks_tls_where_the_pods_do(word: ProbeKind) -> None:
    """A TCP probe only connects."""
    probe = choose_probe(AUTO, ChosenProbe(word, "/x"), None, 8443, tls=True).probe
    assert probe is None or probe.tls is (word in (ProbeKind.HTTP, ProbeKind.GRPC))

"""The probe of a Service's pods, and its description in ``explain``."""

from __future__ import annotations

from typing import Any

import pytest

from activator.plain.annotations import ChosenProbe, ProbeWord, ReadinessPolicy
from activator.plain.probe_choice import choose
from activator.plain.workloads import ContainerProbe, Handler, parse
from tests.activator.plain.objects import container, deployment
from throttler.model import ReadinessRule

AUTO, PROBE, KUBERNETES = ReadinessPolicy
HTTP_8080 = {"httpGet": {"port": 8080, "path": "/up"}}
EXEC = {"exec": {"command": ["true"]}}


@pytest.mark.parametrize(
    ("containers", "handler", "readiness", "why"),
    [
        (
            [container(readinessProbe=HTTP_8080)],
            Handler.HTTP,
            ReadinessRule.PROBE,
            "of container app.",
        ),
        (
            [container(readinessProbe={"httpGet": {"port": "http"}})],
            *(Handler.HTTP, ReadinessRule.PROBE, "of container app."),
        ),
        (
            [container(readinessProbe={"grpc": {"port": 8080}})],
            Handler.GRPC,
            ReadinessRule.PROBE,
            "of container",
        ),
        ([container()], Handler.TCP, ReadinessRule.PROBE, "has no readiness probe"),
        (
            [container("a", 1), container("b", 2)],
            Handler.TCP,
            ReadinessRule.PROBE,
            "No container declares port",
        ),
        (
            [container(readinessProbe={"httpGet": {"port": 9999}})],
            *(Handler.TCP, ReadinessRule.PROBE, "on another port"),
        ),
        (
            [container(readinessProbe={"httpGet": {"port": 8080, "host": "example.com"}})],
            *(Handler.HTTP, ReadinessRule.PROBE, "of container app."),
        ),
        (
            [container(readinessProbe={"tcpSocket": {"port": 8080, "host": "example.com"}})],
            *(Handler.TCP, ReadinessRule.PROBE, "host of its own"),
        ),
        (
            [container(readinessProbe=EXEC)],
            Handler.TCP,
            ReadinessRule.EXEC_READINESS_PROBE,
            "only kubelet can run the command",
        ),
        (
            [container(readinessProbe=HTTP_8080, startupProbe=HTTP_8080)],
            *(Handler.HTTP, ReadinessRule.STARTUP_PROBE, "container app has a startup probe"),
        ),
        (
            [container(readinessProbe=HTTP_8080), container("side", 1, readinessProbe=HTTP_8080)],
            *(
                Handler.HTTP,
                ReadinessRule.SIDECAR_READINESS_PROBE,
                "container side has a readiness probe of its own",
            ),
        ),
    ],
)
def test_the_probe_of_the_container(
    containers: Any, handler: Handler, readiness: ReadinessRule, why: str
) -> None:
    found = choose(AUTO, None, parse(deployment(*containers), "Deployment"), 8080)
    assert found.probe is not None
    assert (found.probe.handler, found.readiness) == (handler, readiness)
    assert why in found.why


def test_a_port_that_no_container_has_is_named() -> None:
    """The controller of EndpointSlices lists such pods without a port."""
    workload = parse(deployment(container(readinessProbe=HTTP_8080)), "Deployment")
    why = "No container declares port htpp, so the probe is a TCP connect."
    assert choose(AUTO, None, workload, "htpp").why == why


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (ChosenProbe(ProbeWord.TCP), ContainerProbe(Handler.TCP)),
        (ChosenProbe(ProbeWord.HTTP, "/x"), ContainerProbe(Handler.HTTP, path="/x")),
        (ChosenProbe(ProbeWord.GRPC, "a.B"), ContainerProbe(Handler.GRPC, service="a.B")),
    ],
)
def test_an_annotation_wins(annotation: ChosenProbe, expected: ContainerProbe) -> None:
    workload = parse(deployment(container(readinessProbe=HTTP_8080)), "Deployment")
    assert choose(AUTO, annotation, workload, 8080)[:2] == (expected, ReadinessRule.PROBE)


@pytest.mark.parametrize("policy", ReadinessPolicy)
def test_no_probe_leaves_the_decision_to_kubernetes(policy: ReadinessPolicy) -> None:
    found = choose(policy, ChosenProbe(ProbeWord.NONE), None, 8080)
    assert found[:2] == (None, ReadinessRule.NO_PROBE)


def test_an_unknown_workload_is_probed_by_connecting() -> None:
    assert choose(AUTO, None, None, 8080)[:2] == (ContainerProbe(Handler.TCP), ReadinessRule.PROBE)


@pytest.mark.parametrize(
    ("policy", "readiness"),
    [(PROBE, ReadinessRule.PROBE), (KUBERNETES, ReadinessRule.KUBERNETES_POLICY)],
)
def test_the_policy_decides_about_the_list_of_kubernetes(
    policy: ReadinessPolicy, readiness: ReadinessRule
) -> None:
    for probe in (EXEC, HTTP_8080):
        workload = parse(deployment(container(readinessProbe=probe)), "Deployment")
        assert choose(policy, None, workload, 8080).readiness is readiness


@pytest.mark.parametrize("word", ProbeWord)
def test_a_probe_of_the_annotation_speaks_tls_where_the_pods_do(word: ProbeWord) -> None:
    """A TCP probe only connects."""
    probe = choose(AUTO, ChosenProbe(word, "/x"), None, 8443, tls=True).probe
    assert probe is None or probe.tls is (word in (ProbeWord.HTTP, ProbeWord.GRPC))

"""The probe of a Service's pods, and its description in ``explain``."""

from __future__ import annotations

from typing import Any

import pytest

from activator.plain.annotations import ChosenProbe, ProbeWord, ReadinessPolicy
from activator.plain.probe_choice import choose
from activator.plain.probes import ContainerProbe, Handler
from activator.plain.workloads import parse
from tests.activator.plain.objects import container, deployment

AUTO, PROBE, KUBERNETES = ReadinessPolicy
HTTP_8080 = {"httpGet": {"port": 8080, "path": "/up"}}
EXEC = {"exec": {"command": ["true"]}}


@pytest.mark.parametrize(
    ("containers", "handler", "kubernetes_too", "why"),
    [
        ([container(readinessProbe=HTTP_8080)], Handler.HTTP, False, "of container app."),
        (
            [container(readinessProbe={"httpGet": {"port": "http"}})],
            *(Handler.HTTP, False, "of container app."),
        ),
        ([container(readinessProbe={"grpc": {"port": 8080}})], Handler.GRPC, False, "of container"),
        ([container()], Handler.TCP, False, "has no readiness probe"),
        ([container("a", 1), container("b", 2)], Handler.TCP, False, "No container declares port"),
        (
            [container(readinessProbe={"httpGet": {"port": 9999}})],
            *(Handler.TCP, False, "on another port"),
        ),
        (
            [container(readinessProbe={"httpGet": {"port": 8080, "host": "example.com"}})],
            *(Handler.TCP, False, "host of its own"),
        ),
        ([container(readinessProbe=EXEC)], Handler.TCP, True, "only kubelet can run the command"),
        (
            [container(readinessProbe=HTTP_8080, startupProbe=HTTP_8080)],
            *(Handler.HTTP, True, "container app has a startup probe"),
        ),
        (
            [container(readinessProbe=HTTP_8080), container("side", 1, readinessProbe=HTTP_8080)],
            *(Handler.HTTP, True, "container side has a readiness probe of its own"),
        ),
    ],
)
def test_the_probe_of_the_container(
    containers: Any, handler: Handler, kubernetes_too: bool, why: str
) -> None:
    found = choose(AUTO, None, parse(deployment(*containers), "Deployment"), 8080)
    assert found.probe is not None
    assert (found.probe.handler, found.kubernetes_too) == (handler, kubernetes_too)
    assert why in found.why


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
    assert choose(AUTO, annotation, workload, 8080)[:2] == (expected, False)


@pytest.mark.parametrize("policy", ReadinessPolicy)
def test_no_probe_leaves_the_decision_to_kubernetes(policy: ReadinessPolicy) -> None:
    found = choose(policy, ChosenProbe(ProbeWord.NONE), None, 8080)
    assert found[:2] == (None, True)


def test_an_unknown_workload_is_probed_by_connecting() -> None:
    assert choose(AUTO, None, None, 8080)[:2] == (ContainerProbe(Handler.TCP), False)


@pytest.mark.parametrize(("policy", "kubernetes_too"), [(PROBE, False), (KUBERNETES, True)])
def test_the_policy_decides_about_the_list_of_kubernetes(
    policy: ReadinessPolicy, kubernetes_too: bool
) -> None:
    for probe in (EXEC, HTTP_8080):
        workload = parse(deployment(container(readinessProbe=probe)), "Deployment")
        assert choose(policy, None, workload, 8080).kubernetes_too is kubernetes_too

"""What a Deployment or a StatefulSet describes, and which Services it belongs to."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given

from activator.objects.fields import ManifestError, ObjectKey
from activator.plain.workloads import ContainerProbe, PlainWorkload, PodContainer, parse
from tests.activator.objects.test_fields import json_values
from tests.activator.plain.objects import container, deployment
from throttler.model import ProbeKind


def test_a_deployment() -> None:
    assert parse(deployment(), "Deployment") == PlainWorkload(
        ObjectKey("Deployment", "shop", "hello"),
        "d1",
        0,
        {"app": "hello", "tier": "web"},
        (PodContainer("app", {"http": 8080}, None),),
    )


def test_absent_replicas_are_one() -> None:
    assert parse(deployment(replicas=None), "Deployment").replicas == 1


@pytest.mark.parametrize(
    ("containers", "port", "owner"),
    [
        ([container("a", 1), container("b", 2)], 2, "b"),
        ([container("a", 1), container("b", 2)], "http", "a"),
        ([container("a", 1), container("b", 2)], 3, None),
        ([container("a", None)], 3, "a"),
        ([container("a", None), container("b", None)], 3, None),
    ],
)
def test_the_container_behind_a_port(containers: Any, port: Any, owner: str | None) -> None:
    found = parse(deployment(*containers), "Deployment").owner_of(port)
    assert (found.name if found else None) == owner


def test_a_sidecar_is_a_container_and_an_init_container_is_not() -> None:
    init = [container("once", 1), container("sidecar", 2, restartPolicy="Always")]
    found = parse(deployment(init=init), "Deployment")
    assert [each.name for each in found.containers] == ["app", "sidecar"]


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        ({"httpGet": {"port": 8080}}, ContainerProbe(ProbeKind.HTTP, 8080)),
        (
            {
                "httpGet": {
                    "port": "http",
                    "path": "up?x=1",
                    "scheme": "HTTPS",
                    "host": "example.com",
                    "httpHeaders": [{"name": "Host", "value": "a.com"}, {"name": "X", "value": ""}],
                },
                "timeoutSeconds": 3,
                "initialDelaySeconds": 60,
                "successThreshold": 5,
            },
            ContainerProbe(
                ProbeKind.HTTP,
                "http",
                "example.com",
                "/up?x=1",
                (("Host", "a.com"), ("X", "")),
                tls=True,
                timeout=3.0,
            ),
        ),
        ({"tcpSocket": {"port": 1}}, ContainerProbe(ProbeKind.TCP, 1)),
        ({"grpc": {"port": 1, "service": "a.B"}}, ContainerProbe(ProbeKind.GRPC, 1, service="a.B")),
        ({"exec": {"command": ["true"]}}, ContainerProbe(ProbeKind.NONE)),
        ({"tcpSocket": {"port": 1}, "timeoutSeconds": 0}, ContainerProbe(ProbeKind.TCP, 1)),
        (None, None),
    ],
)
def test_the_readiness_probe(probe: Any, expected: ContainerProbe | None) -> None:
    found = parse(deployment(container(readinessProbe=probe)), "Deployment")
    assert found.containers[0].probe == expected


@pytest.mark.parametrize(
    ("probe", "where"),
    [
        ("tcp", ": expected an object, got 'tcp'"),
        ({"httpGet": {"port": 0}}, ".httpGet.port: expected an integer from 1 to 65535"),
        ({"httpGet": {"port": 1, "path": "/a b"}}, ".httpGet.path: expected a path of visible"),
        ({"httpGet": {"port": 1, "path": "/\r\nX: y"}}, ".httpGet.path: expected a path"),
        (
            {"httpGet": {"port": 1, "httpHeaders": [{"name": "a b", "value": ""}]}},
            ".httpGet.httpHeaders[0].name: expected the name of a header field",
        ),
        (
            {"httpGet": {"port": 1, "httpHeaders": [{"name": "a", "value": "\r\nb: c"}]}},
            ".httpGet.httpHeaders[0].value: expected a field value",
        ),
        (
            {"httpGet": {"port": 1, "httpHeaders": [{"name": "a", "value": "x" * 8192}]}},
            ".httpGet.httpHeaders: expected at most 8192 bytes",
        ),
    ],
)
def test_a_broken_probe_is_an_error_that_names_the_field(probe: Any, where: str) -> None:
    path = f"Deployment shop/hello: spec.template.spec.containers[0].readinessProbe{where}"
    with pytest.raises(ManifestError, match=f"^{re.escape(path)}"):
        parse(deployment(container(readinessProbe=probe)), "Deployment")


@given(json_values)
def test_any_value_is_read_or_refused(value: Any) -> None:
    for obj in (
        deployment(value),
        deployment(container(readinessProbe=value)),
        deployment(container(readinessProbe={"httpGet": value})),
        deployment(template=value),
    ):
        try:
            parse(obj, "Deployment")
        except ManifestError as error:
            text = str(error)
        else:
            text = "Deployment"
        assert text.startswith("Deployment")

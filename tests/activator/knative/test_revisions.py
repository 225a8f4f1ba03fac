from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator.knative import revisions
from activator.knative.words import QUEUE_PROXY
from activator.objects.fields import ManifestError
from tests.activator.discovery.recording import A, revision
from tests.activator.discovery.test_endpoints import places, put
from tests.activator.objects.test_fields import json_values
from tests.rows import in_one_test
from throttler.model import AppProtocol, Revision

EXEC = {"exec": {"command": ["true"]}}
HTTP = {"httpGet": {"path": "/"}}
TCP = {"tcpSocket": {"port": 8881}}
GRPC = {"grpc": {"port": 8883}}


def test_everything_that_is_missing_has_knatives_default() -> None:
    assert revisions.parse(revision()) == Revision(A, timeout=300.0, probe=QUEUE_PROXY)


def test_all_fields_are_read() -> None:
    obj = revision(
        uid="u1",
        containerConcurrency=3,
        timeoutSeconds=60,
        responseStartTimeoutSeconds=20,
        idleTimeoutSeconds=10,
        containers=[{"ports": [{"name": "h2c"}]}],
    )
    obj["metadata"]["labels"] = {
        "serving.knative.dev/service": "s",
        "serving.knative.dev/configuration": "c",
    }
    assert revisions.parse(obj) == Revision(
        *(A, "u1", 3, AppProtocol.H2C, 60.0, 20.0, 10.0),
        service="s",
        configuration="c",
        probe=QUEUE_PROXY,
    )


@pytest.mark.parametrize(
    ("value", "on"), [("Enabled", True), ("enabled", True), ("", False), ("true", False)]
)
def test_full_duplex_is_switched_on_by_annotation(value: str, on: bool) -> None:
    obj = revision()
    obj["metadata"]["annotations"] = {"features.knative.dev/http-full-duplex": value}
    assert revisions.parse(obj).full_duplex is on


def test_a_timeout_of_zero_stays_zero() -> None:
    assert revisions.parse(revision(timeoutSeconds=0)).timeout == 0


@pytest.mark.parametrize("value", [-1, 1.5, "3", True, 2**40, [], {}])
@pytest.mark.parametrize(
    "name",
    [
        "containerConcurrency",
        "timeoutSeconds",
        "responseStartTimeoutSeconds",
        "idleTimeoutSeconds",
    ],
)
def test_a_number_that_is_none_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ManifestError, match=rf"^Revision default/a: spec\.{name}: expected an int"):
        revisions.parse(revision(**{name: value}))


@pytest.mark.parametrize(
    ("containers", "protocol"),
    [
        ([], AppProtocol.HTTP1),
        ([{}], AppProtocol.HTTP1),
        ([{"ports": [{"name": "http1"}]}], AppProtocol.HTTP1),
        ([{"ports": [{"containerPort": 1}, {"name": "h2c"}]}], AppProtocol.HTTP1),
        ([{"ports": []}, {"ports": [{"name": "h2c"}]}], AppProtocol.H2C),
    ],
)
def test_the_first_port_of_the_serving_container_names_the_protocol(
    containers: list[Any], protocol: AppProtocol
) -> None:
    assert revisions.parse(revision(containers=containers)).protocol is protocol


SERVING = {"ports": [{"containerPort": 8080}]}


@in_one_test(
    ("containers", "rule"),
    [
        ([SERVING], "probe"),
        ([{**SERVING, "readinessProbe": HTTP}], "probe"),
        ([{**SERVING, "readinessProbe": EXEC}], "exec-readiness-probe"),
        ([{**SERVING, "readinessProbe": EXEC, "startupProbe": HTTP}], "exec-readiness-probe"),
        ([{**SERVING, "startupProbe": HTTP}], "startup-probe"),
        ([{**SERVING, "livenessProbe": EXEC}], "probe"),
        ([SERVING, {}], "probe"),
        ([SERVING, {"readinessProbe": HTTP}], "probe"),
        ([SERVING, {"readinessProbe": TCP}], "probe"),
        ([SERVING, {"readinessProbe": GRPC}, {"readinessProbe": HTTP}], "probe"),
        ([SERVING, {"readinessProbe": HTTP}, {"readinessProbe": EXEC}], "exec-readiness-probe"),
        ([SERVING, {"readinessProbe": HTTP, "startupProbe": TCP}], "startup-probe"),
        ([{"readinessProbe": EXEC}, SERVING], "exec-readiness-probe"),
        ([SERVING, {"startupProbe": HTTP}], "startup-probe"),
        ([{"readinessProbe": HTTP}], "probe"),
    ],
)
def test_our_probe_suffices_only_where_queue_proxy_sees_every_probe(
    containers: list[Any], rule: str
) -> None:
    read = revisions.parse(revision(containers=containers))
    assert (read.readiness.value, read.probe_suffices) == (rule, rule == "probe")


@pytest.mark.parametrize(("policy", "suffices"), [("probe", True), ("kubernetes", False)])
def test_the_annotation_overrides_what_the_probes_say(policy: str, suffices: bool) -> None:
    probe = EXEC if suffices else HTTP
    obj = revision(containers=[{**SERVING, "readinessProbe": probe}])
    obj["metadata"]["annotations"] = {"activator.dev/readiness-policy": policy}
    read = revisions.parse(obj)
    assert read.readiness.value == ("probe" if suffices else "kubernetes-policy")


@pytest.mark.parametrize("policy", ["cluster", "annotation"])
def test_the_policy_kubernetes_also_covers_sidecars_of_an_older_knative(policy: str) -> None:
    obj = revision(containers=[SERVING, {"readinessProbe": HTTP}])
    if policy == "annotation":
        obj["metadata"]["annotations"] = {"activator.dev/readiness-policy": "kubernetes"}
    read = revisions.parse(obj, "kubernetes" if policy == "cluster" else "auto")
    assert read.readiness.value == "kubernetes-policy"


@pytest.mark.parametrize("probe", [{"readinessProbe": HTTP}, {"readinessProbe": EXEC}])
@pytest.mark.parametrize(("policy", "suffices"), [("probe", True), ("kubernetes", False)])
def test_the_policy_of_the_cluster_counts_where_no_annotation_says_otherwise(
    probe: dict[str, Any], policy: str, suffices: bool
) -> None:
    obj = revision(containers=[probe])
    assert revisions.parse(obj, policy).probe_suffices is suffices
    obj["metadata"]["annotations"] = {"activator.dev/readiness-policy": "auto"}
    assert revisions.parse(obj, policy).probe_suffices is (probe["readinessProbe"] is HTTP)


def test_an_empty_policy_is_the_one_of_the_cluster() -> None:
    obj = revision()
    obj["metadata"]["annotations"] = {"activator.dev/readiness-policy": ""}
    assert revisions.parse(obj, "kubernetes").readiness.value == "kubernetes-policy"


def test_an_unknown_policy_is_refused_and_the_known_ones_are_named() -> None:
    obj = revision()
    obj["metadata"]["annotations"] = {"activator.dev/readiness-policy": "always"}
    with pytest.raises(ManifestError, match="one of auto, probe, kubernetes, got 'always'"):
        revisions.parse(obj)


def whole() -> dict[str, Any]:
    obj = revision(
        uid="u",
        containerConcurrency=1,
        timeoutSeconds=1,
        containers=[
            {**SERVING, "readinessProbe": EXEC, "startupProbe": HTTP},
            {"name": "sidecar", "readinessProbe": HTTP},
        ],
    )
    obj["metadata"]["labels"] = {"serving.knative.dev/service": "s"}
    obj["metadata"]["annotations"] = {"activator.dev/readiness-policy": "auto"}
    return obj


@given(st.sampled_from(places(whole())), json_values)
@pytest.mark.untraced  # long when traced
def test_any_value_anywhere_gives_a_revision_or_the_typed_error(
    path: tuple[Any, ...], value: object
) -> None:
    obj = copy.deepcopy(whole())
    put(obj, path, value)
    try:
        parsed = revisions.parse(obj)
    except ManifestError:
        pass
    else:
        assert parsed.container_concurrency >= 0
        assert parsed.timeout >= 0

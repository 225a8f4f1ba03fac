"""What the annotations of a Service ask for: each value, each error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator.kpa.decision import ScaleRules
from activator.objects.fields import Field, ManifestError, Problems, root
from activator.objects.policies import without_readers
from activator.plain import annotations as plain
from activator.plain import awake_hours
from activator.plain.annotations import (
    TABLE,
    Annotations,
    AsleepWhen,
    ChosenProbe,
    Cpu,
    NamedCondition,
    NamedTarget,
    Owner,
    ReadinessPolicy,
    Route,
    TcpWords,
    Timeouts,
    WakerName,
    WakerWords,
)
from tests.activator.plain import reference
from tests.rows import in_one_test
from throttler.model import FlowKey, Policies, ProbeKind, QueueOrder
from throttler.request_policies import (
    ConnectionPolicies,
    HeaderRule,
    Profile,
    ProxyHeader,
    RequestPolicies,
    WaitMode,
    WhileWaiting,
)

OPENAI = Policies(
    requests=RequestPolicies(WhileWaiting((WaitMode.HEARTBEAT,)), profile=Profile.OPENAI)
)


def metadata(**texts: object) -> Field:
    """Return the metadata of a Service; underscores stand for hyphens."""
    return of({f"activator.dev/{name.replace('_', '-')}": text for name, text in texts.items()})


def of(annotations: Any) -> Field:
    """Return the metadata of a Service with these annotations."""
    obj = {"metadata": {"name": "hello", "namespace": "shop", "annotations": annotations}}
    return root(obj, "Service")["metadata"]


def parse(metadata: Field) -> Annotations:
    """Return what annotations ask for; raise one error for all wrong values."""
    problems = Problems()
    return problems.settle(plain.read(metadata, problems))


def test_everything_but_enabled_has_a_default() -> None:
    assert parse(metadata(enabled="true")) == Annotations()
    assert Annotations().scale == ScaleRules(100, 0, 0, 1, 300)


RIGHT: Final[list[tuple[dict[str, str], dict[str, Any]]]] = [
    ({"target": "deployment/hello"}, {"target": NamedTarget("", "", "deployment", "hello")}),
    (
        {"target": "argoproj.io/v1alpha1/Rollout/hello"},
        {"target": NamedTarget("argoproj.io", "v1alpha1", "Rollout", "hello")},
    ),
    ({"hosts": "A.com, *.b.com.,a.com"}, {"hosts": ("a.com", "*.b.com")}),
    ({"hosts": " , "}, {}),
    (
        {"paths": "/api/, /v2/x y,/", "hosts": "a.com"},
        {"hosts": ("a.com",), "paths": ("api", "v2/x y", "")},
    ),
    (
        {"headers": "X-Beta, x-version : 2 ,x-empty:", "hosts": "a.com"},
        {
            "hosts": ("a.com",),
            "headers": (
                HeaderRule(b"x-beta"),
                HeaderRule(b"x-version", b"2"),
                HeaderRule(b"x-empty", b""),
            ),
        },
    ),
    ({"port": "web"}, {"port": "web"}),
    ({"port": "8080"}, {"port": "8080"}),
    (
        {"container_concurrency": "7"},
        {"container_concurrency": 7, "scale": ScaleRules(target=7)},
    ),
    (
        {"container_concurrency": "7", "target_concurrency": "0.5"},
        {"container_concurrency": 7, "scale": ScaleRules(target=0.5)},
    ),
    ({"timeout_seconds": "0"}, {"timeouts": Timeouts(total=0.0)}),
    ({"response_start_timeout_seconds": "5"}, {"timeouts": Timeouts(response_start=5.0)}),
    (
        {"protocol": "tcp", "fair_by": "client-ip"},
        {
            "tcp": TcpWords(True),
            "policies": Policies(
                order=QueueOrder(fair_by=FlowKey()), connections=ConnectionPolicies()
            ),
        },
    ),
    (
        {"protocol": "http", "wake_after_milliseconds": "250", "send_proxy": "v2"},
        {"tcp": TcpWords(policies=ConnectionPolicies(0.25, send_proxy=ProxyHeader.V2))},
    ),
    (
        {"keep_awake": "bytes", "warm_path": "direct", "listen_port": "65535"},
        {"tcp": TcpWords(False, ConnectionPolicies(by_bytes=True), True, 65_535)},
    ),
    ({"idle_timeout_seconds": "6"}, {"timeouts": Timeouts(idle=6.0)}),
    ({"readiness_policy": "kubernetes"}, {"readiness": ReadinessPolicy.KUBERNETES}),
    ({"probe": "tcp"}, {"probe": ChosenProbe(ProbeKind.TCP)}),
    ({"probe": "none"}, {"probe": ChosenProbe(ProbeKind.NONE)}),
    ({"probe": "grpc"}, {"probe": ChosenProbe(ProbeKind.GRPC)}),
    ({"probe": "grpc:my.Svc"}, {"probe": ChosenProbe(ProbeKind.GRPC, "my.Svc")}),
    ({"probe": "http:/up?x=1"}, {"probe": ChosenProbe(ProbeKind.HTTP, "/up?x=1")}),
    ({"route": "takeover"}, {"route": Route.TAKEOVER}),
    ({"owner": "keda"}, {"owner": Owner.KEDA}),
    (
        {"min_scale": "2", "max_scale": "9", "initial_scale": "3", "idle_seconds": "10"},
        {"scale": ScaleRules(100, 2, 9, 3, 10)},
    ),
    ({"min_scale": "2"}, {"scale": ScaleRules(min_scale=2)}),
    ({"activation_scale": "2"}, {"scale": ScaleRules(activation_scale=2)}),
    ({"awake": "Mon 08:00-18:00"}, {"awake": awake_hours.parse("Mon 08:00-18:00 UTC")}),
    ({"wake_with": "b, other/c,b"}, {"wake_with": ("b", "other/c")}),
    ({"wake_from": "shop"}, {"wake_from": ("shop",)}),
    ({"dry_run": "true"}, {"dry_run": True}),
    ({"max_scale": " 2 "}, {"scale": ScaleRules(max_scale=2)}),
    ({"max_scale": ""}, {}),
    (
        {"waker": "http", "sleep_url": "/sleep?level=1", "wake_url": "http://gpu:8080/on"},
        {
            "waker": WakerWords(
                WakerName.HTTP, sleep_url="/sleep?level=1", wake_url="http://gpu:8080/on"
            )
        },
    ),
    ({"asleep_when": "a-b=true"}, {"waker": WakerWords(asleep_when=AsleepWhen("a-b", "true"))}),
    (
        {"asleep_when": " mode = is off "},
        {"waker": WakerWords(asleep_when=AsleepWhen("mode", '"is off"'))},
    ),
    ({"asleep_when": 'n = "1"'}, {"waker": WakerWords(asleep_when=AsleepWhen("n", '"1"'))}),
    (
        {"profile": "vllm-sleep"},
        {"waker": WakerWords(profile=True), "policies": OPENAI},
    ),
    ({"profile": "openai"}, {"policies": OPENAI}),
    ({"startup_cpu": "2"}, {"waker": WakerWords(startup_cpu=2000)}),
    ({"startup_cpu": "1500m"}, {"waker": WakerWords(startup_cpu=1500)}),
    ({"parked_cpu": "2m/20m"}, {"waker": WakerWords(parked_cpu=Cpu(2, 20))}),
    ({"parked_cpu": " 5m "}, {"waker": WakerWords(parked_cpu=Cpu(5, 10))}),
    ({"parked_cpu": "0.1"}, {"waker": WakerWords(parked_cpu=Cpu(100, 100))}),
    (
        {"waker": "patch", "sleep_patch": '{"b": {"c": 1}, "a": null}'},
        {"waker": WakerWords(WakerName.PATCH, '{"a":null,"b":{"c":1}}')},
    ),
    (
        {"wake_patch": '{"metadata": {"annotations": {"x": "y"}}}'},
        {"waker": WakerWords(wake_patch='{"metadata":{"annotations":{"x":"y"}}}')},
    ),
    (
        {"awake_condition": "cnpg.io/hibernation=False"},
        {"waker": WakerWords(awake_condition=NamedCondition("cnpg.io/hibernation", "False"))},
    ),
]


@in_one_test(
    ("texts", "expected"),
    RIGHT,
)
def test_values(texts: dict[str, str], expected: dict[str, Any]) -> None:
    assert parse(metadata(**texts)) == Annotations(**expected)


SINCE_TCP: Final = "since activator.dev/protocol is tcp"
PATCH: Final = (
    'expected a JSON object of at most 4096 characters, as in {"spec": {"stop": true}}, got'
)
WRONG: Final[list[tuple[dict[str, Any], str]]] = [
    ({"target": "hello"}, "expected KIND/NAME or GROUP/VERSION/KIND/NAME"),
    ({"target": "apps/Deployment/x"}, "expected KIND/NAME or GROUP/VERSION/KIND/NAME"),
    ({"target": "apps/v1/Deployment/a/b"}, "expected KIND/NAME"),
    ({"target": "deployment/../x"}, "expected KIND/NAME"),
    ({"hosts": "a.com, -b.com"}, "expected up to 256 DNS names"),
    ({"paths": "api"}, "expected up to 256 paths, as in /api,/v2"),
    ({"paths": "/a?b"}, "expected up to 256 paths"),
    ({"paths": "/a%20b"}, "expected up to 256 paths"),
    ({"paths": "/a\nb"}, "expected up to 256 paths"),
    ({"paths": ",".join(f"/{n}" for n in range(257))}, "expected up to 256 paths"),
    ({"headers": "x beta"}, "expected up to 16 header fields, as in x-beta,x-version: 2"),
    ({"headers": ": 1"}, "expected up to 16 header fields"),
    ({"headers": "x: a\r\nb: c"}, "expected up to 16 header fields"),
    ({"headers": ",".join(f"x-{n}" for n in range(17))}, "expected up to 16 header fields"),
    ({"hosts": "*"}, "expected up to 256 DNS names"),
    ({"hosts": "a.*.com"}, "expected up to 256 DNS names"),
    ({"hosts": "a.com:80"}, "expected up to 256 DNS names"),
    ({"hosts": f"{'a' * 64}.com"}, "expected up to 256 DNS names"),
    ({"hosts": ",".join(f"h{n}.com" for n in range(257))}, "expected up to 256 DNS names"),
    ({"port": "Web!"}, "expected the name or the number of a port"),
    ({"container_concurrency": "-1"}, "expected an integer from 0 to 2147483647, got '-1'"),
    ({"container_concurrency": "1.5"}, "expected an integer from 0"),
    ({"container_concurrency": "1_0"}, "expected an integer from 0"),
    ({"container_concurrency": "²"}, "expected an integer from 0"),
    ({"container_concurrency": "9" * 5000}, "expected an integer from 0"),
    ({"container_concurrency": 7}, "expected a string in quotes, got 7"),
    (
        {"timeout_seconds": "5s"},
        "expected a number of seconds, an integer from 0 to 2147483647, such as 60",
    ),
    ({"target_concurrency": "0"}, "expected a number from 0.01"),
    ({"target_concurrency": "nan"}, "expected a number from 0.01"),
    ({"target_concurrency": "1e9"}, "expected a number from 0.01"),
    ({"readiness_policy": "Probe"}, "expected one of auto, probe, kubernetes, got 'Probe'"),
    ({"probe": "http:up"}, "expected http:/PATH, tcp, grpc, grpc:SERVICE or none"),
    ({"probe": "http:/a b"}, "expected http:/PATH"),
    ({"probe": "http:/a\r\nHost: x"}, "expected http:/PATH"),
    ({"probe": "tcp:80"}, "expected http:/PATH"),
    ({"probe": "grpc:a/b"}, "expected http:/PATH"),
    ({"route": "shared,takeover"}, "expected one of shared, takeover"),
    ({"awake": "always"}, "expected spans as in Mon-Fri 08:00-18:00 Europe/Berlin, got 'always'"),
    (
        {"awake": "Mon 08:00-18:00 Mars/X"},
        "expected spans as in Mon-Fri 08:00-18:00 Europe/Berlin (unknown time zone 'Mars/X')",
    ),
    ({"wake_with": "a/b/c"}, "expected up to 32 Services, as in backend,other-namespace/cache"),
    ({"wake_with": ",".join(f"b{n}" for n in range(33))}, "expected up to 32 Services"),
    ({"wake_from": "*"}, "expected up to 32 namespaces, separated by commas, got '*'"),
    ({"activation_scale": "0"}, "expected an integer from 1 to 2147483647, got '0'"),
    ({"dry_run": "yes"}, "expected one of true, false, got 'yes'"),
    ({"owner": "me"}, "expected one of self, keda, hpa, none"),
    ({"waker": "hammer"}, "expected one of scale, patch"),
    *(({"sleep_patch": text}, PATCH) for text in ("{", "[]", "{}", '{"a": "' + "x" * 4096 + '"}')),
    *(
        ({"sleep_patch": text}, PATCH.replace(", got", f" ({reason}), got"))
        for text, reason in (
            ('{"a": ' + "[" * 200 + "]" * 200 + "}", "more than 200 objects and lists"),
            ('{"a": NaN}', "NaN is no JSON"),
            ("{ }", "it is empty"),
            ('{"a" 1}', "Expecting ':' delimiter: line 1 column 6 (char 5)"),
            ('{"kind": "Pod"}', "a patch must not change kind"),
            ('{"metadata": null}', "a patch must not change metadata as a whole"),
            (
                '{"apiVersion": "v2", "metadata": {"uid": "1", "finalizers": null}}',
                "a patch must not change apiVersion, metadata.finalizers, metadata.uid",
            ),
            *(
                (f'{{"metadata": {{"{name}": "x"}}}}', f"a patch must not change metadata.{name}")
                for name in ("name", "namespace", "resourceVersion", "ownerReferences")
            ),
        )
    ),
    ({"wake_patch": "x"}, "expected a JSON object"),
    ({"awake_condition": "Ready"}, "expected TYPE=STATUS, as in Ready=True; STATUS is True,"),
    ({"awake_condition": "Ready=Yes"}, "expected TYPE=STATUS"),
    ({"sleep_url": "sleep"}, "expected a path of the pods, as in /sleep, or http://SERVICE"),
    ({"wake_url": "http://user@gpu/on"}, "expected a path of the pods"),
    ({"wake_url": "http://gpu"}, "expected a path of the pods"),
    ({"state_url": "http://gpu:0/state"}, "expected a path of the pods"),
    ({"state_url": "ftp://gpu/state"}, "expected a path of the pods"),
    ({"sleep_url": "/a b"}, "expected a path of the pods"),
    ({"asleep_when": "sleeping"}, "expected MEMBER = VALUE of a JSON object, as in is_sl"),
    ({"asleep_when": "a b = 1"}, "expected MEMBER = VALUE of a JSON object"),
    ({"asleep_when": "a ="}, "expected MEMBER = VALUE of a JSON object"),
    ({"startup_cpu": "-1"}, "expected CPU below 1000, as in 500m or 2, got '-1'"),
    ({"startup_cpu": "1000"}, "expected CPU below 1000, as in 500m or 2"),
    ({"startup_cpu": "0.000"}, "expected CPU below 1000, as in 500m or 2"),
    ({"startup_cpu": 2}, "expected a string in quotes, got 2"),
    ({"parked_cpu": "little"}, "expected REQUEST or REQUEST/LIMIT, as in 1m/10m, got 'little'"),
    ({"parked_cpu": "0"}, "expected REQUEST or REQUEST/LIMIT, as in 1m/10m, got '0'"),
    ({"parked_cpu": "1/"}, "expected REQUEST or REQUEST/LIMIT, as in 1m/10m, got '1/'"),
    (
        {"parked_cpu": "20m/10m"},
        "expected REQUEST or REQUEST/LIMIT, as in 1m/10m (the limit is below the request), got",
    ),
    ({"parked_cpu": "1m/2m/3m"}, "expected REQUEST or REQUEST/LIMIT, as in 1m/10m"),
    ({"profile": "vllm"}, "expected one of openai, vllm-sleep, got 'vllm'"),
    ({"min_scale": "3", "max_scale": "2"}, "expected 0 or at least min-scale, which is 3"),
    (
        {"protocol": "postgresql"},
        "expected one of http, tcp (a name such as postgresql belongs in appProtocol of the port), "
        "got 'postgresql'",
    ),
    ({"wake_after_milliseconds": "10001"}, "expected an integer from 0 to 10000, got '10001'"),
    ({"keep_awake": "always"}, "expected one of connections, bytes, got 'always'"),
    ({"send_proxy": "v3"}, "expected one of v1, v2, got 'v3'"),
    ({"warm_path": "pods"}, "expected one of activators, direct, got 'pods'"),
    ({"listen_port": "0"}, "expected an integer from 1 to 65535, got '0'"),
    *(
        ({"protocol": "tcp", name: value}, f"expected no such annotation, {SINCE_TCP}, got")
        for name, value in (
            *(("hosts", "a.com"), ("idle_timeout_seconds", "5"), ("while_waiting", "page")),
            *(("wake_methods", "GET"), ("auth_url", "http://a/"), ("profile", "openai")),
            *(("adaptive_concurrency", "on"), ("priority_trust", "true")),
        )
    ),
    *(
        ({"protocol": "tcp", name: value}, f"expected client-ip, {SINCE_TCP}, got '{value}'")
        for name, value in (*(("hash_key", "path"), ("sticky", "cookie"), ("fair_by", "header:x")),)
    ),
]


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("texts", "error"),
    WRONG,
)
def test_an_error_names_object_annotation_and_allowed_values(
    texts: dict[str, object], error: str
) -> None:
    name = list(texts)[-1].replace("_", "-")
    where = f"Service shop/hello: metadata.annotations[activator.dev/{name}]: "
    with pytest.raises(ManifestError, match=f"^{re.escape(where + error)}"):
        parse(metadata(**texts))


@pytest.mark.parametrize("wrong", [{"paths": "api"}, {"headers": "x y"}])
def test_a_wrong_rule_does_not_take_all_requests_of_a_host(wrong: dict[str, str]) -> None:
    problems = Problems()
    assert plain.read(metadata(hosts="a.com", owner="hpa", **wrong), problems).hosts == ()
    assert problems


def test_one_error_names_all_wrong_values_of_a_service() -> None:
    texts = {"owner": "me", "hosts": "a.com", "route": "x", "load_balancing": "y", "hash_key": "z"}
    with pytest.raises(ManifestError) as caught:
        parse(metadata(min_scale="3", max_scale="2", **texts))
    text = str(caught.value)
    assert text.startswith("Service shop/hello: metadata.annotations[activator.dev/route]: ")
    assert text.count("Service shop/hello") == 1
    for name, value in (
        ("route", "x"),
        ("owner", "me"),
        ("load-balancing", "y"),
        ("hash-key", "z"),
    ):
        found = re.search(rf"metadata\.annotations\[activator\.dev/{name}\]: [^;]*", text)
        assert found
        assert found[0].endswith(f"got '{value}'")
    assert "[activator.dev/max-scale]: expected 0 or at least min-scale, which is 3" in text
    assert "hosts]" not in text


@pytest.mark.parametrize("value", ["", " "])
def test_an_empty_value_is_no_value(value: str) -> None:
    names = (*TABLE, "load-balancing", "hash-key")
    assert parse(of({plain.PREFIX + name: value for name in names})) == Annotations()


@pytest.mark.parametrize(
    ("value", "enabled"), [("true", True), ("false", False), ("", False), (None, False)]
)
def test_a_service_opts_in(value: str | None, enabled: bool) -> None:
    assert plain.is_enabled(metadata(enabled=value)) is enabled
    assert not plain.is_enabled(of(None))


@pytest.mark.parametrize("value", ["True", "yes", "1", True])
def test_a_misspelt_opt_in_is_an_error(value: object) -> None:
    with pytest.raises(ManifestError, match=r"enabled\]: expected"):
        plain.is_enabled(metadata(enabled=value))


def test_a_misspelt_annotation_is_found() -> None:
    wrong = metadata(enabled="true", hosst="x", idle_secs="5", zzzzzzzz="", port="1", last="")
    first, second, third = without_readers(wrong["annotations"], plain.KNOWN)
    assert first.endswith("/hosst' is unknown and has no effect; did you mean activator.dev/hosts?")
    assert second.endswith("; did you mean activator.dev/idle-seconds?")
    assert third == "the annotation 'activator.dev/zzzzzzzz' is unknown and has no effect"
    [wakes] = without_readers(metadata(wake_paths="/")["annotations"], plain.KNOWN)
    assert wakes.endswith(
        "/wake-paths' is unknown and has no effect; did you mean activator.dev/wake-not-paths?"
    )


def test_annotations_of_others_are_left_alone() -> None:
    others = of({"activator.device/x": "", "a": 1, 5: "", "activator.dev/hash-key": ""})
    assert without_readers(others["annotations"], plain.KNOWN) == []


@given(st.dictionaries(st.sampled_from(sorted(TABLE)), st.text() | st.integers() | st.none()))
def test_any_value_is_read_or_refused(texts: dict[str, Any]) -> None:
    field = of({plain.PREFIX + name: text for name, text in texts.items()})
    problem = ""
    try:
        parse(field)
    except ManifestError as error:
        problem = str(error)
    assert problem.startswith(
        "Service shop/hello: metadata.annotations[activator.dev/"[: len(problem)]
    )


def test_the_table_for_people_has_every_annotation() -> None:
    lines = reference.markdown().splitlines()
    assert len(lines) == len(TABLE) + 3
    assert all(line.count("|") == 5 for line in lines)


def test_the_reference_has_the_table() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "reference.md").read_text()
    shown = re.search(r"<!-- annotations -->\n(.*)\n<!-- /annotations -->", page, re.DOTALL)
    assert shown
    assert shown[1].strip() == reference.markdown(), (
        "put the output of `python -m tests.activator.plain.reference` between the markers"
    )

"""The annotations for requests without a pod."""

from __future__ import annotations

from typing import Any, Final

import pytest

from activator.knative import revisions
from activator.objects.fields import ManifestError
from tests.activator.objects.test_queue_order import annotated
from tests.rows import in_one_test
from throttler.request_policies import (
    Authorization,
    Profile,
    RequestPolicies,
    WaitMode,
    WakeRules,
    WhileWaiting,
)

PAGE, BEAT = WaitMode.PAGE, WaitMode.HEARTBEAT
OPENAI = Profile.OPENAI
AUTH = "http://auth.example:8080/check?a=b"


def read(**annotations: Any) -> RequestPolicies | None:
    return revisions.parse(annotated(**annotations)).policies.requests


RIGHT: Final[list[tuple[dict[str, str], RequestPolicies | None]]] = [
    ({}, None),
    ({"while_waiting": " ", "wake_methods": "", "auth_url": "", "profile": ""}, None),
    ({"page_after_seconds": "3", "heartbeat_seconds": "9", "auth_always": "true"}, None),
    ({"while_waiting": "page"}, RequestPolicies(WhileWaiting((PAGE,), 1.0, 15.0))),
    (
        {"while_waiting": "heartbeat, page,page", "page_after_seconds": "0.25"},
        RequestPolicies(WhileWaiting((BEAT, PAGE), 0.25, 15.0)),
    ),
    (
        {"while_waiting": "page", "page_template": "shop.html"},
        RequestPolicies(WhileWaiting((PAGE,), page_template="shop.html")),
    ),
    (
        {"while_waiting": "refuse", "heartbeat_seconds": "300"},
        RequestPolicies(WhileWaiting((WaitMode.REFUSE,), 1.0, 300.0)),
    ),
    (
        {"wake_methods": "GET, POST", "asleep_status": "204"},
        RequestPolicies(wake=WakeRules(methods=(b"GET", b"POST"), asleep_status=204)),
    ),
    (
        {"wake_not_user_agents": "UptimeRobot,kube-probe", "wake_not_paths": "/health"},
        RequestPolicies(
            wake=WakeRules(not_user_agents=(b"uptimerobot", b"kube-probe"), not_paths=(b"/health",))
        ),
    ),
    (
        {"wake_requires_header": "Authorization"},
        RequestPolicies(wake=WakeRules(required_header=b"authorization")),
    ),
    ({"auth_url": AUTH}, RequestPolicies(authorization=Authorization(AUTH))),
    (
        {"auth_url": AUTH, "auth_always": "true", "auth_cache_seconds": "1.5"},
        RequestPolicies(authorization=Authorization(AUTH, always=True, cache_seconds=1.5)),
    ),
    (
        {
            "auth_url": AUTH,
            "auth_cache_key": "Authorization, cookie,authorization,X-Forwarded-Uri",
            "auth_response_headers": "X-Auth-Request-User,x-forwarded-user,Authorization",
        },
        RequestPolicies(
            authorization=Authorization(
                AUTH,
                cache_key=(b"authorization", b"cookie", b"x-forwarded-uri"),
                response_headers=(
                    *(b"x-auth-request-user", b"x-forwarded-user", b"authorization"),
                ),
            )
        ),
    ),
    (
        {"profile": "openai", "wait_seconds": "900"},
        RequestPolicies(WhileWaiting((BEAT,)), profile=OPENAI, wait_seconds=900.0),
    ),
    (
        {"models": " a/b-1, c,c"},
        RequestPolicies(WhileWaiting((BEAT,)), profile=OPENAI, models=("a/b-1", "c")),
    ),
    (
        {"profile": "openai", "while_waiting": "hold"},
        RequestPolicies(WhileWaiting((WaitMode.HOLD,)), profile=OPENAI),
    ),
]


@in_one_test(
    ("annotations", "chosen"),
    RIGHT,
)
def test_each_annotation_is_read(
    annotations: dict[str, str], chosen: RequestPolicies | None
) -> None:
    assert read(**annotations) == chosen


WRONG: Final[list[tuple[str, Any, str]]] = [
    ("while_waiting", "spinner", "up to 64 of hold, page, heartbeat, refuse"),
    ("while_waiting", ["page"], "a string"),
    ("page_after_seconds", "-1", "a number of seconds from 0 to 300"),
    ("page_after_seconds", "1e2", "a number of seconds from 0 to 300"),
    ("page_template", "a/b", "a key of the ConfigMap activator-pages"),
    ("page_template", "<script>", "a key of the ConfigMap activator-pages"),
    ("page_template", "a" * 254, "a key of the ConfigMap activator-pages"),
    ("heartbeat_seconds", "0", "a number of seconds from 1 to 300"),
    ("heartbeat_seconds", "301", "a number of seconds from 1 to 300"),
    ("heartbeat_seconds", "٣", "a number of seconds from 1 to 300"),
    ("wake_methods", "get", "up to 64 methods, as in GET,POST"),
    ("wake_methods", "GET POST", "up to 64 methods, as in GET,POST"),
    ("wake_not_user_agents", "ro\tbot", "up to 64 ASCII texts"),
    ("wake_not_user_agents", "a" * 201, "up to 64 ASCII texts"),
    ("wake_not_paths", "health", "up to 64 paths, as in /health,/metrics"),
    ("wake_not_paths", ",".join(f"/{i}" for i in range(65)), "up to 64 paths"),
    ("wake_requires_header", "a b", "the name of an end-to-end header field"),
    ("wake_requires_header", "Content-Length", "the name of an end-to-end header field"),
    ("asleep_status", "404", "one of 503, 200, 204"),
    ("auth_url", "auth.example/check", "an http or https URL"),
    ("auth_url", "http://[::1/check", "an http or https URL"),
    ("auth_url", "http://user:secret@auth.example/", "an http or https URL"),
    ("auth_url", "http://auth.example/a b", "an http or https URL"),
    ("auth_url", "http://auth.example:99999/", "an http or https URL"),
    ("auth_always", "yes", "one of true, false"),
    ("auth_cache_seconds", "3601", "a number of seconds from 0 to 3600"),
    *(
        (name, wrong, "up to 64 names of end-to-end header fields with letters, digits and -")
        for name in ("auth_cache_key", "auth_response_headers")
        for wrong in (
            *("a b", "x_user", "x.user", "X-User:", "Connection", "Content-Length", "HOST"),
            *("x-forwarded-for", "Activator-Reason", "K-Proxy-Request", "proxy-authorization"),
            "a" * 65,
        )
    ),
    ("profile", "OpenAI", "one of openai"),
    ("models", "a,ä", "up to 64 ids of models, as in llama-3-8b,embed"),
    ("wait_seconds", "0", "a number of seconds from 1 to 86400"),
]


@in_one_test(
    ("name", "value", "allowed"),
    WRONG,
)
def test_an_error_names_annotation_and_allowed_values(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(ManifestError) as found:
        read(**{name: value})
    assert found.value.path == f"metadata.annotations[activator.dev/{name.replace('_', '-')}]"
    assert allowed in found.value.problem


@pytest.mark.parametrize(
    ("annotations", "chosen"),
    [
        ({"while_waiting": "banner", "wake_methods": "GET"}, WakeRules(methods=(b"GET",))),
        ({"heartbeat_seconds": "0", "profile": "next", "priority": "c"}, None),
        # Authorization allows least: no request, each request, no cache.
        ({"auth_url": "auth.example"}, Authorization("")),
        ({"auth_url": "auth.example", "auth_cache_seconds": "9"}, Authorization("", False, 9)),
        ({"auth_url": AUTH, "auth_always": "yes"}, Authorization(AUTH, always=True)),
        ({"auth_url": AUTH, "auth_cache_seconds": "1h"}, Authorization(AUTH)),
        ({"auth_url": AUTH, "auth_response_headers": "a b"}, Authorization("", always=True)),
    ],
)
def test_a_wrong_value_has_a_safe_default(
    annotations: dict[str, str], chosen: WakeRules | Authorization | None
) -> None:
    with pytest.raises(ManifestError) as found:
        read(**annotations)
    policies = found.value.instead.policies.requests or RequestPolicies()
    assert policies.waiting is None
    assert (policies.wake or policies.authorization) == chosen


def test_one_error_names_all_wrong_values() -> None:
    with pytest.raises(ManifestError, match=r"(?s)while-waiting.*profile|profile.*while-waiting"):
        read(while_waiting="a", profile="b", priority="c")

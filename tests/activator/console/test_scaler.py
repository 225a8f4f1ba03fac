"""What ``activator explain`` shows of the scaler about a plain Service."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import httpx
import pytest
import respx

from activator.console import explain_parts
from activator.console.client import parse
from activator.console.screen import plain
from activator.settings.config import load
from tests.activator.console.explained import SERVICE

URL = "http://127.0.0.1:18081"
PATH = f"{URL}/api/v1/services/shop/hello"


def shown(**changes) -> list[str]:
    return plain((tuple(explain_parts.facts(parse(json.dumps(SERVICE | changes)))),)).splitlines()


def test_a_service_that_is_scaled():
    assert shown() == [
        "Scaler  serving: 1 replica, 2 wanted, 0 ready; Deployment/hello, owner self",
        "        The load asks for it",
    ]


def test_a_service_that_cannot_be_scaled_has_the_reason():
    lines = shown(reason="scale-forbidden", detail="the role lacks patch of deployments/scale")
    assert lines[1].strip() == "scale-forbidden: the role lacks patch of deployments/scale"


def test_a_service_whose_workload_is_unknown():
    unknown = {"present": None, "wanted": None, "ready": 0}
    assert shown(replicas=unknown, target=None, phase=None)[0] == (
        "Scaler  replicas unknown; no workload, owner self"
    )


def test_the_last_change_and_the_findings():
    change = {"at": "2026-01-01T00:00:00.000+00:00", "before": 0, "after": 1, "sentence": "Why"}
    finding = {"reason": "two-owners", "note": "the HPA hello scales it too"}
    lines = shown(lastChange=change, findings=[finding])
    assert "Last change  2026-01-01T00:00:00.000+00:00: 0 → 1 replica; Why" in lines
    assert "Findings     two-owners: the HPA hello scales it too" in lines


@respx.mock
@pytest.mark.parametrize(
    ("phase", "before", "seconds", "is_start"),
    [
        ("starting", 0, 3, True),
        ("starting", 0, 120, True),
        ("starting", 1, 3, False),
        ("awake", 0, 3, False),
    ],
)
def test_the_time_since_a_start_began_is_known(phase, before, seconds, is_start):
    at = (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="milliseconds")
    change = {"at": at, "before": before, "after": 2, "sentence": "Why"}
    respx.get(PATH).respond(json=SERVICE | {"phase": phase, "lastChange": change})
    since = explain_parts.ask(URL, "shop", "hello").starting
    assert (since is not None and seconds <= since < seconds + 30) == is_start


@respx.mock
@pytest.mark.parametrize(
    ("response", "line"),
    [
        ({"json": SERVICE}, "serving: 1 replica"),
        (
            {"status_code": 404, "headers": {"Content-Type": "application/problem+json"}},
            f"the scaler at {URL} knows no such Service",
        ),
        ({"status_code": 503}, f"no leading scaler responds at {URL}"),
        ({"text": "<html>"}, f"no leading scaler responds at {URL}"),
        ({"json": {}}, f"no leading scaler responds at {URL}"),
    ],
)
def test_a_response_and_what_to_do_without_one(response, line):
    respx.get(PATH).respond(**response)
    assert line in plain((explain_parts.ask(URL, "shop", "hello").facts,))


@respx.mock
def test_a_follower_names_the_leader_and_how_to_reach_it():
    detail = "This scaler does not lead. The leader is scale-2."
    problem = {"Content-Type": "application/problem+json"}
    respx.get(PATH).respond(503, headers=problem, json={"detail": detail})
    assert explain_parts.ask(URL, "shop", "hello").facts[0].lines == (
        f"{PATH}: {detail}",
        "kubectl port-forward -n activator-system service/activator-scale 8081",
        "--scaler-admin-url names another address",
    )


@respx.mock
def test_a_scaler_that_is_not_there():
    respx.get(PATH).mock(side_effect=httpx.ConnectError("refused"))
    text = plain((explain_parts.ask(URL, "shop", "hello").facts,))
    assert "kubectl port-forward -n activator-system service/activator-scale 8081" in text


FOLDER = {"manifests": {"folder": "/srv", "ageSeconds": 1.0}}


@respx.mock
@pytest.mark.parametrize(
    ("scaler_link", "lines"),
    [
        (
            None,
            ("none: the activator runs without --scaler-url, so nothing scales this Service",),
        ),
        (
            {"connected": False},
            (
                f"no leading scaler responds at {URL}",
                "--scaler-admin-url names another address",
            ),
        ),
        (
            {"connected": True},
            (
                f"the scaler of this activator runs, but its admin port is not at {URL}",
                "--scaler-admin-url names the right one; activator demo prints the command",
            ),
        ),
    ],
)
def test_without_a_cluster_no_port_can_be_forwarded(scaler_link, lines):
    respx.get(PATH).mock(side_effect=httpx.ConnectError("refused"))
    activator = parse(json.dumps(FOLDER | {"scaler": scaler_link}))
    assert explain_parts.ask(URL, "shop", "hello", activator).facts[0].lines == lines


@respx.mock
def test_the_host_is_one_that_every_scaler_accepts():
    """In an activator's pod the URL has the name of the scaler's Service."""
    url = "http://activator-scale.activator-system.svc:8081"
    asked = respx.get(f"{url}/api/v1/services/shop/hello")
    asked.respond(json=SERVICE)
    assert explain_parts.ask(url, "shop", "hello").facts[0].lines[0].startswith("serving: ")
    assert asked.calls[0].request.headers["Host"] == "localhost"


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({"SYSTEM_NAMESPACE": "a-system"}, "http://activator-scale.a-system.svc:8081"),
        ({}, "http://127.0.0.1:8081"),
        ({"SYSTEM_NAMESPACE": "no name"}, "http://127.0.0.1:8081"),
    ],
)
def test_the_address_is_the_one_of_the_manifests_in_a_pod(environ, url):
    assert load("explain", {}, environ).scaler_admin_url == url

"""What the console prints about an activator's own state."""

from __future__ import annotations

import json

import pytest

from activator.console.responses import parse
from activator.console.staleness import state_of


def lines(**activator):
    return [line for fact in state_of(parse(json.dumps(activator))) for line in fact.lines]


def watch(age=3.0, error=None):
    return {"ageSeconds": age, "error": error, "drifted": 0}


def test_an_activator_that_tells_nothing():
    assert lines(podName="x", notReadyReason=None, manifestErrors={}) == []
    assert lines(watches={}, manifests=None, autoscaler=None) == []


def test_all_is_well():
    told = lines(
        watches={"Endpoints": watch(), "Revision": watch(None)},
        autoscaler={"connected": True, "ageSeconds": 1.0, "lastError": "old"},
    )
    assert told == ["all watches of the cluster are current", "the autoscaler is connected"]


def test_cluster_and_autoscaler_are_silent():
    told = lines(
        notReadyReason="draining",
        watches={"Endpoints": watch(300.04), "Revision": watch(5.0, "refused"), "S": watch()},
        autoscaler={"connected": False, "ageSeconds": 12.3, "lastError": "dial \x1b"},
    )
    assert told == [
        "not ready: draining",
        "Endpoints: nothing received for 300.0s; the last state is in force",
        "Revision: nothing received for 5.0s (refused); the last state is in force",
        "the autoscaler is not connected; silent for 12.3s (dial ?)",
    ]
    assert lines(autoscaler={"connected": False}) == ["the autoscaler is not connected"]


def test_an_api_server_that_is_away_is_one_line() -> None:
    away = "the API server at 10.96.0.1:443 does not respond: connection refused"
    kinds = {"Service": watch(5.0, away), "Deployment": watch(12.0, away)}
    assert lines(watches=kinds) == [
        f"Service, Deployment: nothing received for 12.0s ({away}); the last state is in force"
    ]


def test_a_folder_instead_of_a_cluster():
    told = lines(watches={}, manifests={"folder": "/m", "ageSeconds": 2, "lastChangeSecondsAgo": 9})
    assert told == ["objects come from /m, read 2.0s ago"]


def test_a_certificate_that_expires():
    assert lines(certificateWarnings=["the certificate\x1b"]) == ["the certificate?"]


def test_a_file_that_is_wrong():
    errors = {"/m/a.yaml": "line 3: \x1bno"}
    assert lines(manifestErrors=errors) == ["/m/a.yaml: line 3: ?no"]


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("connection has not yet been established", "not ready: no connection to the autoscaler"),
        ("received SIGTERM from kubelet", "not ready: it is shutting down"),
    ],
)
def test_why_it_is_not_ready_says_who_is_meant(why, told):
    (line,) = lines(notReadyReason=why)
    assert line.startswith(told)


@pytest.mark.parametrize("odd", [{"watches": 1}, {"watches": {"a": 1}}, {"autoscaler": []}])
def test_another_shape_is_named(odd):
    with pytest.raises(ValueError, match="expected an object"):
        lines(**odd)

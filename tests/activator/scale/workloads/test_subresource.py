"""Requests to a ``scale`` subresource, and the meaning of responses."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from activator.objects.fields import ManifestError
from activator.plain.workloads import SHORT_KINDS
from activator.scale.workloads.subresource import (
    KNOWN,
    Problem,
    Resource,
    Scale,
    missing_rule,
    parse,
    patch,
    problem,
)


def scale(spec: Any, **metadata: str) -> Any:
    return {"metadata": {"name": "hello", "namespace": "shop", **metadata}, "spec": spec}


def test_the_activator_knows_the_same_short_kinds() -> None:
    assert set(KNOWN) == SHORT_KINDS


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (scale({"replicas": 3}, resourceVersion="7", uid="d1"), Scale(3, "7", "d1")),
        (scale({}, resourceVersion="7", uid="d1"), Scale(0, "7", "d1")),
        (scale(None), Scale(0, "", "")),
    ],
)
def test_absent_replicas_are_zero(obj: Any, expected: Scale) -> None:
    assert parse(obj) == expected


@pytest.mark.parametrize("replicas", ["3", -1, 1.5, True])
def test_broken_replicas_are_an_error(replicas: Any) -> None:
    where = re.escape("Scale shop/hello: spec.replicas: expected an integer")
    with pytest.raises(ManifestError, match=f"^{where}"):
        parse(scale({"replicas": replicas}))


def test_a_patch_sends_version_and_uid() -> None:
    assert json.loads(patch(Scale(0, "7", "d1"), 2)) == {
        "metadata": {"resourceVersion": "7", "uid": "d1"},
        "spec": {"replicas": 2},
    }


def test_a_patch_of_an_object_that_was_never_read_sends_neither() -> None:
    assert json.loads(patch(Scale(0, "", ""), 1)) == {"metadata": {}, "spec": {"replicas": 1}}


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        (KNOWN["deployment"], "/apis/apps/v1/namespaces/shop/deployments/hello/scale"),
        (
            Resource("", "v1", "ReplicationController", "replicationcontrollers"),
            "/api/v1/namespaces/shop/replicationcontrollers/hello/scale",
        ),
    ],
)
def test_the_path_of_the_subresource(resource: Resource, path: str) -> None:
    assert resource.scale_path("shop", "hello") == path


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (409, "the object has been modified", Problem.CONFLICT),
        (403, 'deployments.apps "w" is forbidden', Problem.FORBIDDEN),
        (401, "Unauthorized", Problem.UNAVAILABLE),
        (404, "404 page not found", Problem.MISSING),
        (500, 'the spec replicas field ".spec.replicas" does not exist', Problem.UNSET),
        (500, "etcdserver: request timed out", Problem.UNAVAILABLE),
        (503, "", Problem.UNAVAILABLE),
        (429, "", Problem.UNAVAILABLE),
        (0, "connection refused", Problem.UNAVAILABLE),
        (422, "Invalid value", Problem.REFUSED),
        (400, "", Problem.REFUSED),
    ],
)
def test_what_a_failed_request_means(status: int, message: str, expected: Problem) -> None:
    assert problem(status, message) is expected


def test_the_missing_rule_can_be_pasted_into_a_role() -> None:
    assert missing_rule(KNOWN["deployment"], "patch") == (
        '{apiGroups: ["apps"], resources: ["deployments/scale"], verbs: ["patch"]}'
    )

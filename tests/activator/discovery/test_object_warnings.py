"""Valid objects without effect: one warning each, in the log and in the state of the source."""

from __future__ import annotations

from typing import Any

import pytest

from activator.discovery.inventory import Inventory
from activator.discovery.knative_kinds import ANNOTATIONS
from activator.knative import revisions
from activator.objects import policies
from activator.records.source_status import ObjectWarning
from tests.activator.discovery.recording import private, public, replace, revision, slice_of
from throttler.model import RevisionKind

SERVICE_TYPE = "networking.internal.knative.dev/serviceType"
UID = "serving.knative.dev/revisionUID"


def annotated(**annotations: str) -> dict[str, Any]:
    found = revision()
    found["metadata"]["annotations"] = {
        f"activator.dev/{name.replace('_', '-')}": value for name, value in annotations.items()
    }
    return found


def limited(obj: dict[str, Any], concurrency: int) -> dict[str, Any]:
    obj["spec"]["containerConcurrency"] = concurrency
    return obj


def unlabelled(obj: dict[str, Any], label: str) -> dict[str, Any]:
    del obj["metadata"]["labels"][label]
    return obj


def typed(obj: dict[str, Any], service_type: str) -> dict[str, Any]:
    obj["metadata"]["labels"][SERVICE_TYPE] = service_type
    return obj


def misnamed(obj: dict[str, Any]) -> dict[str, Any]:
    ports = obj["ports"] if "ports" in obj else obj["subsets"][0]["ports"]
    ports[:] = [{"name": "web", "port": 8012}, {"port": 8013}]
    return obj


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (
            unlabelled(private("10.0.0.1"), SERVICE_TYPE),
            f"ignored, since it has no label {SERVICE_TYPE}: Private",
        ),
        (unlabelled(private("10.0.0.1"), UID), f"ignored, since it has no label {UID}"),
        (
            typed(private("10.0.0.1"), "private"),
            f"ignored, since its label {SERVICE_TYPE} is 'private', not 'Private' or 'Public'",
        ),
        (
            misnamed(private("10.0.0.1")),
            "its addresses are ignored, since no port is named http or http2 "
            "(found: 'web', nothing)",
        ),
        (
            misnamed(private(not_ready=("10.0.0.1",))),
            "its addresses are ignored, since no port is named http or http2 "
            "(found: 'web', nothing)",
        ),
        (
            unlabelled(slice_of("10.0.0.1"), SERVICE_TYPE),
            f"ignored, since it has no label {SERVICE_TYPE}: Private",
        ),
        (
            misnamed(slice_of("10.0.0.1")),
            "its addresses are ignored, since no port is named http or http2 "
            "(found: 'web', nothing)",
        ),
        (
            annotated(load_balancin="hash"),
            "the annotation 'activator.dev/load-balancin' is unknown and has no effect; "
            "did you mean activator.dev/load-balancing?",
        ),
        (
            annotated(xyz="1"),
            "the annotation 'activator.dev/xyz' is unknown and has no effect",
        ),
        (
            limited(annotated(adaptive_concurrency="on"), 10),
            "the annotation activator.dev/adaptive-concurrency has no effect, since "
            "containerConcurrency is 10",
        ),
        (
            limited(annotated(adaptive_concurrency="on", stickyy="x"), 1),
            "the annotation 'activator.dev/stickyy' is unknown and has no effect; "
            "did you mean activator.dev/sticky?; "
            "the annotation activator.dev/adaptive-concurrency has no effect, since "
            "containerConcurrency is 1",
        ),
    ],
)
def test_an_object_without_effect_is_logged_once_until_it_is_corrected(
    obj: dict[str, Any], text: str, inventory: Inventory, caplog: pytest.LogCaptureFixture
) -> None:
    kind, name = obj["kind"], obj["metadata"]["name"]
    for _ in range(2):
        inventory.apply(obj)
        replace(inventory, kind, [obj])
    assert caplog.messages == [f"{kind} default/{name}: {text}"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    expected = ObjectWarning(kind, "default", name, "a", text, "", RevisionKind.REVISION)
    assert list(inventory.warnings) == [expected]
    good = {"Endpoints": private("10.0.0.1"), "EndpointSlice": slice_of("10.0.0.1")}
    inventory.apply(good.get(kind, annotated(load_balancing="round-robin")))
    assert list(inventory.warnings) == []
    inventory.apply(obj)
    inventory.remove(kind, "default", name)
    assert list(inventory.warnings) == []


@pytest.mark.parametrize(
    "obj",
    [
        private("10.0.0.1"),
        private() | {"subsets": []},
        private() | {"subsets": [{}]},
        public("10.1.0.1"),
        slice_of("10.0.0.1"),
        slice_of(terminating=("10.0.0.1",)),
        revision(),
        annotated(load_balancing="hash", hash_key="header:user", readiness_policy="probe"),
        limited(annotated(adaptive_concurrency="on"), 0),
        limited(annotated(adaptive_concurrency="off"), 10),
    ],
)
def test_an_object_with_effect_has_no_warning(
    obj: dict[str, Any], inventory: Inventory, caplog: pytest.LogCaptureFixture
) -> None:
    inventory.apply(obj)
    assert caplog.messages == []
    assert list(inventory.warnings) == []


def test_the_number_of_warnings_has_a_limit(
    inventory: Inventory, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(150):
        obj = private("10.0.0.1", name=f"e{number}")
        inventory.apply(unlabelled(obj, SERVICE_TYPE))
    assert len(list(inventory.warnings)) == 100
    assert len(caplog.messages) == 101
    assert caplog.messages[-1] == "more than 100 objects have warnings: no more are logged"
    inventory.remove("Endpoints", "default", "e0")
    inventory.apply(unlabelled(private("10.0.0.1", name="another"), SERVICE_TYPE))
    assert caplog.messages[-1].startswith("Endpoints default/another: ")


def test_an_object_that_names_no_revision_has_a_warning_without_one(inventory: Inventory) -> None:
    obj = private("10.0.0.1")
    del obj["metadata"]["labels"]
    inventory.apply(obj)
    assert [each.revision for each in inventory.warnings] == [""]


def test_each_annotation_that_the_activator_reads_is_known() -> None:
    found = {
        value
        for module in (policies, revisions)
        for value in vars(module).values()
        if isinstance(value, str) and value.startswith("activator.dev/")
    }
    assert found == {policies.PREFIX, *ANNOTATIONS}

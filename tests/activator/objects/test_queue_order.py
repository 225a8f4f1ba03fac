"""The annotations that choose the order of a revision's queue."""

from __future__ import annotations

from typing import Any, Final

import pytest

from activator.discovery.inventory import Inventory
from activator.discovery.rejections import Rejection
from activator.knative import revisions
from activator.objects.fields import ManifestError, Problems, root
from activator.objects.policies import unknown
from activator.plain import annotations as plain
from tests.activator.discovery.recording import A, RecordingSink, revision
from tests.rows import in_one_test
from throttler.model import FlowKey, QueueOrder
from throttler.request_policies import HIGH, LOW, NORMAL


def annotated(version: str = "", **annotations: Any) -> dict[str, Any]:
    obj = revision(version=version)
    obj["metadata"]["annotations"] = {
        f"activator.dev/{name.replace('_', '-')}": value for name, value in annotations.items()
    }
    return obj


def read(**annotations: Any) -> QueueOrder | None:
    return revisions.parse(annotated(**annotations)).policies.order


RIGHT: Final[list[tuple[dict[str, str], QueueOrder | None]]] = [
    ({}, None),
    ({"priority_trust": "false", "fair_names": "true"}, None),
    ({"priority": "", "priority_trust": " ", "fair_by": "", "fair_names": ""}, None),
    ({"priority": "high"}, QueueOrder(has_classes=True, priority=HIGH)),
    ({"priority": "low"}, QueueOrder(has_classes=True, priority=LOW)),
    ({"priority_trust": "true"}, QueueOrder(True, NORMAL, trusts_header=True)),
    ({"fair_by": "client-ip"}, QueueOrder(fair_by=FlowKey())),
    (
        {"fair_by": "header:X-Tenant", "fair_names": "true"},
        QueueOrder(fair_by=FlowKey(b"x-tenant"), shows_names=True),
    ),
]


@in_one_test(
    ("annotations", "order"),
    RIGHT,
)
def test_each_annotation_is_read(annotations: dict[str, str], order: QueueOrder | None) -> None:
    assert read(**annotations) == order


WRONG: Final[list[tuple[str, object, str]]] = [
    ("priority", "urgent", "one of high, normal, low"),
    ("priority", "High", "one of high, normal, low"),
    ("priority", 1, ""),
    ("priority_trust", "yes", "one of true, false"),
    ("priority_trust", True, ""),
    ("fair_names", "1", "one of true, false"),
    ("fair_by", "cookie:a", "header:NAME or client-ip, where NAME is a header field"),
    ("fair_by", "header:a b", "header:NAME or client-ip, where NAME is a header field"),
    ("fair_by", f"header:{65 * 'a'}", ""),
    ("fair_by", "header:a\nb", "header:NAME or client-ip, where NAME is a header field"),
]


@in_one_test(
    ("name", "value", "allowed"),
    WRONG,
)
def test_another_value_is_refused(name: str, value: object, allowed: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read(**{name: value})
    annotation = f"activator.dev/{name.replace('_', '-')}"
    start = f"Revision default/a: metadata.annotations[{annotation}]: expected "
    assert str(caught.value).startswith(start)
    if allowed:
        assert str(caught.value) == f"{start}{allowed}, got {value!r}"


def test_one_error_names_all_wrong_values() -> None:
    with pytest.raises(ManifestError) as caught:
        read(priority="urgent", fair_by="x", load_balancing="best")
    assert all(f"got {value!r}" in str(caught.value) for value in ("urgent", "x", "best"))


def test_a_wrong_value_leaves_the_last_good_order() -> None:
    sink, rejections = RecordingSink(), list[Rejection]()
    inventory = Inventory(sink, sink, report=rejections.append)
    inventory.apply(annotated("1", priority="low"))
    inventory.apply(annotated("2", priority="lowest"))
    assert sink.revisions[A].policies.order == QueueOrder(has_classes=True, priority=LOW)
    assert "got 'lowest'" in rejections[0].reason
    inventory.apply(annotated("3"))
    assert sink.revisions[A].policies.order is None


def test_a_service_has_the_same_annotations() -> None:
    obj = {
        "metadata": {
            "annotations": {
                "activator.dev/priority-trust": "true",
                "activator.dev/fair-by": "header:X-Tenant",
            }
        }
    }
    metadata = root(obj, "Service")["metadata"]
    assert plain.read(metadata, Problems()).policies.order == QueueOrder(
        has_classes=True, trusts_header=True, fair_by=FlowKey(b"x-tenant")
    )
    assert not unknown(metadata["annotations"], plain.KNOWN)

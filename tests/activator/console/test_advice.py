"""The advice that the console prints for a reason."""

from __future__ import annotations

import re
import shlex

import pytest

from activator.admin.views.fields import WAITING
from activator.console.advice import meaning, page_of, what_to_do
from throttler.reason import TABLE, Reason


@pytest.mark.parametrize("reason", [reason.value for reason in WAITING])
def test_each_reason_to_wait_is_explained(reason):
    lines = what_to_do(reason, "shop", "cart-00007")
    assert meaning(reason).endswith(".")
    assert page_of(reason) == f"activator reason {reason}"
    assert lines[-1].startswith("kubectl ")
    assert "{" not in "".join(lines)
    if not reason.endswith("scaler-unreachable"):
        assert "-n shop -l serving.knative.dev/revision=cart-00007" in lines[-1]


def test_pods_that_are_not_ready_are_shown_container_by_container():
    """`kubectl get pods` shows only READY 1/2, not which of the two is ready."""
    commands = [
        shlex.split(line)
        for line in what_to_do("pods-not-ready", "shop", "cart-00007")
        if line.startswith("kubectl ")
    ]
    *select, output, columns = commands[0]
    assert select == shlex.split(
        "kubectl get pods -n shop -l serving.knative.dev/revision=cart-00007"
    )
    assert output == "-o"
    named = dict(each.split(":") for each in columns.removeprefix("custom-columns=").split(","))
    assert named == {
        "POD": ".metadata.name",
        "IP": ".status.podIP",
        "CONTAINER": ".status.containerStatuses[*].name",
        "READY": ".status.containerStatuses[*].ready",
    }


@pytest.mark.parametrize(
    ("reason", "commands"),
    [
        ("no-endpoints", ["pods --field-selector=status.phase=Pending", "reason=FailedCreate"]),
        ("pods-not-ready", ["kubectl describe pods -n shop $("]),
        ("probe-failing", ["kubectl describe pods -n shop $("]),
        ("bad-answers", ["do kubectl logs -n shop $pod"]),
    ],
)
def test_the_advice_about_a_plain_service_shows_what_its_pods_lack(reason, commands):
    """The names of pods alone do not say why a pod does not start."""
    told = "\n".join(what_to_do(reason, "shop", "cart", is_service=True))
    for command in commands:
        assert command.replace("pods --field", "pods -n shop --field") in told
    assert ("kubernetes.io/service-name=cart" in told) == ("$(" in told)


def test_the_pods_of_a_front_are_those_of_its_pods_service():
    told = what_to_do("pods-not-ready", "shop", "cart", pods="cart-pods", is_service=True)
    assert "kubernetes.io/service-name=cart-pods " in told[-1]


def test_the_meaning_for_a_plain_service_names_no_revision() -> None:
    for row in TABLE:
        if row.reason is not Reason.AUTOSCALER_UNREACHABLE:  # of a Revision alone
            assert "revision" not in meaning(row.reason.value, is_service=True)


def test_names_cannot_add_to_the_command_that_is_shown():
    lines = what_to_do("no-endpoints", "a;b", "$(c)")
    assert "-n 'a;b' -l serving.knative.dev/revision='$(c)'" in lines[-1]


@pytest.mark.parametrize("reason", [reason.value for reason in WAITING])
def test_a_folder_in_place_of_a_cluster_has_no_kubectl(reason):
    told = " ".join(what_to_do(reason, "shop", "cart-00007", "/srv/{objects}"))
    assert "kubectl" not in told
    assert told.endswith("/srv/{objects}") or reason.endswith("scaler-unreachable")


@pytest.mark.parametrize("reason", [reason.value for reason in WAITING])
def test_the_advice_for_a_plain_service_in_a_folder_has_no_object_of_knative(reason):
    told = " ".join(what_to_do(reason, "shop", "cart", "/srv/objects", is_service=True))
    assert not re.search("Endpoints |notReadyAddresses|containerConcurrency|kubectl", told)
    assert told.endswith("/srv/objects") or reason.endswith("scaler-unreachable")


def test_a_word_of_a_newer_activator_is_shown_without_advice():
    assert meaning("never-heard-of") == ""
    assert what_to_do("never-heard-of", "a", "b") == []

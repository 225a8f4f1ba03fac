"""The annotations that choose which pod gets a request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from activator.discovery.inventory import Inventory
from activator.discovery.rejections import Rejection
from activator.knative import revisions
from activator.objects.fields import ManifestError
from tests.activator.discovery.recording import A, RecordingSink, revision
from throttler.balancing import POLICIES
from throttler.model import HashKey, Policies

LOAD_BALANCING = "activator.dev/load-balancing"
HASH_KEY = "activator.dev/hash-key"
ROOT = Path(__file__).resolve().parents[3]


def annotated(version: str = "", **annotations: Any) -> dict[str, Any]:
    """Return a Revision; `load_balancing` and `hash_key` are its annotations."""
    obj = revision(version=version)
    obj["metadata"]["annotations"] = {
        f"activator.dev/{name.replace('_', '-')}": value for name, value in annotations.items()
    }
    return obj


def read(**annotations: Any) -> Policies:
    return revisions.parse(annotated(**annotations)).policies


def test_without_annotations_there_is_no_policy() -> None:
    assert revisions.parse(revision()).policies == read() == Policies()
    assert read(load_balancing=None, hash_key=None) == Policies()
    assert read(load_balancing="", hash_key=" ") == Policies()


@pytest.mark.parametrize("name", POLICIES)
def test_each_policy_is_read(name: str) -> None:
    assert read(load_balancing=name, hash_key="header:X-User-Id") == Policies(
        name, HashKey(b"x-user-id")
    )
    if not POLICIES[name].wants_key:
        assert read(load_balancing=name) == Policies(name)


@pytest.mark.parametrize("value", ["Round-Robin", "fastest", 3, True, ["round-robin"], {}])
def test_another_policy_is_refused_and_the_error_names_all_that_matters(value: object) -> None:
    with pytest.raises(ManifestError) as caught:
        read(load_balancing=value)
    text = str(caught.value)
    assert text.startswith(f"Revision default/a: metadata.annotations[{LOAD_BALANCING}]: expected ")
    if isinstance(value, str):
        assert text.endswith(f"one of {', '.join(POLICIES)}, got {value!r}")


@pytest.mark.parametrize(
    "value", ["x-user", "header:", "header:a b", "header::path", "cookie:a", "header:a\n", 1]
)
def test_another_hash_key_is_refused(value: object) -> None:
    with pytest.raises(ManifestError) as caught:
        read(load_balancing="round-robin", hash_key=value)
    text = str(caught.value)
    assert text.startswith(f"Revision default/a: metadata.annotations[{HASH_KEY}]: expected ")
    if isinstance(value, str):
        assert text.endswith(f"header:NAME, where NAME is a header field, got {value!r}")


def test_both_wrong_annotations_are_named() -> None:
    with pytest.raises(ManifestError, match=r"expected one of .* expected header:NAME"):
        read(load_balancing="best", hash_key="best")


@pytest.mark.parametrize("name", [name for name, row in POLICIES.items() if row.wants_key])
def test_a_policy_that_wants_a_key_is_wrong_without(name: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read(load_balancing=name)
    assert str(caught.value) == (
        f"Revision default/a: metadata.annotations[{HASH_KEY}]: expected header:NAME, where NAME "
        f"is a header field, since {LOAD_BALANCING} is {name}, got nothing"
    )


def test_annotations_are_followed_and_a_wrong_one_leaves_the_last_good_state() -> None:
    sink, rejections = RecordingSink(), list[Rejection]()
    inventory = Inventory(sink, sink, report=rejections.append)
    inventory.apply(annotated("1", load_balancing="round-robin"))
    assert sink.revisions[A].policies == Policies("round-robin")
    inventory.apply(annotated("2", load_balancing="first-available"))
    inventory.apply(annotated("3", load_balancing="best"))
    assert sink.revisions[A].policies == Policies("first-available")
    assert [(one.kind, one.name) for one in rejections] == [("Revision", "a")]
    assert LOAD_BALANCING in rejections[0].reason
    assert "got 'best'" in rejections[0].reason
    inventory.apply(annotated("4"))
    assert sink.revisions[A].policies == Policies()
    assert not inventory.stats.rejected


def test_the_reference_has_each_policy() -> None:
    text = (ROOT / "docs" / "reference.md").read_text()
    section = text.partition("\n### Which pod\n")[2].partition("\n#")[0]
    rows = [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")]
    assert rows == list(POLICIES)

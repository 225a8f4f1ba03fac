"""The annotations that choose which pod gets a request."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from activator.discovery.inventory import Inventory
from activator.discovery.rejections import Rejection
from activator.knative import revisions
from activator.objects.fields import ManifestError
from tests.activator.discovery.recording import A, RecordingSink, revision
from throttler.balancing import POLICIES
from throttler.model import AdaptiveMode, HashKey, KeyKind, Overflow, Policies

LOAD_BALANCING = "activator.dev/load-balancing"
HASH_KEY = "activator.dev/hash-key"
KEYS = "header:NAME, client-ip or path, where NAME is a header field"
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


def test_a_word_that_yaml_reads_as_a_boolean_needs_quotes() -> None:
    with pytest.raises(ManifestError, match="expected a string in quotes, got true"):
        read(adaptive_concurrency=True)


@pytest.mark.parametrize(
    "value", ["x-user", "header:", "header:a b", "header::path", "cookie", "header:a\nb", 1]
)
def test_another_hash_key_is_refused(value: object) -> None:
    with pytest.raises(ManifestError) as caught:
        read(load_balancing="round-robin", hash_key=value)
    text = str(caught.value)
    assert text.startswith(f"Revision default/a: metadata.annotations[{HASH_KEY}]: expected ")
    if isinstance(value, str):
        assert text.endswith(f"{KEYS}, got {value!r}")


def test_both_wrong_annotations_are_named() -> None:
    with pytest.raises(ManifestError, match=r"expected one of .* expected header:NAME"):
        read(load_balancing="best", hash_key="best")


@pytest.mark.parametrize("name", [name for name, row in POLICIES.items() if row.wants_key])
def test_a_policy_that_wants_a_key_is_wrong_without(name: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read(load_balancing=name)
    assert str(caught.value) == (
        f"Revision default/a: metadata.annotations[{HASH_KEY}]: expected {KEYS}, "
        f"since {LOAD_BALANCING} is {name}, got nothing"
    )


@pytest.mark.parametrize("kind", [KeyKind.CLIENT_IP, KeyKind.PATH])
def test_a_key_may_be_another_part_of_the_request(kind: KeyKind) -> None:
    found = read(load_balancing="hash", hash_key=kind.value)
    assert found == Policies("hash", HashKey(kind=kind))
    assert str(found.hash_key) == kind.value


@pytest.mark.parametrize("word", ["cookie", "client-ip", "header:Mcp-Session-Id"])
def test_stickiness_is_read(word: str) -> None:
    assert str(read(sticky=word).sticky) == word.lower()
    assert read(sticky=word).sticky_overflow is Overflow.OTHER
    assert read(sticky=word, sticky_overflow="wait").sticky_overflow is Overflow.WAIT


@pytest.mark.parametrize("mode", AdaptiveMode)
def test_adaptive_concurrency_is_read(mode: AdaptiveMode) -> None:
    assert read(adaptive_concurrency=mode.value) == Policies(adaptive=mode)


WRONG: Final[list[tuple[str, str, str]]] = [
    ("sticky", "path", "cookie, header:NAME or client-ip, where NAME is a header field"),
    ("sticky-overflow", "queue", "one of wait, other"),
    ("adaptive-concurrency", "true", "one of off, observe, on"),
    ("adaptive-concurrency", "On", "one of off, observe, on"),
]


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    WRONG,
)
def test_another_word_is_refused_with_the_allowed_ones(name: str, value: str, allowed: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read(**{name: value})
    assert str(caught.value) == (
        f"Revision default/a: metadata.annotations[activator.dev/{name}]: "
        f"expected {allowed}, got {value!r}"
    )


@pytest.mark.parametrize("value", [1, True, ["cookie"], {}, "x" * 100_000])
@pytest.mark.parametrize("name", ["sticky", "sticky_overflow", "adaptive_concurrency"])
def test_a_hostile_value_is_refused_in_a_short_text(name: str, value: object) -> None:
    with pytest.raises(ManifestError) as caught:
        read(**{name: value})
    assert len(str(caught.value)) < 400


def test_a_request_has_one_key_so_hash_and_sticky_exclude_each_other() -> None:
    with pytest.raises(
        ManifestError, match=r"another policy, since activator\.dev/sticky is cookie"
    ):
        read(load_balancing="hash", hash_key="path", sticky="cookie")
    assert read(load_balancing="ewma-latency", sticky="cookie").load_balancing == "ewma-latency"


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
    assert not inventory.rejected


def test_the_reference_has_each_policy() -> None:
    text = (ROOT / "docs" / "reference.md").read_text()
    section = text.partition("\n### Which pod\n")[2].partition("\n#")[0]
    rows = [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")]
    assert rows == list(POLICIES)

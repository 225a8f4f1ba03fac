"""The table of kinds; test_inventory.py tests what each row does."""

from __future__ import annotations

import pytest

from activator.discovery.kinds import GROUPS, kind_of


@pytest.mark.parametrize("kind", GROUPS)
def test_a_kind_is_known_by_its_group_in_any_version(kind: str) -> None:
    group = GROUPS[kind]
    for version in ("v1", "v1beta7"):
        api_version = f"{group}/{version}" if group else version
        assert kind_of({"apiVersion": api_version, "kind": kind}) == kind
    assert kind_of({"apiVersion": "example.org/v1", "kind": kind}) is None


@pytest.mark.parametrize("kind", GROUPS)
def test_without_a_version_the_kind_alone_counts(kind: str) -> None:
    assert kind_of({"kind": kind}) == kind


@pytest.mark.parametrize(
    "obj",
    [None, [], "Service", {}, {"kind": []}, {"kind": "Pod"}, {"apiVersion": 1, "kind": "Secret"}],
)
def test_anything_else_is_of_no_kind(obj: object) -> None:
    assert kind_of(obj) is None

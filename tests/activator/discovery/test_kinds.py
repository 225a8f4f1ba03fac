"""The table of kinds; test_inventory.py tests what each row does."""

from __future__ import annotations

import pytest

from activator.discovery.dialect import Scope
from activator.discovery.inventory import DIALECTS, GROUPS, Inventory, kind_of
from tests.activator.discovery.recording import RecordingSink, config_map, secret, trust_bundle
from tests.rows import in_one_test


@in_one_test("kind", GROUPS)
def test_a_kind_is_known_by_its_group_in_any_version(kind: str) -> None:
    group = GROUPS[kind]
    for version in ("v1", "v1beta7"):
        api_version = f"{group}/{version}" if group else version
        assert kind_of({"apiVersion": api_version, "kind": kind}) == kind
    assert kind_of({"apiVersion": "example.org/v1", "kind": kind}) is None


@in_one_test("kind", GROUPS)
def test_without_a_version_the_kind_alone_counts(kind: str) -> None:
    assert kind_of({"kind": kind}) == kind


@pytest.mark.parametrize(
    "obj",
    [None, [], "Service", {}, {"kind": []}, {"kind": "Pod"}, {"apiVersion": 1, "kind": "Secret"}],
)
def test_anything_else_is_of_no_kind(obj: object) -> None:
    assert kind_of(obj) is None


@pytest.mark.parametrize("names", [["knative"], ["services"], ["knative", "services"]])
def test_they_count_once_with_every_dialect(names: list[str]) -> None:
    sink = RecordingSink()
    scope = Scope("knative-serving")
    inventory = Inventory(sink, sink, scope=scope, dialects=[DIALECTS[name] for name in names])
    inventory.apply(config_map("c", k="v"))
    inventory.apply(config_map("c", "elsewhere", k="w"))
    inventory.apply(secret("s", key=b"x"))
    inventory.apply(trust_bundle("t", "pem"))
    assert sink.config_maps["c"] == {"k": "v"}
    assert sink.secrets == {"s": {"key": b"x"}}
    assert sink.trust_bundles == ("pem",)
    assert [call[0] for call in sink.calls].count("set_trust_bundles") == 1
    inventory.remove("ConfigMap", "knative-serving", "c")
    assert sink.config_maps["c"] == {}

"""Objects that configure the activator, with every choice of dialects."""

from __future__ import annotations

import pytest

from activator.discovery.dialect import Scope
from activator.discovery.inventory import Inventory
from activator.discovery.kinds import DIALECTS
from tests.activator.discovery.recording import RecordingSink, config_map, secret, trust_bundle


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

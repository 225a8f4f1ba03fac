"""The parts of a real activator have every number that the metrics read."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from activator.runtime import Runtime
from activator.settings.config import load
from activator.telemetry.families import FAMILIES


def test_a_real_activator_exports_every_metric_of_the_table(tmp_path):
    environ = {"ACTIVATOR_AUTOSCALER_URL": "ws://127.0.0.1:1", "POD_NAME": "activator-7"}
    runtime = Runtime(load("local", {"manifests": str(tmp_path)}, environ))
    text = b"".join(runtime.metrics()).decode()
    found = {family.name: family for family in text_string_to_metric_families(text)}
    expected = {family.name.removesuffix("_total") for family in FAMILIES}
    # Reachable exists only after the first connection.
    assert expected - set(found) == {"kn_activator_stats_conn_reachable"}
    (info,) = found["target_info"].samples
    assert info.labels["service_name"] == "activator"
    assert info.labels["k8s_pod_name"] == "activator-7"

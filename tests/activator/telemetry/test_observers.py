"""What the observability ConfigMap changes in the observers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from activator.knative.configmaps.observability import ObservabilityConfig, RequestLogConfig
from activator.process.outputs import Outputs
from activator.telemetry.observers import Observers
from activator.telemetry.request_log import RequestLog


@pytest.mark.parametrize("enabled", [True, False])
def test_requests_get_lines_while_the_configmap_enables_them(enabled: bool) -> None:
    applied: list[ObservabilityConfig] = []
    otel: Any = SimpleNamespace(apply=applied.append)
    outputs = Outputs()
    observers = Observers(otel, RequestLog(outputs.stdout.write, lambda: 0.0), outputs)
    config = ObservabilityConfig(request_log=RequestLogConfig(enabled, "{{.TraceID}}"))
    assert observers.apply(config) is (observers.request_log if enabled else None)
    assert applied == [config]

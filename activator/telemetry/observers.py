"""The parts of one activator that observe the others, and print or send the observations.

Each part works alone. ``runtime`` builds them, and metrics read their counters.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from activator.knative.configmaps.observability import ObservabilityConfig
from activator.process.outputs import Outputs
from activator.records.loop_lag import LoopLag
from activator.telemetry.otel import OpenTelemetry
from activator.telemetry.request_log import RequestLog
from activator.tls.certificates import Certificates


@dataclass(frozen=True, slots=True)
class Observers:
    """The observers of one activator.

    Attributes:
        otel: traces and pushed metrics.
        request_log: a line for each request, if a ConfigMap asks for lines.
        outputs: stdout gets the request log, as with Knative; stderr gets the process log.
        loop_lag: the delay of the event loop.
        certificates: the certificates of the listeners.
    """

    otel: OpenTelemetry
    request_log: RequestLog
    outputs: Outputs
    loop_lag: LoopLag = field(default_factory=LoopLag)
    certificates: Certificates = field(default_factory=Certificates)

    def apply(self, config: ObservabilityConfig) -> RequestLog | None:
        """Apply the observability ConfigMap.

        Returns:
            The request log; None if requests get no line.
        """
        self.otel.apply(config)
        return self.request_log if self.request_log.configure(config.request_log) else None

"""Words of Knative's probes: the activator's probe of a pod, and the probes that it receives.

Sources: Knative pkg/activator/net/revision_backends.go, pkg/queue/health, pkg/activator/handler
(healthz, probe); knative.dev/networking pkg/http/header.
"""

from __future__ import annotations

from typing import Final

from throttler.model import ProbeKind, ProbeSpec

#: The probe of queue-proxy, which responds 200 ``queue`` once its application is ready.
QUEUE_PROXY: Final = ProbeSpec(
    kind=ProbeKind.HTTP,
    path=b"/healthz",
    fields=b"User-Agent: Knative-Activator-Probe\r\nK-Network-Probe: queue\r\n",
    least_status=200,
    most_status=200,
    body=b"queue",
    interval=0.025,  # queue-proxy checks the application for each probe
)

#: Values of K-Network-Probe in probes of the activator: by the ingress, and by the autoscaler.
INGRESS: Final = b"probe"
AUTOSCALER: Final = b"activator"
#: The body of the response to the autoscaler's probe.
AUTOSCALER_BODY: Final = b"activator"

#: A part of the User-Agent of kubelet's probes.
KUBELET_AGENT: Final = b"kube-probe/"

"""The responses that queue-proxy makes itself: to probes, while it drains, and for a full queue.

Knative's counterparts: pkg/queue/health/handler.go, pkg/network/handlers/drain.go, breaker.go.
"""

from __future__ import annotations

from activator.lab.http1 import PodRequest
from activator.lab.responses import PodResponse, text
from activator.lab.state import Switches

#: User agents whose requests are probes on any path; all other requests are traffic.
PROBER_AGENTS = ("kube-probe/", "Knative-Activator-Probe", "Knative-Autoscaling-Probe")
#: Length of queue-proxy's queue for each request that the application may have at a time.
QUEUE_PER_SLOT = 10

#: The header that Go's http.Error adds.
ERROR_HEADERS = (("X-Content-Type-Options", "nosniff"),)


def _error(status: int, body: str) -> PodResponse:
    return PodResponse(status, body.encode(), headers=ERROR_HEADERS)


NOT_LISTENING = _error(502, "dial tcp 127.0.0.1:8080: connect: connection refused\n")
#: The application's process ended before it responded.
CUT_OFF = _error(502, "EOF\n")
QUEUE_FULL = _error(503, "pending request queue full\n")
DRAINING = _error(503, "shutting down\n")


def probe_response(
    request: PodRequest, switches: Switches, *, blind: bool = False, polls_sidecar: bool = False
) -> PodResponse | None:
    """Return queue-proxy's response to a probe; None for a request that is no probe.

    Arguments:
        blind: queue-proxy cannot run the application's probe (usually an exec probe), so it
            reports ready without a check.
        polls_sidecar: queue-proxy polls the sidecar's readiness probe, as since Knative 1.14.
    """
    probe = request.header("k-network-probe")
    if probe == "probe":
        return _ingress_probe_response(request, switches)
    if not request.header("user-agent").startswith(PROBER_AGENTS):
        return None
    if switches.draining:
        return DRAINING
    if probe != "queue":
        return text(400, f"unexpected probe header value: {probe}\n")
    if not blind and not (switches.ready and switches.running):
        return PodResponse(503)
    if polls_sidecar and not switches.sidecar_ready:
        return PodResponse(503)
    return text(200, "queue")


def _ingress_probe_response(request: PodRequest, switches: Switches) -> PodResponse:
    if switches.draining:
        return DRAINING
    hash_value = request.header("k-network-hash")
    if not hash_value:
        return text(400, 'a probe request must contain a non-empty "K-Network-Hash" header\n')
    return PodResponse(200, headers=(("K-Network-Hash", hash_value),))


def traffic_refusal(
    container_concurrency: int, in_flight: int, running: bool
) -> PodResponse | None:
    """Return queue-proxy's error response; None if the application gets the request.

    Arguments:
        container_concurrency: requests that the application may have at a time; 0 is no limit.
        in_flight: requests in the pod, including this one.
        running: whether the application's process exists.
    """
    if container_concurrency and in_flight > container_concurrency * (1 + QUEUE_PER_SLOT):
        return QUEUE_FULL
    return None if running else NOT_LISTENING

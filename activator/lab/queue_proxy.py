"""Decides what queue-proxy answers by itself: probes, draining, and its own queue's overflow.

Must not know sockets or what the application answers.
Knative's counterparts: pkg/queue/health/handler.go, pkg/network/handlers/drain.go, breaker.go.
"""

from __future__ import annotations

from activator.lab.answers import Answer, text
from activator.lab.http1 import Request
from activator.lab.state import Switches

#: Callers whose requests are probes on any path; everybody else's are traffic.
PROBER_AGENTS = ("kube-probe/", "Knative-Activator-Probe", "Knative-Autoscaling-Probe")
#: Requests that wait in queue-proxy for each one that the application may have at a time.
QUEUE_PER_SLOT = 10

#: As Go's http.Error marks what it writes.
ERROR_HEADERS = (("X-Content-Type-Options", "nosniff"),)


def _error(status: int, body: str) -> Answer:
    return Answer(status, body.encode(), headers=ERROR_HEADERS)


NOT_LISTENING = _error(502, "dial tcp 127.0.0.1:8080: connect: connection refused\n")
#: The application had the request and ended before it answered.
CUT_OFF = _error(502, "EOF\n")
QUEUE_FULL = _error(503, "pending request queue full\n")
DRAINING = _error(503, "shutting down\n")


def answer_probe(
    request: Request, switches: Switches, *, blind: bool = False, polls_sidecar: bool = False
) -> Answer | None:
    """What queue-proxy says to a probe; None where the request is traffic.

    Arguments:
        blind: the application has a probe that queue-proxy cannot run, one by a command as a
            rule, so that it vouches for whatever there is.
        polls_sidecar: whether it polls the sidecar's readiness probe, as since Knative 1.14.
    """
    probe = request.header("k-network-probe")
    if probe == "probe":
        return _answer_ingress(request, switches)
    if not request.header("user-agent").startswith(PROBER_AGENTS):
        return None
    if switches.draining:
        return DRAINING
    if probe != "queue":
        return text(400, f"unexpected probe header value: {probe}\n")
    if not blind and not (switches.ready and switches.running):
        return Answer(503)
    if polls_sidecar and not switches.sidecar_ready:
        return Answer(503)
    return text(200, "queue")


def _answer_ingress(request: Request, switches: Switches) -> Answer:
    if switches.draining:
        return DRAINING
    hash_value = request.header("k-network-hash")
    if not hash_value:
        return text(400, 'a probe request must contain a non-empty "K-Network-Hash" header\n')
    return Answer(200, headers=(("K-Network-Hash", hash_value),))


def answer_traffic(container_concurrency: int, in_flight: int, running: bool) -> Answer | None:
    """What queue-proxy says to a request that it cannot hand on; None where it can, or may wait.

    Arguments:
        container_concurrency: requests that the application may have at a time; 0 is no limit.
        in_flight: requests in the pod, this one counted.
    """
    if container_concurrency and in_flight > container_concurrency * (1 + QUEUE_PER_SLOT):
        return QUEUE_FULL
    return None if running else NOT_LISTENING

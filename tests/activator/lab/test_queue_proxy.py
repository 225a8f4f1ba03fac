from __future__ import annotations

import pytest

from activator.lab.http1 import PodRequest
from activator.lab.pod import probe_response, traffic_refusal
from activator.lab.switchboard import Switches

READY, UNREADY, DOWN = Switches(), Switches(ready=False), Switches(running=False)
DRAINING, EXEC = Switches(draining=True), Switches(exec_ready=False)
INVALID = b"unexpected probe header value: other\n"
HASH_MISSING = b'a probe request must contain a non-empty "K-Network-Hash" header\n'


def request(agent: str = "", probe: str = "", hashed: str = "") -> PodRequest:
    names = {"User-Agent": agent, "K-Network-Probe": probe, "K-Network-Hash": hashed}
    headers = tuple((name, value) for name, value in names.items() if value)
    return PodRequest("GET", "/any/path", "HTTP/1.1", headers)


@pytest.mark.parametrize(
    "agent", ["kube-probe/1.34", "Knative-Activator-Probe", "Knative-Autoscaling-Probe"]
)
@pytest.mark.parametrize(
    ("probe", "switches", "status", "body"),
    [
        ("queue", READY, 200, b"queue"),
        ("queue", EXEC, 200, b"queue"),
        ("queue", UNREADY, 503, b""),
        ("queue", DOWN, 503, b""),
        ("queue", DRAINING, 503, b"shutting down\n"),
        ("other", READY, 400, INVALID),
        ("", READY, 400, b"unexpected probe header value: \n"),
    ],
    ids=["ready", "exec unseen", "unready", "down", "draining", "other", "absent"],
)
def test_prober_gets_a_response(agent, probe, switches, status, body):
    answer = probe_response(request(agent, probe), switches)
    assert answer is not None
    assert (answer.status, answer.body) == (status, body)


@pytest.mark.parametrize("switches", [UNREADY, DOWN])
def test_queue_proxy_that_cannot_ask_vouches_for_whatever_there_is(switches):
    answer = probe_response(request("kube-probe/1.34", "queue"), switches, blind=True)
    assert answer is not None
    assert (answer.status, answer.body) == (200, b"queue")


@pytest.mark.parametrize(("polls_sidecar", "status"), [(True, 503), (False, 200)])
def test_queue_proxy_responds_for_the_sidecar_only_if_it_polls_it(polls_sidecar, status):
    switches = Switches(sidecar_ready=False)
    answer = probe_response(
        request("kube-probe/1.34", "queue"), switches, polls_sidecar=polls_sidecar
    )
    assert answer is not None
    assert answer.status == status


@pytest.mark.parametrize(
    ("hashed", "switches", "status", "body"),
    [
        ("h", READY, 200, b""),
        ("", READY, 400, HASH_MISSING),
        ("h", DRAINING, 503, b"shutting down\n"),
    ],
)
def test_ingress_probe_of_any_sender_gets_a_response(hashed, switches, status, body):
    answer = probe_response(request("curl", "probe", hashed), switches)
    assert answer is not None
    assert (answer.status, answer.body) == (status, body)
    assert (("K-Network-Hash", "h") in answer.headers) == (status == 200)


def test_probe_header_of_other_senders_is_traffic():
    assert probe_response(request("curl", "queue"), UNREADY) is None


@pytest.mark.parametrize(
    ("limit", "in_flight", "running", "status"),
    [(0, 9999, True, None), (2, 22, True, None), (2, 23, True, 503), (2, 1, False, 502)],
    ids=["no limit", "queue just full", "overflow", "application gone"],
)
def test_traffic_is_handed_on_unless_it_cannot_be(limit, in_flight, running, status):
    answer = traffic_refusal(limit, in_flight, running)
    assert (answer and answer.status) == status
    # Go's http.Error adds it. It distinguishes responses of queue-proxy itself.
    assert answer is None or answer.headers == (("X-Content-Type-Options", "nosniff"),)

"""What a request is for: a revision, or the activator itself as with a probe."""

from __future__ import annotations

import pytest

from activator.knative.words import KUBELET_AGENT
from activator.proxy.client.connection import ClientPort
from activator.proxy.exchange.exchange import contradiction, probe_response
from activator.proxy.message import own_responses
from activator.proxy.message.request import RequestLimits, read_request

HOST = b"rev.ns.svc.cluster.local"


def asking(fields: bytes, host: bytes = b"example.com") -> bytes:
    return b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n" + fields + b"\r\n"


@pytest.mark.parametrize(
    ("fields", "host"),
    [
        (b"Knative-Serving-Namespace: ns \r\nKnative-Serving-Revision: rev\t\r\n", b"other"),
        (b"", HOST),
        (b"Knative-Serving-Namespace: other\r\n", HOST),
        (b"Knative-Serving-Revision: other\r\n", HOST + b":80"),
    ],
)
async def test_both_headers_or_the_host_name_a_revision(world, fields, host):
    await world.serving()
    assert (await world.ask(asking(fields, host))).status == 200


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        (b"Knative-Serving-Namespace: ns\r\nKnative-Serving-Revision: no\r\n", "no"),
        (b"Knative-Serving-Revision: rev\r\n", "rev"),
        (b"Knative-Serving-Namespace: ns\r\n", ""),
        (b"", ""),
    ],
)
async def test_an_unknown_name_is_shown_in_the_error(world, fields, name):
    world.revise()
    answer = await world.ask(asking(fields))
    assert (answer.status, f'"{name}" not found'.encode() in answer.body) == (404, True)


def test_two_names_contradict_and_one_twice_is_one():
    fields = {b"knative-serving-revision": b"a, b"}
    assert contradiction(fields) == "knative-serving-revision occurs twice with different values"
    fields = {b"knative-serving-revision": b"a, a ", b"knative-serving-namespace": b"ns"}
    assert contradiction(fields) == ""


async def test_a_name_that_is_given_twice_counts_once(world):
    await world.serving()
    for fields in (
        b"Knative-Serving-Namespace: ns\r\nKnative-Serving-Revision: rev, rev \r\n",
        b"Knative-Serving-Namespace: ns, ns\r\nKnative-Serving-Revision: rev\r\n",
    ):
        head = b"GET / HTTP/1.1\r\nHost: example.com\r\n" + fields + b"\r\n"
        assert (await world.ask(head)).status == 200


def asked(fields: bytes, unhealthy: str = ""):
    head = b"GET /any HTTP/1.1\r\nHost: example.com\r\n" + fields + b"\r\n"
    request = read_request(head, RequestLimits())
    may_be_kubelet = KUBELET_AGENT in head
    reply = probe_response(request, ClientPort(), lambda: unhealthy, may_be_kubelet=may_be_kubelet)
    return reply, request


def test_ordinary_requests_are_not_probes():
    assert asked(b"User-Agent: curl/8\r\n")[0] is None
    assert asked(b"X-User-Agent: kube-probe/1\r\n")[0] is None
    assert asked(b"K-Network-Probe: \r\nK-Kubelet-Probe:\r\n")[0] is None


@pytest.mark.parametrize(
    "fields",
    [b"user-agent: kube-probe/1.31\r\n", b"USER-AGENT:kube-probe/\r\n", b"K-Kubelet-Probe: x\r\n"],
)
def test_kubelets_probe_comes_first_and_reports_the_activators_health(fields):
    assert asked(fields + b"K-Network-Probe: queue\r\n")[0] is own_responses.HEALTHY
    reply, _ = asked(fields, "received SIGTERM from kubelet")
    assert (reply.status, reply.body) == (500, b"received SIGTERM from kubelet\n")


def test_an_ingress_gets_its_hash_back():
    reply, _ = asked(b"K-Network-Probe: probe \r\nK-Network-Hash: h \r\n")
    assert (reply.status, reply.fields) == (200, b"\r\nK-Network-Hash: h")
    assert asked(b"K-Network-Probe: probe\r\n")[0] is own_responses.MISSING_HASH


def test_the_autoscaler_finds_an_activator():
    assert asked(b"K-Network-Probe: activator\r\n")[0] is own_responses.ACTIVATOR_PROBE


def test_a_probe_for_another_component_is_refused():
    assert asked(b"K-Network-Probe: queue\r\n")[0].status == 400


@pytest.mark.parametrize("name", [b"Knative-Serving-Revision", b"knative-serving-namespace"])
def test_two_revisions_in_one_request_are_refused_and_the_same_twice_is_one(name):
    assert asked(name + b": a\r\n" + name + b": b\r\n")[0].status == 400
    assert asked(name + b": a,b\r\n")[0].status == 400
    reply, _ = asked(name + b": a\r\n" + name + b": a\r\n")
    assert reply is None

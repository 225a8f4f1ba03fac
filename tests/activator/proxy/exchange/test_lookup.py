"""Which revision a request is for; throttler and driver parse hosts."""

from __future__ import annotations

import pytest

from activator.proxy.exchange.lookup import contradiction

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

"""The PROXY header: byte for byte as its specification writes it, and before the first byte."""

from __future__ import annotations

import pytest

from activator.proxy.tcp.proxy_header import proxy_header
from tests.activator.proxy.tcp.world import TcpWorld
from tests.activator.proxy.world import until
from throttler.request_policies import ConnectionPolicies, ProxyHeader

V1, V2 = ProxyHeader.V1, ProxyHeader.V2
START = b"\r\n\r\n\x00\r\nQUIT\n\x21"


@pytest.mark.parametrize(
    ("version", "client", "server", "header"),
    [
        (
            V1,
            ("192.0.2.7", 40000),
            ("10.0.0.1", 80),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 40000 80\r\n",
        ),
        (V1, ("fd00::7", 1, 0, 0), ("fd00::1", 2, 0, 0), b"PROXY TCP6 fd00::7 fd00::1 1 2\r\n"),
        (
            V1,
            ("::ffff:192.0.2.7", 1, 0, 0),
            ("::ffff:10.0.0.1", 2, 0, 0),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 1 2\r\n",
        ),
        (
            V2,
            ("192.0.2.7", 258),
            ("10.0.0.1", 5432),
            START + b"\x11\x00\x0c\xc0\x00\x02\x07\x0a\x00\x00\x01\x01\x02\x15\x38",
        ),
        (
            V2,
            ("fe80::7%eth0", 1, 0, 2),
            ("fe80::1", 2, 0, 2),
            START
            + b"\x21\x00\x24\xfe\x80"
            + bytes(13)
            + b"\x07\xfe\x80"
            + bytes(13)
            + b"\x01\x00\x01\x00\x02",
        ),
    ],
)
def test_the_header(version: ProxyHeader, client: object, server: object, header: bytes) -> None:
    assert proxy_header(version, client, server) == header


async def test_the_header_comes_before_the_bytes_that_waited(world: TcpWorld) -> None:
    pod = await world.asleep(connections=ConnectionPolicies(send_proxy=V1))
    client = await world.client()
    client.send(b"hello")
    await until(lambda: world.load == 1)
    await world.start_pod(pod)
    _, number = client.transport.get_extra_info("sockname")
    expected = b"PROXY TCP4 127.0.0.1 127.0.0.1 %d %d\r\nhello" % (number, world.port)
    await until(lambda: pod.connections and pod.connections[0].received == expected)
    client.close()
    pod.connections[0].close()

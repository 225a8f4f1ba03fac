"""Where a pod is, how it proves itself, and how requests name it."""

from __future__ import annotations

import asyncio
from typing import cast, final

from activator.knative.control_fields import PASSTHROUGH_LINE, PROXY_LINE
from activator.knative.names import private_service
from activator.proxy.http2.hpack import line
from activator.proxy.pods.dial import HANDSHAKE_TIMEOUT, Proof, connect, connect_tls
from activator.tls.internal_encryption import POD_PORT, SERVICE_PORT, PodTls
from throttler.pod import PodTracker


@final
class Target:
    """One pod as the connections to it know it.

    Arguments:
        tls: how the pod proves itself; None where its connections are plain.

    Attributes:
        address: the pod's ``ip:port`` as it is listed.
        host, port: where connections go; with TLS the port is another one.
        origin: the same as ``scheme://ip:port``.
        probe_lines: the request fields that name the pod to a probe, each with its CRLF.
        host_lines: the same for a request.
        host_blocks: the same as HTTP/2 has it: :scheme with :authority, and the other fields.
    """

    __slots__ = (
        "_proof",
        "_revision",
        "address",
        "host",
        "host_blocks",
        "host_lines",
        "origin",
        "port",
        "probe_lines",
    )

    def __init__(self, pod: PodTracker, tls: PodTls | None, *, passthrough: bool) -> None:
        self.address = pod.address
        self._revision = pod.config.revision.id
        host, _, port = pod.address.rpartition(":")
        self.host = host.strip("[]")
        self.port = int(port)
        self._proof: Proof | None = None
        if tls is not None:
            self._proof = Proof(tls, self._revision.namespace)
            self.port = SERVICE_PORT if pod.is_service else POD_PORT
        scheme = "http" if tls is None else "https"
        self.origin = f"{scheme}://{host}:{self.port}"
        self.probe_lines = b""
        self.host_lines = b""
        self.host_blocks = b"", b""
        self.set_passthrough(passthrough)

    def set_passthrough(self, on: bool) -> None:
        """See pools.ConnectionPools.set_passthrough."""
        if on:
            name = f"{private_service(self._revision.name)}.{self._revision.namespace}"
            self.probe_lines = b"Host: %b\r\n%b" % (name.encode(), PASSTHROUGH_LINE)
        else:
            host = self.address.rpartition(":")[0]
            self.probe_lines = b"Host: %b:%d\r\n" % (host.encode(), self.port)
        self.host_lines = self.probe_lines + PROXY_LINE
        self.host_blocks = self._as_blocks()

    def _as_blocks(self) -> tuple[bytes, bytes]:
        front = line(b":scheme", b"http" if self._proof is None else b"https")
        rest = b""
        for each in self.host_lines.split(b"\r\n")[:-1]:
            name, _, value = each.partition(b": ")
            if name == b"Host":
                front += line(b":authority", value)
            else:
                rest += line(name.lower(), value)
        return front, rest

    def describe(self, error: str) -> str:
        """Return what went wrong with a connection, and where, for people."""
        return error if self._proof is None else f"TLS on port {self.port}: {error}"

    async def connect(self, protocol: object, limit: float, within: float, *, http2: bool) -> None:
        """Connect, and have the pod prove itself where it has to.

        Arguments:
            protocol: the loop's protocol object.
            limit: seconds to connect; within: for the handshake, where that is shorter than usual.
            http2: whether the pod also has to choose HTTP/2.

        Raises:
            OSError: see dial.connect_tls.
        """
        # The loops look methods up by name: a compiled class has no base of theirs.
        loops = cast(asyncio.BaseProtocol, protocol)
        if self._proof is None:
            await connect(loops, self.host, self.port, limit)
        else:
            both = limit, min(within, HANDSHAKE_TIMEOUT)
            await connect_tls(loops, self.host, self.port, both, self._proof._replace(http2=http2))

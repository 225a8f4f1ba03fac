"""The address of a pod, its proof over TLS, and the fields by which requests name it."""

from __future__ import annotations

import asyncio
from typing import cast, final

from activator.knative.words import (
    ORIGINAL_HOST_START,
    PASSTHROUGH_LINE,
    PROXY_LINE,
    private_service,
)
from activator.proxy.http2.hpack import line
from activator.proxy.message.request import PLAIN_HOST_START
from activator.proxy.pods.dial import HANDSHAKE_TIMEOUT, Proof, connect, connect_tls
from activator.tls.internal_encryption import POD_PORT, SERVICE_PORT, PodTls, UnverifiedTls
from throttler.pod import PodTracker


@final
class PodTarget:
    """One pod, for the connections to it.

    A pod without queue-proxy has one port, with or without TLS, and gets its requests with the
    client's host.

    Arguments:
        pod: the pod.
        tls: the check of the pod's certificate; None for plain connections.
        passthrough: see ``set_passthrough``.

    Attributes:
        address: the pod's ``ip:port`` in its endpoint.
        host, port: the address of connections; over TLS they use another port.
        origin: host and port as ``scheme://ip:port``.
        is_plain: whether the pod has no queue-proxy.
        probe_lines: the fields by which a probe names the pod, each with its CRLF.
        host_lines: the fields by which a request names the pod, each with its CRLF.
        host_start: the start of the line with the client's host, see ``message.pod_head``.
        host_blocks: these fields for HTTP/2: first :scheme and :authority, then the others.
    """

    __slots__ = (
        "_peer_line",
        "_proof",
        "_revision",
        "address",
        "host",
        "host_blocks",
        "host_lines",
        "host_start",
        "is_plain",
        "origin",
        "port",
        "probe_lines",
    )

    def __init__(
        self, pod: PodTracker, tls: PodTls | UnverifiedTls | None, *, passthrough: bool
    ) -> None:
        revision = pod.config.revision
        self.address = pod.address
        self._revision = revision.id
        self.is_plain = not revision.behind_queue_proxy
        host, _, port = pod.address.rpartition(":")
        self.host = host.strip("[]")
        self.port = int(port)
        self._proof: Proof | None = None
        if tls is not None:
            self._proof = Proof(tls, self._revision.namespace)
            if not self.is_plain:
                self.port = SERVICE_PORT if pod.is_service else POD_PORT
        scheme = "http" if tls is None else "https"
        self.origin = f"{scheme}://{host}:{self.port}"
        self.probe_lines = b""
        self.host_lines = b""
        # Another activator finds the Service by this field, whatever host the client has sent.
        self._peer_line = b"Activator-Service: %b\r\n" % str(self._revision).encode()
        if not pod.is_service:
            self._peer_line = b""
        self.host_start = PLAIN_HOST_START if self.is_plain else ORIGINAL_HOST_START
        self.host_blocks = b"", b""
        self.set_passthrough(passthrough)

    def set_passthrough(self, on: bool) -> None:
        if on and not self.is_plain:
            name = f"{private_service(self._revision.name)}.{self._revision.namespace}"
            self.probe_lines = b"Host: %b\r\n%b" % (name.encode(), PASSTHROUGH_LINE)
        else:
            host = self.address.rpartition(":")[0]
            self.probe_lines = b"Host: %b:%d\r\n" % (host.encode(), self.port)
        self.host_lines = self._peer_line if self.is_plain else self.probe_lines + PROXY_LINE
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
        """Return the error of a connection with its TLS port, for people."""
        return error if self._proof is None else f"TLS on port {self.port}: {error}"

    async def connect(self, protocol: object, limit: float, within: float, *, http2: bool) -> None:
        """Connect; over TLS, check the pod's certificate.

        Arguments:
            protocol: the loop's protocol object.
            limit: seconds to connect.
            within: seconds for the handshake, if that is less than HANDSHAKE_TIMEOUT.
            http2: whether the pod also has to choose HTTP/2.

        Raises:
            OSError: see dial.connect_tls.
        """
        # The loops find methods by name, so a compiled class needs no base class of asyncio.
        loops = cast(asyncio.BaseProtocol, protocol)
        if self._proof is None:
            await connect(loops, self.host, self.port, limit)
        else:
            both = limit, min(within, HANDSHAKE_TIMEOUT)
            await connect_tls(loops, self.host, self.port, both, self._proof._replace(http2=http2))

"""The proxy's world with TLS on both sides: clients' to the proxy, the proxy's to its pods.

Certificates are made per test by trustme. Pods have an address of their own each, since their
port for TLS is fixed.
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from typing import Any

import trustme

from activator.knative.words import DATA_PLANE
from activator.proxy.client.listener import PausingListener, listen
from activator.settings.values import TlsParameters
from activator.tls.internal_encryption import POD_PORT, InternalTls
from tests.activator.proxy.world import (
    NAMESPACE,
    Client,
    Pod,
    PodConnection,
    World,
    protocol,
    until,
)

#: The namespace's name in a pod's certificate.
USER = f"kn-user-{NAMESPACE}"


def pem(certificate: trustme.LeafCert) -> tuple[bytes, bytes]:
    """The certificate with its chain, and its key."""
    chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
    return chain, certificate.private_key_pem.bytes()


def secret(ca: trustme.CA, *, trusted: trustme.CA | None = None, **how: Any) -> dict[str, bytes]:
    """The data of the Secret, with a new certificate of ``ca``."""
    certificate, key = pem(ca.issue_cert(DATA_PLANE, "localhost", **how))
    root = (trusted or ca).cert_pem.bytes()
    return {"tls.crt": certificate, "tls.key": key, "ca.crt": root}


def pod_context(ca: trustme.CA, *names: str, **how: Any) -> ssl.SSLContext:
    """What a pod presents; by default it is right."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    ca.issue_cert(*(names or (DATA_PLANE, USER)), **how).configure_cert(context)
    return context


def free_address() -> str:
    """Return a loopback address that is free, also in tests of other processes."""
    return "127." + ".".join(str(random.randrange(1, 255)) for _ in range(3))


class TlsPod(Pod):
    """A pod that accepts requests over TLS; its plain port is only a name, and is closed.

    Attributes:
        context: what it presents; for new connections when it is changed before ``listen``.
    """

    context: ssl.SSLContext

    async def listen(self) -> None:
        if self.port == 0:
            self.host = free_address()
            self.port = 8012
        self._server = await asyncio.get_running_loop().create_server(
            lambda: PodConnection(self), self.host, POD_PORT, ssl=self.context
        )


class TlsClient(Client):
    """A client that speaks TLS, which knows no half-close."""

    def eof_received(self) -> bool:
        super().eof_received()
        return False

    def end_sending(self) -> None:
        """Say that nothing follows, and with it that nothing is read any more."""
        self.transport.close()


class ByHand:
    """A client's side of TLS over a plain connection; the test controls each step."""

    def __init__(self, client: Client, context: ssl.SSLContext) -> None:
        self.client = client
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_hostname=DATA_PLANE)

    def pump(self) -> None:
        """Pass bytes on, both ways."""
        self._in.write(bytes(self.client.unread))
        self.client.unread.clear()
        if data := self._out.read():
            self.client.send(data)

    async def shake(self, behind: bytes = b"") -> None:
        """Do the handshake; the bytes ``behind`` it leave with the client's last part of it."""
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.pump()
                await self.client.change()
                self.pump()
            else:
                break
        if behind:
            self.tls.write(behind)
        self.pump()

    async def read_until(self, end: bytes) -> bytes:
        """Read up to these bytes."""
        read = b""
        while end not in read:
            self.pump()
            try:
                read += self.tls.read(1 << 16)
            except ssl.SSLWantReadError:
                await self.client.change()
        return read


class TlsWorld(World):
    """A proxy whose clients and pods speak TLS.

    Attributes:
        ca: has signed everything.
        trusted: what clients trust.
    """

    async def start(self, **settings: Any) -> None:
        await super().start(**settings)
        self.server.close()
        self.ca = trustme.CA()
        self.tls = InternalTls(TlsParameters(), "knative-serving")
        self.tls.on_withdrawn = self.pools.distrust
        self.tls.set_secret(secret(self.ca))
        self.tls.start()
        self.pools.use_tls(self.tls.pods)
        sock = listen("127.0.0.1", 0, "--https-port")
        self.port = sock.getsockname()[1]
        self.server = PausingListener(  # type: ignore[assignment] # closed in the same way
            sock,
            lambda: protocol(self.proxy),
            self.proxy,
            self.proxy.arrivals,
            self.tls.server.context,
        )
        self.trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.ca.configure_trust(self.trusted)

    async def pod(self, address: str = "", receive_buffer: int = 0) -> TlsPod:
        return await self.tls_pod(pod_context(self.ca))

    async def tls_pod(self, context: ssl.SSLContext) -> TlsPod:
        """A pod that presents something else."""
        pod = TlsPod(self)
        pod.context = context
        await pod.listen()
        self.pods.append(pod)
        return pod

    async def client(self, receive_buffer: int = 0) -> Client:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.setblocking(False)
        await self.loop.sock_connect(sock, ("127.0.0.1", self.port))
        _, client = await self.loop.create_connection(
            TlsClient, sock=sock, ssl=self.trusted, server_hostname=DATA_PLANE
        )
        self.clients.append(client)
        return client

    async def plain(self) -> Client:
        """A connection on which no TLS is spoken unless the test does so itself."""
        _, client = await self.loop.create_connection(Client, "127.0.0.1", self.port)
        self.clients.append(client)
        return client


async def healthy(world: World, count: int = 1) -> None:
    """Wait until that many pods are."""
    await until(lambda: world.revision().statistics().healthy == count)

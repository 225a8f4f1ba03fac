"""Sends requests to an API server, over connections whose credentials it reads again with age.

It must not know the meaning of the requests. It uses authentication, TLS and connections of
kubernetes_asyncio. Counterpart: client-go's rest package.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from activator import __version__
from activator.discovery import credentials, kubernetes_package
from activator.discovery.backoff import Timings
from activator.discovery.credentials import ClusterConfigError
from activator.discovery.transport import (
    AiohttpResponse,
    describe,
    environment_proxy,
    keep_alive,
)
from activator.discovery.wire import (
    HTTP_TOO_MANY_REQUESTS,
    HTTP_UNAUTHORIZED,
    ConnectionLostError,
    Response,
    WholeResponse,
)

if TYPE_CHECKING:  # expensive to import
    import aiohttp

logger = logging.getLogger(__name__)

#: Bytes of a response to ``send``: an object has at most 1.5 MiB, a list of API resources less.
_MOST_BODY: Final = 16 << 20
#: The name is that of the field manager of each write, which people see in ``managedFields``.
_HEADERS: Final = {"Accept": "application/json", "User-Agent": f"activator/{__version__}"}
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class ApiServer:
    """Sends requests to an API server (wire.Cluster).

    Arguments:
        kubeconfig: as for ``credentials.load``.
        timings: of connections and credentials.
        environ: environment variables.
    """

    def __init__(
        self, kubeconfig: str | None, timings: Timings, environ: Mapping[str, str]
    ) -> None:
        self._kubeconfig = kubeconfig
        self._timings = timings
        self._environ = environ
        self._connection: _Connection | None = None
        self._is_expired = False
        self._read_at = 0.0
        self._lock = asyncio.Lock()

    @property
    def host(self) -> str:
        """The server's address, for messages; a question mark before ``connect``."""
        return self._connection.host if self._connection else "?"

    async def connect(self) -> None:
        """Read the configuration. Raises ``ClusterConfigError``."""
        async with self._lock:
            if self._connection is None:
                await self._use(await self._configuration())

    async def close(self) -> None:
        """Close all connections."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def renew_credentials(self) -> None:
        """Read the configuration again before the next request, and open new connections."""
        self._is_expired = True

    @asynccontextmanager
    async def get(
        self, path: str, params: Mapping[str, str], silence: float
    ) -> AsyncIterator[Response]:
        """Send a GET, and yield the response after its head.

        Raises:
            ConnectionLostError: there is no connection, or it is lost.
        """
        import aiohttp

        times = aiohttp.ClientTimeout(
            total=None, sock_connect=self._timings.connect, sock_read=silence
        )
        async with self._request("GET", path, times, params=params) as response:
            keep_alive(response)
            yield AiohttpResponse(response)

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> WholeResponse:
        """Send one request, and return the whole response, also of an error.

        A request that the server has refused unread is sent again: after 401 with new credentials,
        and after 429 when the server allows it. A request whose connection broke is not, unless
        its method is idempotent (RFC 9110 section 9.2.2): the server may have carried it out.

        Arguments:
            method: such as PATCH.
            path: with the query, if there is one.
            body: empty for none.
            content_type: of the body.

        Raises:
            ConnectionLostError: there is no response within ``Timings.request`` seconds. The server
                may have carried out the request.
            ClusterConfigError: there is no usable configuration.
        """
        try:
            async with asyncio.timeout(self._timings.request) as limit:
                response, retry_after = await self._send_once(method, path, body, content_type)
                if response.status == HTTP_UNAUTHORIZED:
                    self.renew_credentials()
                    response, retry_after = await self._send_once(method, path, body, content_type)
                while response.status == HTTP_TOO_MANY_REQUESTS and retry_after:
                    if asyncio.get_running_loop().time() + retry_after >= (limit.when() or 0.0):
                        break
                    await asyncio.sleep(retry_after)
                    response, retry_after = await self._send_once(method, path, body, content_type)
                return response
        except TimeoutError:
            raise ConnectionLostError(
                f"no response to {method} {path} within {self._timings.request:g} s"
            ) from None

    async def _send_once(
        self, method: str, path: str, body: bytes, content_type: str
    ) -> tuple[WholeResponse, float]:
        """Return the response, and the seconds to wait, as the server requests."""
        import aiohttp

        headers = {"Content-Type": content_type} if body else {}
        times = aiohttp.ClientTimeout(total=None, sock_connect=self._timings.connect)
        async with self._request(method, path, times, headers, data=body or None) as response:
            keep_alive(response)
            adapted = AiohttpResponse(response)
            content = await adapted.read(_MOST_BODY + 1)
            if len(content) > _MOST_BODY:
                raise ConnectionLostError(f"the response has more than {_MOST_BODY} bytes")
            return WholeResponse(response.status, content), adapted.retry_after

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        times: aiohttp.ClientTimeout,
        headers: Mapping[str, str] = _NO_HEADERS,
        **more: Any,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request, and yield the response after its head.

        Raises:
            ConnectionLostError: there is no connection, or it is lost.
        """
        import aiohttp

        connection = await self._fresh_connection()
        connection.users += 1
        try:
            async with connection.session.request(
                method,
                connection.host + path,
                headers={**_HEADERS, **headers, **connection.authorization},
                timeout=times,
                allow_redirects=False,  # a redirect would send the token to another server
                **more,
                **connection.options,
            ) as response:
                yield response
        except aiohttp.ClientSSLError as error:
            # The cluster may have a new certificate authority.
            self.renew_credentials()
            raise ConnectionLostError(describe(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ConnectionLostError(describe(error)) from error
        finally:
            connection.users -= 1
            await connection.close_if_unused()

    async def _fresh_connection(self) -> _Connection:
        """Return a connection whose credentials are not older than the limit."""
        async with self._lock:
            old = self._connection
            now = asyncio.get_running_loop().time()
            fresh_enough = now - self._read_at < self._timings.credentials
            if old is not None and fresh_enough and not self._is_expired:
                return old
            try:
                configuration = await self._configuration()
            except ClusterConfigError as error:
                # A mounted file may be away for a moment while it is replaced.
                if old is None:
                    raise
                logger.warning("API server: the old credentials stay in use: %s", error)
                self._read_at = now
                self._is_expired = False
                return old
            if old is not None and not self._is_expired and old.same_transport(configuration):
                self._read_at = now
                old.authorization = await credentials.authorization(configuration)
                return old
            fresh = await self._use(configuration)
            if old is not None:
                old.retired = True
                await old.close_if_unused()
            return fresh

    async def _use(self, configuration: Any) -> _Connection:
        try:
            connection = _Connection(configuration)
        except (OSError, ValueError) as error:
            raise ClusterConfigError(
                f"the TLS files of the cluster's configuration cannot be used: {error}; check "
                "certificate-authority, client-certificate and client-key"
            ) from error
        try:
            connection.authorization = await credentials.authorization(configuration)
        except BaseException:
            await connection.close()
            raise
        self._connection = connection
        self._is_expired = False
        self._read_at = asyncio.get_running_loop().time()
        return connection

    async def _configuration(self) -> Any:
        return await credentials.load(self._kubeconfig, self._environ)


class _Connection:
    """One HTTP session, and the header and the options of its requests.

    Attributes:
        users: number of requests in flight.
        retired: whether another connection has replaced this one.
    """

    def __init__(self, configuration: Any) -> None:
        import aiohttp

        self.client = kubernetes_package.load().rest_client(configuration)
        self.host: str = configuration.host.rstrip("/")
        # The client's connector has the TLS settings. Its session is not used: that one would read
        # ~/.netrc in a thread for each request, and replace the token by a line of that file.
        self.session = aiohttp.ClientSession(
            connector=self.client.pool_manager.connector, connector_owner=False
        )
        self.authorization: dict[str, str] = {}
        self.options: dict[str, Any] = {}
        proxy = configuration.proxy or environment_proxy(self.host)
        if proxy:
            self.options["proxy"] = proxy
        if configuration.tls_server_name:
            self.options["server_hostname"] = configuration.tls_server_name
        self.users = 0
        self.retired = False
        self._transport = credentials.transport(configuration)

    def same_transport(self, configuration: Any) -> bool:
        """Return whether a configuration has the same server, TLS files and proxy."""
        return self._transport == credentials.transport(configuration)

    async def close_if_unused(self) -> None:
        """Close a replaced connection after its last stream."""
        if self.retired and not self.users:
            await self.close()

    async def close(self) -> None:
        """Close the session and all its sockets."""
        await self.session.close()
        await self.client.close()

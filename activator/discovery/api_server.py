"""Sends requests to an API server: connections, and credentials that are read again as they age.

It must not know what is asked for. Of kubernetes_asyncio, authentication, TLS and its connections
are used.
Counterpart: client-go's rest package.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from activator.discovery import credentials, kubernetes_package
from activator.discovery.backoff import Timings
from activator.discovery.credentials import ClusterConfigError
from activator.discovery.transport import (
    AiohttpResponse,
    describe,
    environment_proxy,
    keep_alive,
)
from activator.discovery.wire import ConnectionLostError, Response

logger = logging.getLogger(__name__)


class ApiServer:
    """Sends requests to an API server, with credentials that are read again as they age.

    Implements ``wire.Cluster``.
    """

    def __init__(
        self, kubeconfig: str | None, timings: Timings, environ: Mapping[str, str]
    ) -> None:
        self._kubeconfig = kubeconfig
        self._timings = timings
        self._environ = environ
        self._connection: _Connection | None = None
        self._distrusted = False
        self._read_at = 0.0
        self._lock = asyncio.Lock()

    @property
    def host(self) -> str:
        """The server's address, for messages."""
        return self._connection.host if self._connection else "?"

    async def connect(self) -> None:
        """Reads the configuration. Raises ``ClusterConfigError``."""
        async with self._lock:
            if self._connection is None:
                await self._use(await self._configuration())

    async def close(self) -> None:
        """Closes all connections."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def distrust_credentials(self) -> None:
        """Reads everything again before the next request, and opens new connections."""
        self._distrusted = True

    @asynccontextmanager
    async def get(
        self, path: str, params: Mapping[str, str], silence: float
    ) -> AsyncIterator[Response]:
        """Sends a GET and yields the answer when its head is there.

        Raises:
            ConnectionLostError: no connection, or it broke.
        """
        import aiohttp

        connection = await self._fresh_connection()
        connection.users += 1
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self._timings.connect, sock_read=silence
        )
        try:
            headers = {"Accept": "application/json", **connection.authorization}
            async with connection.session.get(
                connection.host + path,
                params=params,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,  # they would carry the token somewhere else
                **connection.options,
            ) as response:
                keep_alive(response)
                yield AiohttpResponse(response)
        except aiohttp.ClientSSLError as error:
            # The cluster's authority may have been renewed.
            self.distrust_credentials()
            raise ConnectionLostError(describe(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ConnectionLostError(describe(error)) from error
        finally:
            connection.users -= 1
            await connection.close_if_unused()

    async def _fresh_connection(self) -> _Connection:
        """The connection, with credentials no older than the limit."""
        async with self._lock:
            old = self._connection
            now = asyncio.get_running_loop().time()
            fresh_enough = now - self._read_at < self._timings.credentials
            if old is not None and fresh_enough and not self._distrusted:
                return old
            try:
                configuration = await self._configuration()
            except ClusterConfigError as error:
                # A mounted file may be away for a moment while it is replaced.
                if old is None:
                    raise
                logger.warning("the old credentials stay in use: %s", error)
                self._read_at = now
                self._distrusted = False
                return old
            if old is not None and not self._distrusted and old.same_transport(configuration):
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
        self._distrusted = False
        self._read_at = asyncio.get_running_loop().time()
        return connection

    async def _configuration(self) -> Any:
        return await credentials.load(self._kubeconfig, self._environ)


class _Connection:
    """One HTTP session, and what belongs into its requests."""

    def __init__(self, configuration: Any) -> None:
        import aiohttp

        self.client = kubernetes_package.load().rest_client(configuration)
        self.host: str = configuration.host.rstrip("/")
        # On the client's connector, for its TLS; but not its session, which would put a line of
        # ~/.netrc into the place of our token and asks a thread for it on each request.
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
        """Whether another reading of the configuration leads to the same place the same way."""
        return self._transport == credentials.transport(configuration)

    async def close_if_unused(self) -> None:
        """Closes a connection that was replaced once its last stream has ended."""
        if self.retired and not self.users:
            await self.close()

    async def close(self) -> None:
        """Closes all its connections."""
        await self.session.close()
        await self.client.close()

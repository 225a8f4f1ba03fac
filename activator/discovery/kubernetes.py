"""Connects to a cluster and follows the resources that matter.

The only file that imports kubernetes_asyncio (one second and 60 MiB, so only when it is needed).
Of it, configuration, authentication and TLS are used, and its HTTP session as transport; its own
Watch waits for ever on a silent stream and storms a failing server.
Counterpart: Knative's pkg/injection (configuration, version check) and client-go's rest package.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import tenacity

from activator.discovery.backoff import Timings
from activator.discovery.inventory import Inventory
from activator.discovery.reflector import Counters, Reflector, Resource
from activator.discovery.transport import (
    AiohttpResponse,
    describe,
    environment_proxy,
    keep_alive,
)
from activator.discovery.wire import ConnectionLostError, Response, ServerAnswerError

logger = logging.getLogger(__name__)

HOME_KUBECONFIG = "~/.kube/config"

_VERSION_BYTES = 65_536


class ClusterConfigError(Exception):
    """No cluster can be reached with this configuration. Says what to set."""


class ClusterVersionError(Exception):
    """The cluster did not answer in time, or is too old."""


def resources(system_namespace: str) -> tuple[Resource, ...]:
    """The resources that are followed: all namespaces, but ConfigMaps of one only."""
    return (
        Resource("Revision", "/apis/serving.knative.dev/v1/revisions"),
        Resource("Service", "/api/v1/services"),
        Resource("Endpoints", "/api/v1/endpoints"),
        Resource("ConfigMap", f"/api/v1/namespaces/{system_namespace}/configmaps"),
    )


class KubernetesWatch:
    """Keeps an inventory equal to a cluster.

    Args:
        inventory: is told of every object.
        system_namespace: where Knative Serving keeps its ConfigMaps.
        kubeconfig: path of a kubeconfig file, or several joined by ``:``; None or empty for the
            cluster that this process runs in, or else ``~/.kube/config``.
        timings: all times.
        environ: environment variables; None for those of the process.
    """

    def __init__(
        self,
        inventory: Inventory,
        system_namespace: str,
        kubeconfig: str | None = None,
        timings: Timings | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        timings = timings or Timings()
        self._timings = timings
        self._api = ApiServer(kubeconfig, timings, os.environ if environ is None else environ)
        self._reflectors = [
            Reflector(resource, self._api, inventory, timings)
            for resource in resources(system_namespace)
        ]

    @property
    def synced(self) -> bool:
        """Whether every resource has been listed once."""
        return all(reflector.synced.is_set() for reflector in self._reflectors)

    @property
    def counters(self) -> Mapping[str, Counters]:
        """What happened on each watch, by kind."""
        return {reflector.resource.kind: reflector.counters for reflector in self._reflectors}

    @property
    def errors(self) -> Mapping[str, str]:
        """Why a watch fails at present, by kind; those that do not fail are left out."""
        return {
            reflector.resource.kind: reflector.last_error
            for reflector in self._reflectors
            if reflector.last_error
        }

    async def wait_synced(self) -> None:
        """Waits until every resource has been listed once."""
        for reflector in self._reflectors:
            await reflector.synced.wait()

    def ages(self, now: float) -> Mapping[str, float]:
        """How old the knowledge of each resource is.

        Args:
            now: the loop's time.

        Returns:
            Seconds since the last sign of life (since the start if there was none), by kind.
        """
        return {
            reflector.resource.kind: max(0.0, now - reflector.last_sign_of_life)
            for reflector in self._reflectors
        }

    async def run(self) -> None:
        """Follows all resources until cancelled; no fault of the server ends it.

        Raises:
            ClusterConfigError: there is no usable configuration.
        """
        try:
            await self._api.connect()
            async with asyncio.TaskGroup() as group:
                for reflector in self._reflectors:
                    group.create_task(reflector.run(), name=f"watch {reflector.resource.kind}")
        finally:
            await self._api.close()

    async def check_version(self, minimum: str) -> str:
        """Waits for the API server and checks its version.

        Args:
            minimum: the oldest version that will do, as in ``1.34`` or ``v1.34.0``.

        Returns:
            The server's version, as in ``v1.35.2``.

        Raises:
            ClusterConfigError: there is no usable configuration.
            ClusterVersionError: no answer in time, or the server is older.
        """
        try:
            needed = _version_tuple(minimum)
        except ValueError:
            raise ClusterConfigError(
                f"the minimum version {minimum!a} is none: set KUBERNETES_MIN_VERSION to v1.34.0"
                " or the like"
            ) from None
        await self._api.connect()
        version = await self._first_version()
        if _version_tuple(version) < needed:
            raise ClusterVersionError(
                f"Kubernetes {version} at {self._api.host} is older than {minimum}: upgrade it, "
                "or set KUBERNETES_MIN_VERSION to try nevertheless"
            )
        return version

    async def close(self) -> None:
        """Closes the connections; only needed where ``run`` was not called."""
        await self._api.close()

    async def _first_version(self) -> str:
        """Asks until there is an answer. Raises ``ClusterVersionError`` when time is up."""
        errors: list[str] = []

        def remember(state: tenacity.RetryCallState) -> None:
            errors[:] = [str(state.outcome.exception())] if state.outcome else []

        limit = self._timings.version_limit
        try:
            async with asyncio.timeout(limit):
                return await tenacity.AsyncRetrying(
                    wait=tenacity.wait_fixed(self._timings.version_interval),
                    retry=tenacity.retry_if_exception_type(
                        (ConnectionLostError, ServerAnswerError)
                    ),
                    before_sleep=remember,
                    sleep=asyncio.sleep,
                )(self._version)
        except TimeoutError:
            raise ClusterVersionError(
                f"the API server {self._api.host} gave no version within {limit:g} s: "
                f"{''.join(errors) or 'no answer'}"
            ) from None

    async def _version(self) -> str:
        async with self._api.get("/version", {}, self._timings.connect) as response:
            body = await response.read(_VERSION_BYTES)
            if response.status == 401:
                self._api.distrust_credentials()
            if response.status != 200:
                raise ServerAnswerError(response.status, "", response.retry_after)
        try:
            version = msgspec.json.decode(body)["gitVersion"]
            _version_tuple(version)
        except (msgspec.MsgspecError, UnicodeDecodeError, LookupError, TypeError, ValueError):
            raise ServerAnswerError(200, "the answer to /version is none") from None
        return str(version)


def _version_tuple(version: str) -> tuple[int, int, int]:
    """Compares as Knative does: numbers only, pre-releases and build marks cut off."""
    numbers = version.removeprefix("v").partition("-")[0].partition("+")[0].split(".")
    major, minor, patch = (*numbers, "0", "0")[:3]
    return int(major), int(minor), int(patch)


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
                old.authorization = await _authorization(configuration)
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
        connection.authorization = await _authorization(configuration)
        self._connection = connection
        self._distrusted = False
        self._read_at = asyncio.get_running_loop().time()
        return connection

    async def _configuration(self) -> Any:
        """Reads configuration and credentials. Raises ``ClusterConfigError``."""
        from kubernetes_asyncio import client, config

        configuration = client.Configuration()
        home = _expanded(HOME_KUBECONFIG)
        if self._kubeconfig:
            await _load_kubeconfig(self._kubeconfig, configuration)
        elif self._environ.get("KUBERNETES_SERVICE_HOST"):
            try:
                config.load_incluster_config(  # type: ignore[no-untyped-call] # kubernetes_asyncio has no types
                    configuration, try_refresh_token=False, environ=self._environ
                )
            except (config.ConfigException, OSError) as error:
                raise ClusterConfigError(
                    f"in a cluster, but its service account cannot be used: {error} Mount the "
                    "token (automountServiceAccountToken), or set KUBECONFIG"
                ) from error
        elif _exists(home):
            await _load_kubeconfig(home, configuration)
        else:
            raise ClusterConfigError(
                "no cluster: KUBERNETES_SERVICE_HOST is not set, so this is no pod, and there is "
                f"no {HOME_KUBECONFIG}. Set KUBECONFIG to a kubeconfig file, or work without a "
                "cluster: `activator local --manifests DIR`"
            )
        return configuration


async def _load_kubeconfig(paths: str, configuration: Any) -> None:
    from kubernetes_asyncio import config

    if not any(_exists(path) for path in paths.split(os.pathsep)):
        raise ClusterConfigError(
            f"KUBECONFIG names {paths}, which does not exist: set it to a kubeconfig file"
        )
    try:
        await config.load_kube_config(config_file=paths, client_configuration=configuration)
    except Exception as error:
        # The loader takes the file for well-formed, and fails with whatever Python raises.
        raise ClusterConfigError(
            f"the kubeconfig {paths} cannot be used: {describe(error)}; check it with `kubectl "
            "config view`, or set KUBECONFIG to another file"
        ) from error


def _expanded(path: str) -> str:
    return str(Path(path).expanduser())


def _exists(path: str) -> bool:
    return Path(path).expanduser().is_file()


async def _authorization(configuration: Any) -> dict[str, str]:
    """The request header that carries the token, if there is one."""
    settings = await configuration.auth_settings()
    value = settings.get("BearerToken", {}).get("value")
    # Token files written by hand end with a line feed, which no header may hold.
    return {"Authorization": str(value).strip()} if value else {}


class _Connection:
    """One HTTP session, and what belongs into its requests."""

    def __init__(self, configuration: Any) -> None:
        import aiohttp
        from kubernetes_asyncio import client

        self.client = client.ApiClient(configuration)
        self.host: str = configuration.host.rstrip("/")
        # On the client's connector, for its TLS; but not its session, which would put a line of
        # ~/.netrc into the place of our token and asks a thread for it on each request.
        self.session = aiohttp.ClientSession(
            connector=self.client.rest_client.pool_manager.connector, connector_owner=False
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
        self._transport = _transport(configuration)

    def same_transport(self, configuration: Any) -> bool:
        """Whether another reading of the configuration leads to the same place the same way."""
        return self._transport == _transport(configuration)

    async def close_if_unused(self) -> None:
        """Closes a connection that was replaced once its last stream has ended."""
        if self.retired and not self.users:
            await self.close()

    async def close(self) -> None:
        """Closes all its connections."""
        await self.session.close()
        await self.client.close()


def _transport(configuration: Any) -> tuple[object, ...]:
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    return (
        configuration.host,
        configuration.verify_ssl,
        configuration.tls_server_name,
        configuration.proxy,
        *(_content(file) for file in files),
    )


def _content(file: str | None) -> bytes | None:
    try:
        return Path(file).read_bytes() if file else None
    except OSError:
        return None

"""Sends requests to an API server: its credentials, its connections, and its responses."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import os
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from enum import Enum
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from activator import __version__
from activator.discovery import kubernetes_package
from activator.discovery.backoff import Timings
from activator.discovery.source import SourceError
from activator.discovery.wire import (
    ConnectionLostError,
)
from activator.process.sockets import SocketKind, find_dead

if TYPE_CHECKING:
    import aiohttp


# Finds the cluster's address and credentials, as kubectl and client-go do.
#
# kubernetes_asyncio reads the files; it is imported only when it is needed. Counterpart:
# Knative's pkg/injection and client-go's clientcmd package.

HOME_KUBECONFIG = "~/.kube/config"


class ClusterConfigError(SourceError):
    """The configuration is unusable; the text says which setting to correct."""


async def load(kubeconfig: str | None, environ: Mapping[str, str]) -> Any:
    """Read configuration and credentials.

    Arguments:
        kubeconfig: path of a kubeconfig file, or several paths joined by ``:``. None or empty means
            the service account of this pod; outside of a cluster ``~/.kube/config``.
        environ: environment variables; they show whether this process runs in a cluster.

    Returns:
        kubernetes_asyncio's ``Configuration``, which has no types.

    Raises:
        ClusterConfigError: there is no usable configuration.
    """
    package = kubernetes_package.load()
    config, configuration = package.config, package.configuration()
    home = _path(HOME_KUBECONFIG)
    if kubeconfig:
        is_variable = kubeconfig == environ.get("KUBECONFIG")
        setting = "KUBECONFIG" if is_variable else "--kubeconfig"
        await _load_kubeconfig(kubeconfig, configuration, setting)
    elif environ.get("KUBERNETES_SERVICE_HOST"):
        try:
            config.load_incluster_config(configuration, try_refresh_token=False, environ=environ)
        except (config.ConfigException, OSError) as error:
            raise ClusterConfigError(
                f"in a cluster, but its service account cannot be used: {error} Mount the "
                "token (automountServiceAccountToken), or set KUBECONFIG"
            ) from error
    elif home.is_file():
        await _load_kubeconfig(str(home), configuration)
    else:
        raise ClusterConfigError(
            "no cluster: KUBERNETES_SERVICE_HOST is not set, so this is no pod, and there is "
            f"no {HOME_KUBECONFIG}. Set KUBECONFIG to a kubeconfig file. Without a cluster, "
            "`activator demo` serves and scales, and `activator local --manifests DIR` only serves"
        )
    return configuration


async def _load_kubeconfig(paths: str, configuration: Any, setting: str = "KUBECONFIG") -> None:
    config = kubernetes_package.load().config
    names = paths.split(os.pathsep)
    if not any(_path(name).is_file() for name in names):
        folder = next((name for name in names if _path(name).is_dir()), None)
        wrong = f"{paths}, which does not exist" if folder is None else f"{folder}, a folder"
        raise ClusterConfigError(f"{setting} names {wrong}: set it to a kubeconfig file")
    try:
        await config.load_kube_config(config_file=paths, client_configuration=configuration)
    except Exception as error:
        # The loader does not check the file, and fails with any exception.
        raise ClusterConfigError(
            f"the kubeconfig {paths} cannot be used: {describe(error)}; check it with `kubectl "
            f"config view`, or set {setting} to another file"
        ) from error


def _path(name: str) -> Path:
    return Path(name).expanduser()


async def authorization(configuration: Any) -> dict[str, str]:
    """Return the header field with the token; no field without a token."""
    settings = await configuration.auth_settings()
    value = settings.get("BearerToken", {}).get("value")
    # Handwritten token files end with a line feed, which no header field may contain.
    return {"Authorization": str(value).strip()} if value else {}


def transport(configuration: Any) -> tuple[object, ...]:
    """Return the values of a configuration that need a new connection if they change.

    The token is not among them.
    """
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


logger = logging.getLogger(__name__)


# Adapts aiohttp's responses, sockets and proxies for requests to an API server.
#
# Turns aiohttp's many errors into one. Importing aiohttp costs as much as kubernetes_asyncio, so
# it is imported only when it is needed.


class AiohttpResponse:
    """A response whose head has arrived; errors of aiohttp become ``ConnectionLostError``."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    @property
    def status(self) -> int:
        """Return the HTTP status."""
        return self._response.status

    @property
    def retry_after(self) -> float:
        """Return the seconds to wait, as the server requests; 0 without such a request."""
        value = self._response.headers.get("Retry-After", "")
        # API servers do not use the other form, a date.
        return float(value) if len(value) < 10 and value.isascii() and value.isdigit() else 0.0

    async def read(self, limit: int) -> bytes:
        """Return at most the first ``limit`` bytes of the body. Raises ``ConnectionLostError``."""
        body = b""
        async for chunk in self.chunks():
            body += chunk
            if len(body) >= limit:
                break
        return body[:limit]

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Raises ``ConnectionLostError``."""
        import aiohttp

        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ConnectionLostError(describe(error)) from error


def keep_alive(response: aiohttp.ClientResponse) -> None:
    """Set the socket options by which the kernel finds a dead peer.

    The socket of a short response may be closed already.
    """
    connection = response.connection
    transport = connection.transport if connection else None
    sock = transport.get_extra_info("socket") if transport else None
    if sock is None:
        return
    try:
        find_dead(sock, SocketKind.API_SERVER)
    except OSError:
        # The inactivity limit also finds a dead peer, but later.
        logger.debug("no TCP keep-alive on this connection", exc_info=True)


def environment_proxy(url: str) -> str | None:
    """Return the proxy for a URL by ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY``, as Go does.

    Python itself knows no address ranges in ``NO_PROXY``, which are common in clusters.

    Arguments:
        url: of the server.

    Returns:
        The proxy's URL; None if requests go directly, always so for loopback addresses.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxies = urllib.request.getproxies_environment()
    excepted = proxies.get("no", "").split(",")
    if host == "localhost" or _is_in(host, ["127.0.0.0/8", "::1/128", *excepted]):
        return None
    if urllib.request.proxy_bypass(parts.netloc):
        return None
    return proxies.get(parts.scheme)


def _is_in(host: str, ranges: list[str]) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    for text in ranges:
        try:
            if address in ipaddress.ip_network(text.strip(), strict=False):
                return True
        except ValueError:
            continue  # a name; proxy_bypass handles names
    return False


def describe(error: BaseException) -> str:
    """Return an error as text; some errors have no text of their own.

    aiohttp's text of a refused connection is Python's, with the address twice.
    """
    cause = getattr(error, "os_error", None)  # of aiohttp.ClientConnectorError
    if isinstance(cause, (ConnectionError, TimeoutError)) and cause.errno:
        why = os.strerror(cause.errno).lower()
        return f"the API server at {error.host}:{error.port} does not respond: {why}"  # type: ignore[attr-defined]
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# Sends requests to an API server, over connections whose credentials it reads again with age.
#
# It uses authentication, TLS and connections of kubernetes_asyncio. Counterpart: client-go's rest
# package.

#: Bytes of a response to ``send``: an object has at most 1.5 MiB, a list of API resources less.
_MOST_BODY: Final = 16 << 20
#: The name is that of the field manager of each write, which people see in ``managedFields``.
_HEADERS: Final = {"Accept": "application/json", "User-Agent": f"activator/{__version__}"}
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


#: The Content-Type of a PATCH: a JSON merge patch (RFC 7396).
MERGE_PATCH: Final = "application/merge-patch+json"
JSON: Final = "application/json"


class Meaning(Enum):
    """What the response to a request means for the object.

    DONE: the API server has what was sent. CONFLICT: another component has changed the object.
    ABSENT: it does not exist. UNAVAILABLE: try again later; with 401 the API server does not accept
    the token at the moment. FORBIDDEN, REFUSED: it stays so until a person changes something.
    """

    DONE = "done"
    CONFLICT = "conflict"
    ABSENT = "absent"
    UNAVAILABLE = "unavailable"
    FORBIDDEN = "forbidden"
    REFUSED = "refused"


def meaning_of(status: int) -> Meaning:
    """Return what the status of a response means; 0 if there was no response."""
    if 200 <= status < 300:
        return Meaning.DONE
    if status in (0, 401, 429) or status >= 500:
        return Meaning.UNAVAILABLE
    known = {403: Meaning.FORBIDDEN, 404: Meaning.ABSENT, 409: Meaning.CONFLICT}
    return known.get(status, Meaning.REFUSED)


class ApiRequest(NamedTuple):
    """A request: the arguments of ``ApiServer.send``."""

    method: str
    path: str
    body: bytes
    content_type: str = JSON


class ApiResponse(NamedTuple):
    """A whole response; status 0 stands for none, and then the message says why."""

    status: int
    body: bytes

    @property
    def is_ok(self) -> bool:
        """Whether the request succeeded."""
        return 200 <= self.status < 300

    @property
    def meaning(self) -> Meaning:
        """What it means for the object."""
        return meaning_of(self.status)

    def decoded(self) -> object:
        """Return the body as decoded from JSON; None if it is no JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    def message(self) -> str:
        """Return the text for people of a response that is not ok."""
        status = self.decoded()
        text = status.get("message") if isinstance(status, dict) else None
        if isinstance(text, str) and text:
            return text[:1000]
        return self.body[:200].decode("utf-8", "replace").strip()

    @property
    def problem(self) -> str:
        """Why the request failed, for people; empty if it did not."""
        if self.is_ok:
            return ""
        return f"{self.status}: {self.message()}" if self.status else self.message()


def no_response(why: str) -> ApiResponse:
    """Return what stands for a response that did not come."""
    return ApiResponse(0, json.dumps({"message": why}).encode())


class ApiServer:
    """Sends requests to an API server, with credentials.

    Arguments:
        kubeconfig: as for ``load``.
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
                await self._use(await load(self._kubeconfig, self._environ))

    async def close(self) -> None:
        """Close all connections."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def renew_credentials(self) -> None:
        """Read the credentials again before the next request: the server refused them."""
        self._is_expired = True

    @asynccontextmanager
    async def get(
        self, path: str, params: Mapping[str, str], silence: float
    ) -> AsyncIterator[AiohttpResponse]:
        """Send a GET, and yield the response after its head.

        Arguments:
            path: of the resource.
            params: the query.
            silence: seconds without a byte after which the connection counts as lost.

        Raises:
            ConnectionLostError: there is no connection, or it is lost.
        """
        import aiohttp

        times = aiohttp.ClientTimeout(
            total=None, sock_connect=self._timings.connect, sock_read=silence
        )
        async with self._request("GET", path, times, params=params) as response:
            yield response

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = JSON
    ) -> ApiResponse:
        """Send one request, and return the whole response, also of an error.

        A request that the server has refused unread is sent again: after 401 with new credentials,
        and after 429 when the server allows it. A request whose connection broke is not, unless
        its method is idempotent (RFC 9110 section 9.2.2): the server may have carried it out.

        Arguments:
            method: such as PATCH.
            path: with the query, if there is one.
            body: empty for none.
            content_type: of the body.

        Returns:
            One with status 0 if none comes within ``Timings.request`` seconds, or if there is no
            usable configuration. The server may have carried out the request.
        """
        try:
            async with asyncio.timeout(self._timings.request) as limit:
                response, retry_after = await self._send_once(method, path, body, content_type)
                if response.status == HTTPStatus.UNAUTHORIZED:
                    self.renew_credentials()
                    response, retry_after = await self._send_once(method, path, body, content_type)
                while response.status == HTTPStatus.TOO_MANY_REQUESTS and retry_after:
                    if asyncio.get_running_loop().time() + retry_after >= (limit.when() or 0.0):
                        break
                    await asyncio.sleep(retry_after)
                    response, retry_after = await self._send_once(method, path, body, content_type)
                return response
        except TimeoutError:
            return no_response(f"no response to {method} {path} within {self._timings.request:g} s")
        except (ConnectionLostError, ClusterConfigError) as error:
            return no_response(str(error))

    async def _send_once(
        self, method: str, path: str, body: bytes, content_type: str
    ) -> tuple[ApiResponse, float]:
        """Return the response, and the seconds to wait, as the server requests."""
        import aiohttp

        headers = {"Content-Type": content_type} if body else {}
        times = aiohttp.ClientTimeout(total=None, sock_connect=self._timings.connect)
        async with self._request(method, path, times, headers, data=body or None) as response:
            content = await response.read(_MOST_BODY + 1)
            if len(content) > _MOST_BODY:
                raise ConnectionLostError(f"the response has more than {_MOST_BODY} bytes")
            return ApiResponse(response.status, content), response.retry_after

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        times: aiohttp.ClientTimeout,
        headers: Mapping[str, str] = _NO_HEADERS,
        **more: Any,
    ) -> AsyncIterator[AiohttpResponse]:
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
                keep_alive(response)
                yield AiohttpResponse(response)
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
                configuration = await load(self._kubeconfig, self._environ)
            except ClusterConfigError as error:
                # A mounted file may be away for a moment while it is replaced.
                if old is None:
                    raise
                logger.warning("API server: the old credentials stay in use: %s", error)
                self._read_at = now
                self._is_expired = False
                return old
            if (
                old is not None
                and not self._is_expired
                and old.transport == transport(configuration)
            ):
                self._read_at = now
                old.authorization = await authorization(configuration)
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
            connection.authorization = await authorization(configuration)
        except BaseException:
            await connection.close()
            raise
        self._connection = connection
        self._is_expired = False
        self._read_at = asyncio.get_running_loop().time()
        return connection


class _Connection:
    """One HTTP session, and the header and the options of its requests.

    Attributes:
        users: number of requests in flight.
        retired: whether another connection has replaced this one.
        transport: the server, the TLS files and the proxy.
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
        self.transport = transport(configuration)

    async def close_if_unused(self) -> None:
        """Close a replaced connection after its last stream."""
        if self.retired and not self.users:
            await self.close()

    async def close(self) -> None:
        """Close the session and all its sockets."""
        await self.session.close()
        await self.client.close()

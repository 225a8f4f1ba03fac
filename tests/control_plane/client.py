"""Clients of a stand-in control plane in this process, without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlencode

from activator.discovery.api_server import ApiResponse, ApiServer, no_response
from activator.discovery.wire import ConnectionLostError
from activator.lab.control_plane.api import ApiKind
from activator.lab.control_plane.plane import ControlPlane
from activator.lab.control_plane.store import PlaneWatch
from activator.lab.http1 import HttpRequest, HttpResponse


def plane_request(
    method: str,
    target: str,
    body: bytes = b"",
    content_type: str = "application/json",
    agent: str = "",
) -> HttpRequest:
    """Return a request as a client of the API server sends it."""
    headers = (("Content-Type", content_type), ("User-Agent", agent))
    return HttpRequest(method, target, headers=headers, body=body)


def path_of(kind: ApiKind, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the path of an object or of a list; empty arguments are left out."""
    where = f"/namespaces/{namespace}" if namespace else ""
    rest = "".join(f"/{part}" for part in (name, subresource) if part)
    return f"{kind.root}{where}/{kind.plural}{rest}"


class InProcessClient(ApiServer):
    """Sends the requests of the scaler (scale.cluster) and of discovery (its base class).

    Attributes:
        renewals: how often the credentials were to be read again.
    """

    def __init__(self, plane: ControlPlane, agent: str = "activator") -> None:
        self._plane = plane
        self._agent = agent
        self.renewals = 0

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> ApiResponse:
        try:
            response = await self._plane.send(
                plane_request(method, path, body, content_type, self._agent)
            )
        except ConnectionError as error:
            return no_response(str(error))
        assert isinstance(response, HttpResponse), "a watch: use get"
        return ApiResponse(response.status, response.body)

    @asynccontextmanager
    async def get(  # type: ignore[override] # its response has the same methods
        self, path: str, params: Mapping[str, str], silence: float
    ) -> AsyncIterator[InProcessResponse]:
        """Get an object, or follow a watch, without a socket."""
        target = f"{path}?{urlencode(params)}" if params else path
        try:
            response = await self._plane.send(plane_request("GET", target, agent=self._agent))
        except ConnectionError as error:
            raise ConnectionLostError(str(error)) from None
        try:
            yield InProcessResponse(response)
        finally:
            if isinstance(response, PlaneWatch):
                self._plane.released(response)

    def renew_credentials(self) -> None:
        """See ApiServer."""
        self.renewals += 1


class InProcessResponse:
    """A response (as discovery.api_server.AiohttpResponse)."""

    retry_after = 0.0

    def __init__(self, response: HttpResponse | PlaneWatch) -> None:
        self._response = response

    @property
    def status(self) -> int:
        """See Response."""
        return 200 if isinstance(self._response, PlaneWatch) else self._response.status

    async def read(self, limit: int) -> bytes:
        """See Response."""
        return b"".join([chunk async for chunk in self.chunks()])[:limit]

    async def chunks(self) -> AsyncIterator[bytes]:
        """See Response."""
        if isinstance(self._response, HttpResponse):
            yield self._response.body
            return
        try:
            async for line in self._response.lines():
                yield line
        except ConnectionError as error:
            raise ConnectionLostError(str(error)) from None

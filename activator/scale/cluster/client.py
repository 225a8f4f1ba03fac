"""Adapts discovery's client of the API server to ``api.Api``."""

from __future__ import annotations

from typing import Protocol

from activator.discovery.credentials import ClusterConfigError
from activator.discovery.wire import ConnectionLostError, WholeResponse
from activator.scale.cluster.api import ApiResponse, ApiUnreachable


class Server(Protocol):
    """Sends single requests (discovery.api_server.ApiServer)."""

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> WholeResponse:
        """Return the response."""


class ClusterApi:
    """Sends requests to an API server (api.Api).

    Arguments:
        server: connected by the first request.
    """

    def __init__(self, server: Server) -> None:
        self._server = server

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> ApiResponse:
        """See api.Api."""
        try:
            return ApiResponse(*await self._server.send(method, path, body, content_type))
        except (ConnectionLostError, ClusterConfigError) as error:
            raise ApiUnreachable(str(error)) from error

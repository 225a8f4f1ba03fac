"""Adapts discovery's client of the API server to ``api.Api``."""

from __future__ import annotations

from activator.discovery.api_server import ApiServer, ClusterConfigError
from activator.discovery.wire import ConnectionLostError
from activator.scale.cluster.api import ApiResponse, ApiUnreachable


class ClusterApi:
    """Sends requests to an API server (api.Api).

    Arguments:
        server: connected by the first request.
    """

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> ApiResponse:
        """See api.Api."""
        try:
            return ApiResponse(*await self._server.send(method, path, body, content_type))
        except (ConnectionLostError, ClusterConfigError) as error:
            raise ApiUnreachable(str(error)) from error

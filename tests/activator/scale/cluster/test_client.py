from __future__ import annotations

import pytest

from activator.discovery.api_server import ApiServer, ClusterConfigError
from activator.discovery.wire import ConnectionLostError, WholeResponse
from activator.scale.cluster.api import ApiResponse, ApiUnreachable
from activator.scale.cluster.client import ClusterApi


class Server(ApiServer):
    """Respond with prepared responses and errors."""

    def __init__(self, *steps: WholeResponse | Exception) -> None:
        self._steps = list(steps)

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> WholeResponse:
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


async def test_an_error_response_is_a_response() -> None:
    api = ClusterApi(Server(WholeResponse(409, b'{"message": "changed"}')))
    response = await api.send("PATCH", "/x", b"{}")
    assert response == ApiResponse(409, b'{"message": "changed"}')
    assert response.message() == "changed"


@pytest.mark.parametrize("error", [ConnectionLostError("reset"), ClusterConfigError("no file")])
async def test_no_response_is_unreachable(error: Exception) -> None:
    with pytest.raises(ApiUnreachable, match=str(error)):
        await ClusterApi(Server(error)).send("GET", "/x")

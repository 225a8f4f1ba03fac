"""Waits for the API server, and checks whether the cluster is new enough.

It must not know the later requests. Knative's counterpart: the version check of
pkg/injection/sharedmain.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec
import tenacity

from activator.discovery.api_server import ApiServer, ClusterConfigError
from activator.discovery.backoff import Timings
from activator.discovery.source import SourceError
from activator.discovery.wire import UNDECODABLE, ConnectionLostError, ServerResponseError

logger = logging.getLogger(__name__)

_VERSION_BYTES = 65_536


class ClusterVersionError(SourceError):
    """The API server did not respond in time, or is too old."""


async def check(api: ApiServer, minimum: str, timings: Timings) -> str:
    """Wait for the API server, and check its version.

    Arguments:
        api: the server.
        minimum: the oldest accepted version, as in ``1.34`` or ``v1.34.0``.
        timings: interval and time-out of the requests.

    Returns:
        The server's version, as in ``v1.35.2``.

    Raises:
        ClusterConfigError: there is no usable configuration.
        ClusterVersionError: there is no response in time, or the server is older.
    """
    try:
        needed = _parts(minimum)
    except ValueError:
        raise ClusterConfigError(
            f"the minimum version {minimum!a} is no version: set KUBERNETES_MIN_VERSION to one "
            "such as v1.34.0"
        ) from None
    await api.connect()
    version = await _first_response(api, timings)
    if _parts(version) < needed:
        raise ClusterVersionError(
            f"Kubernetes {version} at {api.host} is older than {minimum}: upgrade it, "
            "or set KUBERNETES_MIN_VERSION to start anyway"
        )
    return version


async def _first_response(api: ApiServer, timings: Timings) -> str:
    """Repeat the request until a response. Raises ``ClusterVersionError`` after the time-out."""
    errors: list[str] = []
    loop = asyncio.get_running_loop()
    log_at = loop.time()

    def record(state: tenacity.RetryCallState) -> None:
        nonlocal log_at
        errors[:] = [str(state.outcome.exception())] if state.outcome else []
        if loop.time() >= log_at:
            log_at = loop.time() + timings.version_reminder
            logger.warning("waiting for the API server %s: %s", api.host, "".join(errors))

    try:
        async with asyncio.timeout(timings.version_limit):
            return await tenacity.AsyncRetrying(
                wait=tenacity.wait_fixed(timings.version_interval),
                retry=tenacity.retry_if_exception_type((ConnectionLostError, ServerResponseError)),
                before_sleep=record,
                sleep=asyncio.sleep,
            )(_request, api, timings.connect)
    except TimeoutError:
        raise ClusterVersionError(
            f"the API server {api.host} gave no version within {timings.version_limit:g} s: "
            f"{''.join(errors) or 'no response'}"
        ) from None


async def _request(api: ApiServer, silence: float) -> str:
    async with api.get("/version", {}, silence) as response:
        body = await response.read(_VERSION_BYTES)
        if response.status == 401:
            api.renew_credentials()
        if response.status != 200:
            raise ServerResponseError(response.status, "", response.retry_after)
    try:
        version = msgspec.json.decode(body)["gitVersion"]
        _parts(version)
    except (*UNDECODABLE, LookupError, TypeError, ValueError):
        raise ServerResponseError(200, "the response to /version has no version") from None
    return str(version)


def _parts(version: str) -> tuple[int, int, int]:
    """Return the numbers of a version, without pre-release and build, as Knative compares them."""
    numbers = version.removeprefix("v").partition("-")[0].partition("+")[0].split(".")
    major, minor, patch = (*numbers, "0", "0")[:3]
    for number in (major, minor, patch):
        if not (number.isascii() and number.isdigit()):  # int() takes more than that
            raise ValueError(f"{number!a} is no number")
    return int(major), int(minor), int(patch)

"""Decides whether a cluster is new enough, and waits for its API server before that.

It must not know what the cluster is asked for afterwards.
Knative's counterpart: the version check of pkg/injection/sharedmain.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec
import tenacity

from activator.discovery.api_server import ApiServer
from activator.discovery.backoff import Timings
from activator.discovery.credentials import ClusterConfigError
from activator.discovery.source import SourceError
from activator.discovery.wire import ConnectionLostError, ServerAnswerError

logger = logging.getLogger(__name__)

_VERSION_BYTES = 65_536


class ClusterVersionError(SourceError):
    """The cluster did not answer in time, or is too old."""


async def check(api: ApiServer, minimum: str, timings: Timings) -> str:
    """Waits for the API server and checks its version.

    Arguments:
        api: the server.
        minimum: the oldest version that will do, as in ``1.34`` or ``v1.34.0``.
        timings: how often and for how long to ask.

    Returns:
        The server's version, as in ``v1.35.2``.

    Raises:
        ClusterConfigError: there is no usable configuration.
        ClusterVersionError: no answer in time, or the server is older.
    """
    try:
        needed = _parts(minimum)
    except ValueError:
        raise ClusterConfigError(
            f"the minimum version {minimum!a} is none: set KUBERNETES_MIN_VERSION to v1.34.0"
            " or the like"
        ) from None
    await api.connect()
    version = await _first_answer(api, timings)
    if _parts(version) < needed:
        raise ClusterVersionError(
            f"Kubernetes {version} at {api.host} is older than {minimum}: upgrade it, "
            "or set KUBERNETES_MIN_VERSION to try nevertheless"
        )
    return version


async def _first_answer(api: ApiServer, timings: Timings) -> str:
    """Asks until there is an answer. Raises ``ClusterVersionError`` when time is up."""
    errors: list[str] = []
    loop = asyncio.get_running_loop()
    tell_at = loop.time()

    def remember(state: tenacity.RetryCallState) -> None:
        nonlocal tell_at
        errors[:] = [str(state.outcome.exception())] if state.outcome else []
        if loop.time() >= tell_at:
            tell_at = loop.time() + timings.version_reminder
            logger.warning("waiting for the API server %s: %s", api.host, "".join(errors))

    try:
        async with asyncio.timeout(timings.version_limit):
            return await tenacity.AsyncRetrying(
                wait=tenacity.wait_fixed(timings.version_interval),
                retry=tenacity.retry_if_exception_type((ConnectionLostError, ServerAnswerError)),
                before_sleep=remember,
                sleep=asyncio.sleep,
            )(_ask, api, timings.connect)
    except TimeoutError:
        raise ClusterVersionError(
            f"the API server {api.host} gave no version within {timings.version_limit:g} s: "
            f"{''.join(errors) or 'no answer'}"
        ) from None


async def _ask(api: ApiServer, silence: float) -> str:
    async with api.get("/version", {}, silence) as response:
        body = await response.read(_VERSION_BYTES)
        if response.status == 401:
            api.distrust_credentials()
        if response.status != 200:
            raise ServerAnswerError(response.status, "", response.retry_after)
    try:
        version = msgspec.json.decode(body)["gitVersion"]
        _parts(version)
    except (msgspec.MsgspecError, UnicodeDecodeError, LookupError, TypeError, ValueError):
        raise ServerAnswerError(200, "the answer to /version is none") from None
    return str(version)


def _parts(version: str) -> tuple[int, int, int]:
    """Compares as Knative does: numbers only, pre-releases and build marks cut off."""
    numbers = version.removeprefix("v").partition("-")[0].partition("+")[0].split(".")
    major, minor, patch = (*numbers, "0", "0")[:3]
    for number in (major, minor, patch):
        if not (number.isascii() and number.isdigit()):  # int() takes more than that
            raise ValueError(f"{number!a} is no number")
    return int(major), int(minor), int(patch)
